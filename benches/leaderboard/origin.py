"""Where the figures of a page come from, and how old they are."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benches.leaderboard.board import table_of

WATCHED = ("sim/core/src", "eval/suites", "eval/metrics.py", "checkpoints", "agents/oracle.py", "benches/leaderboard")
"""What the figures depend on."""


LATER = "; those of "
"""Before the names of a later run."""


@dataclass(frozen=True)
class Stamp:
    """Where the figures come from.

    later: of whom the figures were made later, and where those come from, else empty.
    """

    date: str
    commit: str
    version: str
    profile: str
    command: str
    later: str = ""

    def with_later(self, names: Sequence[str], made: str) -> Stamp:
        """The same after a later run of `names`, made as `made` says; earlier runs of others stay stated."""
        runs = []
        for run in filter(None, self.later.split(LATER)):
            whom, _, how = run.partition(" on ")
            if left := [name for name in whom.split(", ") if name not in names]:
                runs.append(f"{', '.join(left)} on {how}")
        return replace(self, later=LATER.join([*runs, f"{', '.join(names)} {made}"]))

    @property
    def made(self) -> str:
        """`on DATE from commit COMMIT with simulator version VERSION`, and the same of later figures."""
        made = f"on {self.date} from commit {self.commit} with simulator version `{self.version}`"
        return made + (f"{LATER}{self.later}" if self.later else "")


STATED = re.compile(
    r"- \*\*Made\*\* on (?P<date>\d{4}-\d\d-\d\d) from commit (?P<commit>(?:`(?P<hash>[0-9a-f]{12})`|unknown)[^`\n]*?)"
    r" with simulator version `(?P<version>\d+\.\d+\.\d+[a-z0-9.]*\+sim\.[0-9a-f]{8})`"
    rf"(?:{LATER}(?P<later>[^\n]+))?\.\n"
    r"- \*\*Size\*\*: profile `(?P<profile>\w+)`.*?```sh\n(?P<command>.+?)\n```",
    re.DOTALL,
)


def commit(folder: Path) -> str:
    """The commit of the checkout, and which of WATCHED differ from it; `unknown` outside a checkout."""
    found = git(folder, "rev-parse", "--short=12", "HEAD")
    if found is None:
        return "unknown"
    root = Path(git(folder, "rev-parse", "--show-toplevel") or ".")
    changed = [path for path in WATCHED if git(root, "status", "--porcelain", "--", path)]
    return f"`{found}`" + (f" (uncommitted changes in {', '.join(changed)})" if changed else "")


def stated(page: Path) -> Stamp:
    """What a page says about its origin. Raises SystemExit if it says nothing."""
    found = STATED.search(page.read_text(encoding="utf-8"))
    if found is None:
        raise SystemExit(f"{page} does not state its commit and version: write it with --page")
    return Stamp(**{name: text or "" for name, text in found.groupdict().items() if name != "hash"})


def age(page: Path) -> str:
    """The page's commit and date, and how many commits since then changed what its figures depend on.

    The commit that brought the page itself does not count.
    """
    stamp = stated(page)
    known = re.match("`([0-9a-f]{12})`", stamp.commit)
    name = f"commit {known[1]}" if known else "an unknown commit"
    return f"{page}: {name}, {stamp.date}; commits since then that changed {', '.join(WATCHED)}: {newer(page, known)}"


def newer(page: Path, known: re.Match[str] | None) -> str:
    folder = page.resolve().parent
    root = git(folder, "rev-parse", "--show-toplevel")
    if known is None or root is None:
        return "unknown"
    since = git(Path(root), "rev-list", f"{known[1]}..HEAD", "--", *WATCHED)
    brought = git(folder, "rev-list", "-1", "HEAD", "--", table_of(page).name)
    return "unknown" if since is None else str(len(set(since.split()) - {brought}))


def git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None outside a checkout, or for a commit that is not there."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
