"""Trains a recipe with several seeds, each in its own process or on a cluster, and summarises them."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orbitcc.agents.runs.run_folder import RunFolder
from orbitcc.common.errors import OrbitccError
from orbitcc.common.names import plain
from orbitcc.eval.heldout_metrics import failures, print_figures
from orbitcc.eval.statistics import Aggregate, aggregate
from orbitcc.training.fleet import fleet
from orbitcc.training.loop import DIVERGED, INTERRUPTED, UNTRAINED, Interrupt, TrainingResult
from orbitcc.training.remote import Job
from orbitcc.training.resume import check_state


@dataclass(frozen=True)
class SeedResult:
    """The result of a seed: the exit code of its process and the result in its folder (None: nothing was saved)."""

    seed: int
    run: RunFolder
    code: int
    outcome: TrainingResult | None

    @property
    def status(self) -> str:
        known = {0: "finished", DIVERGED: "failed", INTERRUPTED: "interrupted", -signal.SIGTERM: "interrupted"}
        return known.get(self.code, "crashed")

    @property
    def counts(self) -> bool:
        """Is it part of the statistics? Diverged seeds are; without them the statistics would be too good."""
        return self.outcome is not None and self.status in ("finished", "failed")


def train_all(jobs: Sequence[Job], at_once: int, ray: str | None = None) -> list[SeedResult]:
    """Train every unfinished job; a crash of one does not stop the others.

    ray: the address of a Ray cluster that trains as many at once as it has cores for.
    Ctrl-C or SIGTERM lets those that run save, and starts no other; a second Ctrl-C ends them.
    """
    waiting = [job for job in jobs if not job.is_done]
    codes: dict[int, int] = {}
    try:
        for job in waiting:
            if ray and job.resume:
                check_state(job.run, job.recipe, job.trust)
        if waiting:
            with fleet(at_once, ray, [job.recipe for job in waiting]) as running, Interrupt() as interrupt:
                for job in waiting:
                    running.submit(job, f"seed {job.seed}")
                while running:
                    if interrupt.requested:
                        running.stop()
                    codes |= {job.seed: code for job, code in running.wait()}
    except OrbitccError:  # the cluster cannot be used
        for job in waiting:
            job.run.take_back()
        raise
    return [_result(job, codes.get(job.seed, 0)) for job in jobs]


def median_seed(results: Sequence[SeedResult]) -> SeedResult | None:
    """The seed whose `best/` has the median score; of an even number the lower one of the middle two."""
    ranked = sorted((r for r in results if r.counts), key=_score)
    return ranked[(len(ranked) - 1) // 2] if ranked else None


def over_seeds(results: Sequence[SeedResult]) -> Aggregate | None:
    """Interquartile mean and interval of the score of `best/` over the seeds that count; None without one."""
    scores = [_score(result) for result in results if result.counts]
    return aggregate(scores) if scores else None


def summary(results: Sequence[SeedResult]) -> dict[str, Any]:
    """The results for `--json`."""
    mean, median = over_seeds(results), median_seed(results)
    return {
        "seeds": [
            {
                "seed": result.seed,
                "run": str(result.run.path),
                "status": result.status,
                "agent_steps": result.outcome.agent_steps if result.outcome else 0,
                "best_score": result.outcome.best_score if result.outcome else None,
                "best": result.outcome.best if result.outcome else {},
                "best_at": result.outcome.best_at if result.outcome else -1,
                "untrained": result.outcome is not None and result.outcome.untrained,
            }
            for result in results
        ],
        "score": {"iqm": mean.value, "low": mean.low, "high": mean.high, "seeds": mean.runs} if mean else None,
        "median_seed": median.seed if median else None,
    }


def print_summary(results: Sequence[SeedResult]) -> None:
    """A line per seed, figures of the best policies, mean and median of their score; on standard output."""
    print_figures({f"seed {r.seed}": r.outcome.best for r in results if r.outcome}, "held-out worlds, best policies")
    for result in results:
        line = f"seed {result.seed}: {result.status}"
        if result.outcome is not None:
            named = "".join(f", {failure}" for failure in failures(result.outcome.best))
            line += f", {result.outcome.agent_steps:,} agent steps, best score {_score(result):.4f}{named}"
            line += f"; {UNTRAINED}" if result.outcome.untrained else ""
        print(plain(line))
    mean, median = over_seeds(results), median_seed(results)
    if mean is not None and median is not None:
        interval = f", 95 % interval {mean.low:.4f} to {mean.high:.4f}" if mean.has_interval else ""
        print(f"score: interquartile mean {mean.value:.4f}{interval}, over {mean.runs} of {len(results)} seeds")
        print(f"median seed {median.seed}: {median.run.best}")


def exit_code(results: Sequence[SeedResult]) -> int:
    """Interrupted, else crashed, else failed, else 0."""
    found = {result.status for result in results}
    if "interrupted" in found:
        return INTERRUPTED
    return 1 if "crashed" in found else DIVERGED if "failed" in found else 0


def _result(job: Job, code: int) -> SeedResult:
    if not job.run.state.is_dir():
        return SeedResult(job.seed, job.run, code, None)
    return SeedResult(job.seed, job.run, code, TrainingResult.stored(job.run, job.recipe))


def _score(result: SeedResult) -> float:
    assert result.outcome is not None
    return result.outcome.best_score
