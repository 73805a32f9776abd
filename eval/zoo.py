"""A policy for other people: its README from its card, its picture, and its way to the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from orbitcc.agents import checkpoint, hub
from orbitcc.agents.model_card import ModelCard
from orbitcc.agents.registry import policy_spec
from orbitcc.common.errors import OrbitccError
from orbitcc.envs import scenarios
from orbitcc.envs.backends.simulator import simulate
from orbitcc.eval.figures import style
from orbitcc.eval.figures.base import render, staircase
from orbitcc.eval.figures.style import LIGHT

PICTURE, README = "run.png", "README.md"
SCENARIO, SHOWN_S, BIN_S = "leo-responsiveness", 90.0, 0.5
"""The path of the picture, how much of it, and the length of a point."""
_UNITS = {"rate_mbps": "Mbit/s", "base_rtt_ms": "ms", "buffer_bdp": "BDP", "loss": "", "flows": ""}
_RANGES = {
    "rate_mbps": "rate", "base_rtt_ms": "base RTT", "buffer_bdp": "buffer", "loss": "random loss", "flows": "flows",
}  # fmt: skip
_SCORES = {
    "utilisation": "use of the link",
    "queue_delay_ratio": "queueing delay / unloaded RTT",
    "jain": "Jain's index",
    "loss": "loss",
    "score": "score",
}


@dataclass(frozen=True)
class PolicyWords:
    """What a card does not say: what a policy is, when to take it, and what it does badly. Commands: how to try it."""

    about: str = ""
    use: str = ""
    weakness: str = ""
    commands: Sequence[str] = ()


def readme(card: ModelCard, name: str, words: PolicyWords) -> str:
    """The README of a policy: picture, when to use it, one table from its card. name: as in `--policy NAME`."""
    commands = words.commands or (f"orbitcc eval responsiveness --policy {name} --controller cubic",)
    parts = [
        f"# {card.name}",
        words.about or f"{card.description}.",
        f"![Above: the rates that {card.name} and Cubic deliver, each alone on a LEO path, and the available rate. "
        f"Below: their RTTs and the RTT of the empty path.]({PICTURE})",
        f"**When to use it.** {words.use}" if words.use else "",
        f"**What it does badly.** {words.weakness}" if words.weakness else "",
        "\n".join(f"    {command}" for command in commands),
        "| | |\n|---|---|\n" + "\n".join(f"| {key} | {value} |" for key, value in _table(card).items()),
        "`card.json` has every setting, the versions and all scores. The files hold numbers and JSON, no code.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(card: ModelCard) -> dict[str, str]:
    seen, layers = card.training_range, " → ".join(str(layer.units) for layer in card.layers)
    network = f"{card.observation.dim} inputs → {layers} units"
    if card.gate is not None:
        network += f", weighed by a network of {' → '.join(str(layer.units) for layer in card.gate.layers)}"
    every = f"{card.interval_rtts:g} RTT, at least {card.interval_least_ms:g} ms"
    found = {"network": network, "decides every": every if card.interval_rtts else f"{card.interval_ms:g} ms"}
    found |= {"observation, action": f"`{card.observation.preset}`, `{card.action.preset}`"}
    if card.training is not None:
        found["trained by"] = f"`{card.training.command}`"
        found["training"] = f"{card.training.agent_steps:,} decisions in {card.training.wall_minutes:g} minutes"
    if card.imported is not None:
        found["imported from"] = f"{card.imported.source} (licence: {card.imported.licence})"
    limits = {key: getattr(seen, key, None) for key in _RANGES}
    ranges = [
        f"{_RANGES[key]} {' to '.join(f'{limit:g}' for limit in both)} {_UNITS[key]}".rstrip()
        for key, both in limits.items()
        if both
    ]
    held: Mapping[str, Any] = card.scores.get("heldout", {}) | card.scores
    scores = [f"{title} {held[key]:.3g}" for key, title in _SCORES.items() if isinstance(held.get(key), int | float)]
    for title, values in (("trained on", ranges), ("on held-out worlds", scores)):
        if values:
            found[title] = ", ".join(values)
    if card.safety_filter is not None:
        found["safety filter"] = f"a window of at most {card.safety_filter.max_bdp:g} BDP; Cubic outside its range"
    return found


def picture(policy: str) -> bytes:
    """A PNG of the policy and Cubic, each alone on one LEO path: rates above, RTTs below.

    Raises:
        OrbitccError: the policy cannot be used.
    """
    scenario = scenarios.get(SCENARIO).changed(duration_s=SHOWN_S)
    specs = {"cubic": scenario.flows[0].controller.parse("cubic"), "policy": policy_spec(policy)}
    runs = {label: simulate(scenario.with_controller(spec), record_interval_s=BIN_S) for label, spec in specs.items()}
    colours = style.flow_colours(["cubic", "policy"], LIGHT)
    with mpl.rc_context(LIGHT.rc()):
        figure = Figure(figsize=(8, 4.2))
        above, below = figure.subplots(2, 1, sharex=True, gridspec_kw={"hspace": 0.35})
        staircase(above, [(float(t), float(c)) for t, c in _capacity(runs["cubic"])], SHOWN_S, LIGHT)
        for (label, run), colour in zip(runs.items(), colours, strict=True):
            name = "Cubic" if label == "cubic" else checkpoint.load(policy).card.name
            above.plot(run.t_s, run.flows["goodput_mbps"][:, 0], color=colour, linewidth=1.4, label=name)
            below.plot(run.t_s, run.flows["srtt_ms"][:, 0], color=colour, linewidth=1.4)
        base = [scenario.base_rtt_ms(0, t) for t in runs["cubic"].t_s]
        below.plot(runs["cubic"].t_s, base, color=LIGHT.muted, linewidth=1, label="RTT of the empty path")
        above.set_title("Goodput, Mbit/s (grey: available rate)")
        below.set_title("RTT, ms (grey: of the empty path)")
        below.set_xlabel("seconds")
        for ax in (above, below):
            ax.set_ylim(bottom=0)
            ax.set_xlim(0, SHOWN_S)
        above.legend(loc="lower right", ncols=2, frameon=False)
    return render(figure, dpi=90)


def _capacity(run: Any) -> np.ndarray:
    """The available rate as steps: f64[n, 2] of seconds and Mbit/s."""
    values = run.links["capacity_mbps"].min(axis=1)
    change = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    return np.column_stack([run.t_s[change] - BIN_S, values[change]])


def push(folder: Path, repository: str, words: PolicyWords, *, private: bool = False) -> str:
    """Upload a checkpoint with README and picture to the Hugging Face hub; returns its address.

    Raises:
        OrbitccError: the checkpoint is damaged, the name is not OWNER/NAME, or the hub refuses.
    """
    loaded = checkpoint.load(folder)
    name = hub.PREFIX + hub.checked(repository)
    about = {"library_name": "orbitcc", "tags": ["congestion-control", "reinforcement-learning", "satellite", "tcp"]}
    front = "\n".join(f"{key}: {value}" for key, value in about.items())
    text = f"---\n{front}\n---\n\n{readme(loaded.card, name, words)}"
    if re.search(r"[^\x09\x0a\x20-\U0010ffff]", text):
        raise OrbitccError("card", loaded.card.name, "a card whose texts have no control characters")
    files = {
        checkpoint.CARD: (loaded.path / checkpoint.CARD).read_bytes(),
        checkpoint.WEIGHTS: (loaded.path / checkpoint.WEIGHTS).read_bytes(),
        README: text.encode(),
        PICTURE: picture(str(folder)),
    }
    return hub.upload(repository, files, private=private)
