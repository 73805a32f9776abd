"""`orbitcc dataset`: what flows saw, did and were paid, as a Minari data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from orbitcc.agents.decisions import Episode


def dataset(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FILE", help="A name (`orbitcc list scenarios`) or a TOML file.")
    ],
    name: Annotated[str, typer.Option("--id", help="Of the data set, e.g. orbitcc/dumbbell-cubic-v0.")],
    flow: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[:param=value,...]", help="Who decides: one for all flows, or one for each. Repeat."),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(help="A policy that decides: a checkpoint's folder or name, or package.module:factory. Repeat."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="What is seen, done and paid: a name or a TOML file; default: the policy's.")
    ] = None,
    reward: Annotated[str | None, typer.Option(help="Another reward than the preset's, by name.")] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Worlds to play; each of their flows is an episode.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Of the first world; the next has the next one.")] = 1,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the scenario. Repeat.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder of data sets; default: Minari's own (MINARI_DATASETS_PATH).")
    ] = None,
) -> None:
    """Write flows' decisions as a Minari data set, one flow per episode (the extra `data`)."""
    from dataclasses import replace

    from orbitcc.agents import minari
    from orbitcc.agents.decisions import Actor, collect
    from orbitcc.commands.run import Progress, settings
    from orbitcc.envs import scenarios
    from orbitcc.envs.description.flows import Flow, parse_value
    from orbitcc.envs.description.scenario import ControllerSpec
    from orbitcc.envs.environments import presets
    from orbitcc.envs.errors import UnknownNameError
    from orbitcc.eval import provenance

    minari.check(name, root)
    parameters = {key: parse_value(value) for key, value in settings(changes or []).items()}
    if scenario in scenarios.SCENARIOS:
        for key in parameters:
            if key not in scenarios.SCENARIOS[scenario].params:
                raise UnknownNameError("--set", key, scenarios.SCENARIOS[scenario].params)
    loaded = scenarios.load(scenario, parameters)
    controllers = [Flow.parse(text).controller for text in flow or []]
    controllers += [ControllerSpec(name="agent", params={"path": path}) for path in agent or []]
    own = (Actor.of(controller).preset for controller in controllers)
    pieces = presets.preset(preset) if preset else next(filter(None, own), presets.preset("astraea"))
    if reward:
        pieces = replace(pieces, reward=reward)
    environment: dict[str, Any] = {"scenario": scenario, **parameters}
    if scenario.endswith(".toml"):
        environment["scenario"] = str(Path(scenario).absolute())

    with Progress(name) as progress:

        def told() -> Iterator[Episode]:
            for episode in collect(loaded, controllers, pieces=pieces, episodes=episodes, seed=seed):
                progress((episode.seed - seed + 1) / episodes)
                yield episode

        place, flows, decisions = minari.write(
            name,
            told(),
            pieces,
            environment,
            root=root,
            algorithm=", ".join(map(str, controllers)) or "as the scenario says",
            command=provenance.command_line(),
        )
    print(f"{flows} episodes, {decisions:,} decisions: {place}")
