"""`orbitcc demo`: the main job in one command. RLlib trains a policy, two suites judge it, pictures show it."""

from __future__ import annotations

import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from orbitcc.commands.eval_ import as_dict, finish, new_folder
from orbitcc.commands.options import AsJson, Out

RECIPE, NAME, SHIPPED = "rllib-ppo-leo", "my-policy", "zenith"
SUITES = {
    "responsiveness": "six LEO paths of 300 s; rate and RTT change every 15 s, with an interruption at each change",
    "intra-rtt": "two flows with the same RTT share a link",
}
CONTROLLERS = ("cubic", "bbr3", "leocc:trigger=global")
LEARNERS = ("torch", "ray", "tensorboard")


def demo(
    out: Out = None,
    shipped: Annotated[
        bool, typer.Option("--shipped", help="Train nothing: evaluate the policy zenith, which ships (half a minute).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a policy with RLlib, and evaluate it beside Cubic, BBRv3, LeoCC and zenith (two to four minutes).

    Without the learners (torch, Ray) it evaluates zenith alone, as with --shipped. Called again with the same --out, it
    continues.
    """
    from orbitcc.agents import checkpoint

    folder = out or new_folder("demo")
    missing = [name for name in LEARNERS if find_spec(name) is None]
    policies = [SHIPPED] if SHIPPED in checkpoint.shipped() else []
    if not policies:
        _say(f"The policy {SHIPPED} is not installed.")
    trains = not shipped and not missing
    if missing and not shipped:
        _say(
            f"{missing[0]} is not installed, so the demo trains nothing and evaluates the policy {SHIPPED}. "
            "To train: pip install 'orbitcc[train]'"
        )
    parts = 2 * trains + len(SUITES)
    began = time.monotonic()
    if trains:
        _say(f"1/{parts} training a policy with RLlib on simulated LEO paths (recipe {RECIPE}; about a minute)")
        policies.insert(0, str(_trained(folder)))
        _say(f"2/{parts} drawing the learning curves")
        from orbitcc.training.curves import draw

        draw([folder / NAME], folder / "curves.png")
    made = {
        suite: _evaluated(f"{2 * trains + number}/{parts}", suite, folder / suite, policies, as_json)
        for number, suite in enumerate(SUITES, start=1)
    }
    if as_json:
        print(json.dumps(made, indent=2))
        return
    if trains:
        print(_lesson(made["responsiveness"]))
        print(f"curves: {folder / 'curves.png'}")
        print(_next(folder))
    _say(f"done in {time.monotonic() - began:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _trained(folder: Path) -> Path:
    """The folder of the run, trained to its end."""
    from orbitcc.agents.runs import CONFIG, RunFolder
    from orbitcc.training import loop
    from orbitcc.training import recipe as recipes

    plan, seed, path = recipes.load(RECIPE), 1, folder / NAME
    if (path / CONFIG).is_file():
        run = RunFolder(path)
    else:
        run = loop.new_run(plan, seed, folder, f"orbitcc train {RECIPE} --seed {seed}", NAME)
    result = loop.train(plan, seed, run, resume=run.recover(), command=str(run.config("command")["command"]))
    if result.exit_code:
        _say(f"the demo is not finished; continue with: orbitcc demo --out {folder}")
        raise typer.Exit(result.exit_code)
    return path


def _evaluated(part: str, name: str, folder: Path, policies: list[str], as_json: bool) -> dict[str, Any]:
    """The table of a suite as `orbitcc eval --json` has it."""
    from orbitcc.eval import contenders, provenance, suites
    from orbitcc.eval.runner import run_suite

    _say(f"{part} suite {name}: {SUITES[name]}")
    line_up = contenders.line_up(CONTROLLERS, policies)
    command = provenance.command_line()
    try:
        results = run_suite(suites.get(name), line_up, out_dir=folder, profile="quick", resume=True, command=command)
    except KeyboardInterrupt:
        _say(f"interrupted; finished runs are kept. Continue with: orbitcc demo --out {folder.parent}")
        raise typer.Exit(130) from None
    if as_json:
        from orbitcc.eval.report import write_report

        return as_dict(results, write_report(results, []))
    finish(results, line_up, as_json=False)
    return as_dict(results, folder / "report.html")


def _lesson(table: dict[str, Any]) -> str:
    """What the first table shows about the trained policy, in words."""
    found = {
        c["contender"]: (c["goodput_over_optimal"]["median"], c["delay_inflation"]["median"])
        for c in table["contenders"]
    }
    goodput, delay = found[NAME]
    better = [name for name in ("cubic", "bbr3") if goodput > found[name][0] and delay < found[name][1]]
    said = f"more goodput and a shorter delay than {' and '.join(better)}" if better else "no advantage in both"
    return (
        f"On LEO paths that it never saw in training, {NAME} has {said} (medians of {table['runs']} runs).\n"
        "Its weakness: it learned alone or beside itself, and yields to a Cubic flow on the same link."
    )


def _next(folder: Path) -> str:
    """The commands to go on with."""
    return f"""Go on with:
  tensorboard --logdir {folder}
  orbitcc eval geo-download --policy {folder / NAME} --controller cubic
  orbitcc train {RECIPE} --set agent_steps=2_000_000 --name longer"""
