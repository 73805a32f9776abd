"""`orbitcc dataset`: observations, actions and rewards of flows as a Minari data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitcc.commands.options import LAST_SEED, Policies, Trust, each_once

if TYPE_CHECKING:
    from orbitcc.agents.data.decisions import FlowEpisode


def dataset(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO_OR_FILE", help="A name (`orbitcc list scenarios`) or a TOML file.")
    ],
    name: Annotated[str, typer.Option("--id", help="Of the data set, e.g. orbitcc/dumbbell-cubic-v0.")],
    flow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:param=value,...]", help="The controller of all flows, or one per flow. Repeatable."
        ),
    ] = None,
    policy: Policies = None,
    preset: Annotated[
        str | None, typer.Option(help="Observation, action and reward: a name or a TOML file. Default: the policy's.")
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="Name of a reward function to use instead of the preset's.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Worlds to simulate; each of their flows is an episode.")] = 10,
    seed: Annotated[
        int, typer.Option(min=0, max=LAST_SEED, help="Seed of the first world; each further world adds one.")
    ] = 1,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set a parameter of the scenario. Repeatable.", callback=each_once
        ),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Folder of data sets. Default: Minari's (MINARI_DATASETS_PATH).")
    ] = None,
    trust: Trust = None,
) -> None:
    """Write the decisions of flows as a Minari data set, one flow per episode (extra `data`)."""
    from dataclasses import replace

    from orbitcc.agents.data import minari
    from orbitcc.agents.data.decisions import Actor, collect
    from orbitcc.agents.registry import policy_spec
    from orbitcc.commands.run import RunProgress, settings
    from orbitcc.common import provenance
    from orbitcc.common.errors import OrbitccError, UnknownNameError
    from orbitcc.envs import scenarios
    from orbitcc.envs.description.flows import Flow, parse_value
    from orbitcc.envs.environments import presets

    minari.check(name, root)
    parameters = {key: parse_value(value, key) for key, value in settings(changes or []).items()}
    if scenario in scenarios.SCENARIOS:
        for key in parameters:
            if key not in scenarios.SCENARIOS[scenario].params:
                raise UnknownNameError("--set", key, scenarios.SCENARIOS[scenario].params)
    elif parameters and scenario not in scenarios.MEASURED:
        allowed = "a parameter of a named scenario; of other worlds, a file that has the change"
        raise OrbitccError("--set", ", ".join(parameters), allowed)
    loaded = scenarios.for_training(scenarios.named(scenario), parameters)
    named = [Flow.parse(text) for text in flow or []]
    for text, parsed in zip(flow or [], named, strict=True):
        if parsed.model_fields_set - {"controller"}:
            raise OrbitccError("--flow", text, "NAME[:param=value,...]: all else of a flow is the scenario's")
    controllers = [parsed.controller for parsed in named]
    controllers += [policy_spec(text) for text in policy or []]
    own = (Actor.of(controller).preset for controller in controllers)
    chosen = presets.preset(preset) if preset else next(filter(None, own), presets.preset())
    if reward:
        chosen = replace(chosen, reward=reward)
    environment: dict[str, Any] = {"scenario": scenario, **parameters}
    if scenario.endswith(".toml"):
        environment["scenario"] = str(Path(scenario).absolute())

    with RunProgress(name) as progress:

        def episodes_with_progress() -> Iterator[FlowEpisode]:
            for episode in collect(loaded, controllers, preset=chosen, episodes=episodes, seed=seed):
                progress((episode.seed - seed + 1) / episodes)
                yield episode

        place, flows, decisions = minari.write(
            name,
            episodes_with_progress(),
            chosen,
            environment,
            root=root,
            algorithm=", ".join(map(str, controllers)) or "as the scenario says",
            command=provenance.command_line(),
        )
    print(f"{flows} episodes, {decisions:,} decisions: {place}")
