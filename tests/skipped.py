"""What the end of a run says of tests that this machine could not play."""

import os
import shutil
from collections.abc import Iterable

PLACES = ("tests/emulator/", "tests/deploy/")
COMMAND = "make system"


def sentences(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """For (test, reason) of all that were skipped: how many lacked something of the machine, what, and the remedy."""
    reasons = [reason for test, reason in skipped if test.startswith(PLACES) or COMMAND in reason]
    if not reasons:
        return []
    named = "; ".join(dict.fromkeys(reason.removeprefix("Skipped: ") for reason in reasons))
    return [f"{len(reasons)} tests of this machine's kernel and tools were skipped: {named}.", _remedy()]


def _remedy() -> str:
    if shutil.which("apt-get") is None:
        return "On Debian, as root, `make system test` would install what can be installed, and run them."
    if os.geteuid():
        return "As root, `make system test` installs what can be installed, and runs them."
    return "`make system test` installs what can be installed, and runs them."
