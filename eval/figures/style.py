"""How things look: one colour per controller, a light and a dark theme for every picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from orbitcc.eval.results import Results

ThemeName = Literal["light", "dark"]

# Okabe and Ito's colour-blind safe set ("Color Universal Design", 2008), extended by two tones that stay
# apart from it in lightness. Lines of one controller that differ in parameters share the colour and differ in dashes.
CONTROLLER_COLOURS: Mapping[str, str] = {
    "cubic": "#0072B2",
    "reno": "#D55E00",
    "bbr": "#B8860B",
    "bbr3": "#E69F00",
    "satcp": "#56B4E9",
    "leocc": "#7A4B2A",
    "vivace": "#CC79A7",
    "hybla": "#5B5EA6",
    "westwood": "#4F6D7A",
    "illinois": "#8E3B6B",
    "vegas": "#5F8A3A",
    "copa": "#117A8B",
    "c4": "#C0392B",
    "astraea": "#009E73",
    "udp": "#8A8F98",
}
AGENT_COLOURS = ("#009E73", "#AA3377", "#6B8E23", "#882255")
"""Learned controllers without a colour of their own take these in the order they are named."""

DASHES: tuple[Any, ...] = ("solid", (0, (4.5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.6, 1.2, 1.6)))


@dataclass(frozen=True)
class Line:
    """How one contender or flow is drawn."""

    colour: str
    dashes: Any


@dataclass(frozen=True)
class Theme:
    """The colours of a page and of the pictures on it."""

    name: ThemeName
    page: str
    ink: str
    muted: str
    grid: str
    area: str
    edge: str
    outage: str
    base_rtt: str

    def tone(self, colour: str) -> str:
        """A controller's colour, lifted on a dark page so that it keeps its contrast."""
        return mix(colour, "#FFFFFF", 0.28) if self.name == "dark" else colour

    def rc(self) -> Any:
        """Matplotlib settings, for `rc_context` (whose type lists every setting there is)."""
        return {
            "figure.facecolor": self.page,
            "savefig.facecolor": self.page,
            "axes.facecolor": self.page,
            "axes.edgecolor": self.edge,
            "axes.labelcolor": self.muted,
            "axes.titlecolor": self.ink,
            "axes.titlelocation": "left",
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "axes.labelsize": 9,
            "axes.linewidth": 0.8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": self.grid,
            "grid.linewidth": 0.7,
            "text.color": self.ink,
            "xtick.color": self.edge,
            "ytick.color": self.edge,
            "xtick.labelcolor": self.muted,
            "ytick.labelcolor": self.muted,
            "xtick.labelsize": 8.5,
            "ytick.labelsize": 8.5,
            "xtick.major.size": 3,
            "ytick.major.size": 0,
            "legend.frameon": False,
            "legend.fontsize": 9,
            "lines.linewidth": 1.5,
            "lines.solid_capstyle": "round",
            "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture on every machine
            "font.size": 9,
        }


LIGHT = Theme("light", "#FFFFFF", "#1B1F24", "#57606A", "#ECEEF1", "#EEF1F5", "#B6BDC6", "#C0392B", "#8B1E3F")
DARK = Theme("dark", "#14181D", "#E8EBEF", "#A3ACB8", "#262C34", "#232A33", "#4A535F", "#FF7B6B", "#FF9DB0")
THEMES: Mapping[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}


def mix(colour: str, other: str, share: float) -> str:
    """Blend two `#RRGGBB` colours; share = how much of the other."""
    pairs = [(int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def lines(contenders: Sequence[tuple[str, str]]) -> dict[str, Line]:
    """Label -> line for (label, controller name) pairs: colour by controller, dashes by how often it came before."""
    chosen: dict[str, Line] = {}
    seen: dict[str, int] = {}
    for (label, _), colour in zip(contenders, _colours([name for _, name in contenders], by_flow=False), strict=True):
        chosen[label] = Line(colour, DASHES[seen.get(colour, 0) % len(DASHES)])
        seen[colour] = seen.get(colour, 0) + 1
    return chosen


def lines_of(results: Results) -> dict[str, Line]:
    """How each contender of the results is drawn, by label."""
    return lines([(contender.label, contender.controller) for contender in results.contenders])


def flow_colours(controllers: Sequence[str], theme: Theme) -> list[str]:
    """One colour per flow: its controller's, shaded from dark to light where several flows share one."""
    base = _colours(controllers, by_flow=True)
    seen: dict[str, int] = {}
    chosen = []
    for own in base:
        rank = seen.get(own, 0)
        seen[own] = rank + 1
        colour = theme.tone(own)
        if base.count(own) > 1:
            shade = -0.35 + 0.85 * rank / (base.count(own) - 1)
            colour = mix(colour, "#000000", -shade) if shade < 0 else mix(colour, "#FFFFFF", shade)
        chosen.append(colour)
    return chosen


def _colours(controllers: Sequence[str], *, by_flow: bool) -> list[str]:
    """The base colour of each. A variant (`cubic-nohystart`) has its family's; strangers share by flow, not by run."""
    chosen: list[str] = []
    strangers: dict[str, str] = {}
    for i, name in enumerate(controllers):
        own = CONTROLLER_COLOURS.get(name) or CONTROLLER_COLOURS.get(name.split("-")[0])
        if own is None:
            key = name if by_flow else f"{name} {i}"  # two checkpoints are both called `agent`
            own = strangers.setdefault(key, AGENT_COLOURS[len(strangers) % len(AGENT_COLOURS)])
        chosen.append(own)
    return chosen
