"""`orbitcc list`: names of scenarios, policies and so on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orbitcc.commands.options import AsJson, print_json

KINDS = ("scenarios", "envs", "presets", "controllers", "suites", "recipes", "policies", "places", "statistics")


def list_names(
    what: Annotated[
        str | None,
        typer.Argument(metavar=f"[{'|'.join(KINDS)}]", help="One kind. Default: all.", autocompletion=lambda: KINDS),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List scenarios, environments, presets, controllers, suites, recipes, policies, places and statistics."""
    from orbitcc.common.errors import UnknownNameError

    if what is not None and what not in KINDS:
        raise UnknownNameError("list", what, KINDS)
    found = {kind: _entries(kind) for kind in (KINDS if what is None else (what,))}
    if as_json:
        print_json(found)
        return
    _print(found)


def _entries(kind: str) -> list[dict[str, Any]]:
    if kind == "scenarios":
        from orbitcc.envs.scenarios import DISTRIBUTIONS, MEASURED, SCENARIOS

        plain = [
            {"name": s.name, "description": s.description, "params": {k: _plain(v) for k, v in s.params.items()}}
            for s in SCENARIOS.values()
        ]
        return plain + [
            {"name": d.name, "description": d.description, "distribution": True}
            for d in (*DISTRIBUTIONS.values(), *MEASURED.values())
        ]
    if kind == "envs":
        from orbitcc.envs.environments.registration import IDS, TEST_IDS, TRACE_IDS
        from orbitcc.envs.scenarios import DISTRIBUTIONS, MEASURED, SCENARIOS

        described = {**SCENARIOS, **DISTRIBUTIONS, **MEASURED}
        found = [
            {"name": name, "description": described[scenario].description}
            for name, scenario in (IDS | TRACE_IDS).items()
        ]
        tests = {name: f"for tests: run 1 of {scenario}, as in the suites" for name, scenario in TEST_IDS.items()}
        return found + [{"name": name, "description": text} for name, text in tests.items()]
    if kind == "presets":
        from orbitcc.envs.environments.presets import PRESETS

        return [{"name": p.name, "description": p.description} for p in PRESETS.values()]
    if kind == "controllers":
        from orbitcc.envs import controllers

        known = [controllers.get(name) for name in controllers.names()]
        return [
            {
                "name": c.name,
                "kind": c.kind,
                "description": c.description,
                "paper": c.paper,
                "params": {
                    name: {"default": p.default, "description": p.description, "choices": list(p.choices)}
                    for name, p in c.params.items()
                },
            }
            for c in known
        ]
    if kind == "suites":
        from orbitcc.eval import suites

        return [{"name": name, "description": suites.get(name).title} for name in suites.names()]
    if kind == "recipes":
        from orbitcc.training import recipe

        return [{"name": name, "description": recipe.load(name).description} for name in recipe.names()]
    if kind == "statistics":
        from orbitcc.envs.environments.presets import STATISTICS

        return [{"name": s.name, "description": f"{s.meaning} [{s.unit}; {s.source}]"} for s in STATISTICS]
    if kind == "places":
        from orbitcc.envs.orbits.places import CITIES

        return [
            {"name": name, "description": f"{c.latitude_deg:g},{c.longitude_deg:g}"}
            for name, c in sorted(CITIES.items())
        ]
    from orbitcc.agents import checkpoint

    return [
        {"name": name, "description": checkpoint.read_card(checkpoint.SHIPPED / name).description}
        for name in checkpoint.shipped()
    ]


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else str(value)


def _print(found: dict[str, list[dict[str, Any]]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from orbitcc.common.names import terminal

    console = Console()
    for kind, entries in found.items():
        table = Table(title=kind, title_justify="left", title_style="bold", box=None, show_header=False, padding=(0, 2))
        table.add_column(style="cyan", no_wrap=True)
        table.add_column()
        for entry in entries:
            text = terminal(entry["description"])
            if entry.get("paper"):
                text += f" [dim]({terminal(entry['paper'])})[/dim]"
            params = entry.get("params") or {}
            defaults = {k: v["default"] if isinstance(v, dict) else v for k, v in params.items()}
            shown = [f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in defaults.items()]
            if shown:
                text += f"\n[dim]{terminal('  '.join(shown))}[/dim]"
            table.add_row(entry["name"], text)
        if not entries:
            table.add_row("[dim](none)[/dim]", "")
        console.print(table)
        console.print()
