"""`orbitcc demo`: the main job in one command. RLlib trains a policy, two suites judge it, pictures show it."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitcc.commands.eval_ import as_dict, finish
from orbitcc.commands.options import AsJson, Out, print_json, results_folder

if TYPE_CHECKING:
    from orbitcc.eval.results import Results

RECIPE, NAME, SHIPPED = "rllib-ppo-leo", "my-policy", "zenith"
SUITES = {
    "responsiveness": "six LEO paths of 300 s; rate and RTT change every 15 s, with an outage at each change",
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
    from orbitcc.common.extras import installing

    folder = results_folder(out, False, "demo")
    missing = [name for name in LEARNERS if find_spec(name) is None]
    policies = [SHIPPED] if SHIPPED in checkpoint.shipped() else []
    if not policies:
        _say(f"The policy {SHIPPED} is not installed.")
    trains = not shipped and not missing
    if missing and not shipped:
        _say(
            f"{missing[0]} is not installed, so the demo trains nothing and evaluates the policy {SHIPPED}. "
            f"To train, install {installing('train')}"
        )
    parts, again = 2 * trains + len(SUITES), f"orbitcc demo{' --shipped' * shipped} --out {folder}"
    began = time.monotonic()
    if trains:
        _say(f"1/{parts} training a policy with RLlib on simulated LEO paths (recipe {RECIPE}; about a minute)")
        policies.insert(0, str(_trained(folder)))
        _say(f"2/{parts} drawing the learning curves")
        from orbitcc.training.curves import draw

        draw([folder / NAME], folder / "curves.png")
    made = {
        suite: _evaluated(f"{2 * trains + number}/{parts}", suite, folder / suite, policies, as_json, again)
        for number, suite in enumerate(SUITES, start=1)
    }
    if as_json:
        tables = {suite: as_dict(results, folder / suite / "report.html") for suite, results in made.items()}
        print_json(tables)
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
    from orbitcc.agents.runs.run_folder import CONFIG, RunFolder
    from orbitcc.training import loop
    from orbitcc.training import recipe as recipes

    plan, seed, path = recipes.load(RECIPE), 1, folder / NAME
    if (path / CONFIG).is_file():
        run = RunFolder(path)
    else:
        run = loop.new_run(plan, seed, folder, f"orbitcc train {RECIPE} --seed {seed}", NAME)
    result = loop.train(plan, seed, run, resume=run.recover(), command=str(run.config("command")["command"]), again="")
    if result.exit_code:
        _say(f"the demo is not finished; continue with: orbitcc demo --out {folder}")
        raise typer.Exit(result.exit_code)
    return path


def _evaluated(part: str, name: str, folder: Path, policies: list[str], as_json: bool, again: str) -> Results:
    """The results of a suite; their table is printed and the report written."""
    from orbitcc.common import provenance
    from orbitcc.eval import contenders, suites
    from orbitcc.eval.runner import run_suite

    _say(f"{part} suite {name}: {SUITES[name]}")
    line_up = contenders.line_up(CONTROLLERS, policies)
    command = provenance.command_line()
    try:
        results = run_suite(suites.get(name), line_up, out_dir=folder, profile="quick", resume=True, command=command)
    except KeyboardInterrupt:
        _say(f"interrupted; finished runs are kept. Continue with: {again}")
        raise typer.Exit(130) from None
    if as_json:
        from orbitcc.eval.report import write_report

        write_report(results, [])
    else:
        finish(results, line_up, as_json=False)
    return results


def _lesson(results: Results) -> str:
    """What the first table shows about the trained policy, in words; runs of the same path are compared in pairs."""
    from orbitcc.eval.statistics import paired_difference, verdict

    words = {
        "goodput_over_optimal": {"better": "more", "worse": "less", "tied": "as much"},
        "delay_inflation": {"better": "a shorter", "worse": "a longer", "tied": "the same"},
    }

    who = {contender.label: contender for contender in results.contenders}

    def said(other: str, key: str) -> str:
        mine, theirs = (results.by_case(who[label], key) for label in (NAME, other))
        (metric,) = [m for m in results.suite.metrics if m.key == key]
        return words[key][verdict(paired_difference(mine, theirs), metric.better)]

    compared = [
        f"  beside {other}: {said(other, 'goodput_over_optimal')} goodput, {said(other, 'delay_inflation')} delay"
        for other in ("cubic", "bbr3")
    ]
    return "\n".join(
        [
            f"{NAME} on {results.runs} LEO paths that it never saw in training, path by path:",
            *compared,
            f"(as much, the same: {results.runs} paths do not tell the two apart)",
            "Its weakness: it learned alone or beside itself, and yields to a Cubic flow on the same link.",
        ]
    )


def _next(folder: Path) -> str:
    """The commands to go on with."""
    return f"""Go on with (in a checkout, first: source .venv/bin/activate):
  tensorboard --logdir {folder}
  orbitcc eval geo-download --policy {folder / NAME} --controller cubic
  orbitcc train {RECIPE} --set agent_steps=2_000_000 --name longer"""
