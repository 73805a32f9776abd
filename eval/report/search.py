"""The page of a search: each world with what is odd about it, its picture, and the command that runs it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from orbitcc.common.files import atomic_write_bytes
from orbitcc.envs.backends.simulator import simulate
from orbitcc.eval.figures.base import render
from orbitcc.eval.figures.style import THEMES, ThemeName, lines
from orbitcc.eval.figures.worlds import draw_world
from orbitcc.eval.report.page import picture, write_page
from orbitcc.eval.search import Found, Search
from orbitcc.eval.search.regret import entered


def write_search(search: Search, found: Sequence[Found], commands: Mapping[str, str], command: str) -> Path:
    """Draw every world (in figures/) and write report.html."""
    for old in search.out_dir.glob("figures/*.png"):
        old.unlink()
    target, against = search.target.label, " or ".join(one.label for one in search.against)
    shown = [_world(search, one, name, commands[name]) for name, one in zip(commands, found, strict=True)]
    worst = f"The worst costs {found[0].regret:.2f}." if found else "None costs much."
    return write_page(
        search.out_dir / "report.html",
        "search",
        kicker="OrbitCC search",
        title=f"Where {target} loses to {against}",
        lead=f"<strong>{len(found)}</strong> kinds of worlds, of {search.trials} tried. {worst}",
        about=html.escape(
            f"Objective: {search.objective}. Every world lies within the ranges that {search.space.name} declares, "
            "and was shrunk towards the usual as far as nine tenths of the regret stay."
        ),
        worlds="\n".join(shown) or "<p>Nothing was found.</p>",
        command=command,
        own_facts={"objective": search.objective, "ranges": search.space.name, "trials": str(search.trials)},
    )


def words(search: Search, one: Found) -> str:
    """What of a world differs from the usual, with its values."""
    words_of = []
    for p in search.space.parameters:
        value = one.values[p.name]
        if value != p.default:
            what = p.name.removesuffix(f"_{p.change}").replace("_", " ").removesuffix(" ms").removesuffix(" mbps")
            when = f" from second {p.change * 10}" if p.change else ""
            words_of.append(f"{what.removesuffix(' bdp')} {value:.3g} {p.unit}".rstrip() + when)
    return ", ".join(words_of) or "nothing: the usual world"


def _world(search: Search, one: Found, name: str, command: str) -> str:
    world = search.world(one.values)
    contenders = (search.target, *search.against)
    drawn = lines([(c.label, c.controller) for c in contenders])
    runs = {c.label: simulate(entered(world, c), record_interval_s=0.1) for c in contenders}
    files: dict[ThemeName, bytes] = {}
    for theme_name, theme in THEMES.items():
        files[theme_name] = render(draw_world(runs, drawn, theme), dpi=110)
        suffix = "" if theme_name == "light" else "-dark"
        atomic_write_bytes(search.out_dir / "figures" / f"{name}{suffix}.png", files[theme_name])
    odd = html.escape(words(search, one))
    return (
        f"<h3>{name}: {html.escape(search.objective)} regret {one.regret:.2f}</h3>\n"
        f"<p>{odd[:1].upper()}{odd[1:]}. Met {one.met} time{'s' if one.met > 1 else ''} among the worst.</p>\n"
        f"{picture(files, f'World {name}', odd)}\n<pre><code>{html.escape(command)}</code></pre>"
    )
