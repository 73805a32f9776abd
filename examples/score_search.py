"""A search with `orbitcc.eval.score`: thirty random changes of the numbers of a candidate, the better one stays.

    cd examples
    python score_search.py delay_candidate.py

The worlds are the same for all changes. The last figures come from other worlds: the highest of thirty scores is partly
luck. Programs in which a language model writes the changes call `score` in the same way.
"""

import ast
import random
import re
import sys
import time
from pathlib import Path

from orbitcc.eval import score

CHANGES, SECONDS = 30, 120.0
LINE = re.compile(r"^PARAMETERS = (\{.*?\})$", re.MULTILINE | re.DOTALL)


def changed(source: str, draw: random.Random) -> str:
    """The source with one to three of its numbers multiplied by a random factor."""
    parameters = ast.literal_eval(LINE.search(source).group(1))
    for name in draw.sample(sorted(parameters), draw.randint(1, 3)):
        parameters[name] = float(f"{parameters[name] * draw.lognormvariate(0, 0.6):.3g}")
    return LINE.sub(f"PARAMETERS = {parameters}", source)


def search(path: Path, changes: int = CHANGES, seconds: float = SECONDS, seed: int = 1) -> tuple[Path, list[float]]:
    """The file of the best candidate, and the best score so far, before and after each change."""
    draw, began, trial = random.Random(seed), time.monotonic(), path.with_name("trial.py")
    worlds_seed = draw.randrange(2**31)
    best, scores = path.read_text(), [score(path, seed=worlds_seed, runs=1)["combined_score"]]
    while len(scores) <= changes and time.monotonic() - began < seconds:
        trial.write_text(changed(best, draw))
        found = score(trial, seed=worlds_seed, runs=1)["combined_score"]  # 0 for one that fails
        if found > scores[-1]:
            best = trial.read_text()
            print(
                f"{time.monotonic() - began:4.0f} s, change {len(scores):2}: {found:.3f} {LINE.search(best).group(1)}"
            )
        scores.append(max(found, scores[-1]))
    trial.unlink(missing_ok=True)
    chosen = path.with_name(f"{path.stem}_best.py")
    chosen.write_text(best)
    return chosen, scores


if __name__ == "__main__":
    given = Path(sys.argv[1])
    chosen, scores = search(given)
    print(f"{len(scores) - 1} changes: {scores[0]:.3f} -> {scores[-1]:.3f} in the worlds of the search")
    for file in (given, chosen):
        other = score(file, seed=2**31 - 1, seconds=300, out=Path("score") / file.stem)
        low, high = other["interval"]
        print(f"{file.name}: {other['combined_score']:.3f} ({low:.3f} to {high:.3f}) in {other['worlds']} other worlds")
        print({label: round(one["combined_score"], 3) for label, one in other["classical"].items()})
