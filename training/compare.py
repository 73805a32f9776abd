"""Compares a checkpoint with classical controllers and trivial policies, on worlds that did not choose it.

    python -m orbitcc.training.compare CHECKPOINT [--worlds 32] [--seed 2000000] [--write]

`best/` is chosen on the recipe's held-out worlds, so its score there flatters it; this draws others. `--write` keeps
the result in the card.
"""

import argparse
import math
from collections.abc import Sequence
from typing import Any

from orbitcc.agents import checkpoint
from orbitcc.agents.runs.run_folder import CONFIG, RunFolder
from orbitcc.common.errors import OrbitccError, StateError
from orbitcc.envs import controllers, scenarios
from orbitcc.envs.description.scenario import Scenario, ScenarioDistribution
from orbitcc.eval.heldout_metrics import Figures, print_figures
from orbitcc.training import recipe as recipes
from orbitcc.training.heldout import HeldOut, constant, uniform

CONSTANTS = (-1.0, -0.01, 0.0, 0.01, 1.0)
"""Constant actions for comparison. Any action except 0 changes the window by at least a packet."""

CLASSICAL = ("cubic", "reno")


def trained_on(loaded: checkpoint.Checkpoint) -> tuple[str | Scenario | ScenarioDistribution, recipes.Evaluation]:
    """The worlds on which a policy was trained, and how it was evaluated there: from its run folder, or else the
    scenario that its card names and the defaults, or else those of its recipe.

    Raises:
        OrbitccError: the recipe is not here, or has other worlds by now.
    """
    run, card = RunFolder(loaded.path.parent), loaded.card
    if (run.path / CONFIG).is_file():
        stored = run.config("recipe")
        plan = recipes.Recipe.build(stored["recipe"])
        if stored.get("worlds", plan.world_digest()) != plan.world_digest():
            raise StateError("checkpoint", f"the worlds of {run.path / CONFIG} have changed since the training began")
        return plan.held_out_world(), plan.evaluation
    if card.training is None or card.training_range.scenario in scenarios.names():
        print(f"worlds and score: {card.training_range.scenario} with its default settings; the run folder is not here")
        return card.training_range.scenario, recipes.Evaluation()
    name, said = card.training.recipe, card.training_range.scenario
    for learner in recipes.LEARNERS if name not in recipes.names() else ():
        name = name.removesuffix(f"-{learner}")
    plan = recipes.load(name)
    if plan.scenario_name not in said.split():
        allowed = f"one whose worlds are here ({said}; the recipe {name} has {plan.scenario_name})"
        raise OrbitccError("checkpoint", card.name, allowed)
    return plan.held_out_world(), plan.evaluation


def compare(name_or_path: str, worlds: int = 32, seed: int = 2_000_000) -> dict[str, Figures]:
    """Figures by contender: the policy, classical controllers, the best constant policy, a uniformly random one.

    The first three have all held-out metrics and the `score` of the policy's recipe, the others only a reward.
    """
    loaded = checkpoint.load(name_or_path)
    if loaded.card.name in CLASSICAL:
        raise OrbitccError("checkpoint", loaded.card.name, "a policy that does not have the name of a controller")
    where, evaluation = trained_on(loaded)
    if seed == evaluation.seed:
        raise OrbitccError("--seed", seed, "another than evaluation.seed of the recipe, whose worlds chose best/")
    weights = evaluation.score
    heldout = HeldOut(where, loaded.preset, worlds, seed)
    scores: dict[str, Figures] = {loaded.card.name: heldout.score(loaded.policy)}
    for name in CLASSICAL:
        controller, _ = controllers.make(name, {})
        scores[name] = heldout.run(controller)
    for name, figures in scores.items():
        if name not in CLASSICAL or not weights.reward:  # they have no reward
            figures["score"] = weights.score(figures)
    scores["best constant action"] = {"reward": max(heldout.reward(constant(value)) for value in CONSTANTS)}
    scores["uniformly random"] = {"reward": heldout.reward(uniform(seed))}
    return scores


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m orbitcc.training.compare", description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--worlds", type=int, default=32)
    parser.add_argument("--seed", type=int, default=2_000_000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args(argv)
    for field, least in (("worlds", 1), ("seed", 0)):
        if getattr(arguments, field) < least:
            parser.error(f"--{field}: {getattr(arguments, field)} is not allowed; allowed: {least} or more")
    try:
        scores = compare(arguments.checkpoint, arguments.worlds, arguments.seed)
    except OrbitccError as error:
        parser.exit(2, f"error: {error}\n")
    print_figures(scores)
    if arguments.write:
        folder = checkpoint.resolve(arguments.checkpoint)
        card, tensors = checkpoint.read(folder)
        table: dict[str, Any] = {"worlds": arguments.worlds, "seed": arguments.seed}
        for name, row in scores.items():
            table[name] = {key: round(value, 5) for key, value in row.items() if math.isfinite(value)}
        checkpoint.save(folder, card.model_copy(update={"scores": {**card.scores, "test": table}}), tensors)


if __name__ == "__main__":
    main()
