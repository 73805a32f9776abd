"""Worker processes end with their parent."""

import os
import signal
import subprocess
import sys
import time

import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.parallel import cluster, work

PROGRAM = """
import os, time
from orbitcc.parallel import processes

if __name__ == "__main__":
    pool = processes.pool(2)
    print(*{pool.submit(os.getpid).result() for _ in range(8)}, flush=True)
    pool.submit(time.sleep, 600).result()
"""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_parent_that_is_killed(kill: int, tmp_path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    assert workers
    process.send_signal(kill)
    process.wait(60)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.killpg(process.pid, 0)  # the group of the parent and its workers
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail("workers were there 60 s later")


INTERRUPTED = """
import os, signal, sys, time
from orbitcc.parallel import processes

if __name__ == "__main__":
    os.setpgrp()
    signal.signal(signal.SIGINT, lambda *_: print("the parent", flush=True))
    with processes.pool(2) as pool:
        begun = [pool.submit(os.getpid) for _ in range(2)]
        for _ in range(int(sys.argv[1])):
            os.killpg(0, signal.SIGINT)
            time.sleep(0.05)
        print(len([one.result() for one in begun]), flush=True)
"""


def test_ctrl_c_while_workers_begin_is_the_parents(tmp_path) -> None:
    script = tmp_path / "program.py"
    script.write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(script), "40"], capture_output=True, text=True, env=environment, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "the parent" in done.stdout
    assert done.stdout.endswith("2\n")


@pytest.mark.parametrize("count", [0, -3])
def test_less_than_one_worker_is_refused(count):
    with pytest.raises(OrbitccError, match=f"workers: {count} is not allowed; allowed: 1 or more"), work.workers(count):
        pass


def test_a_number_of_workers_is_refused_beside_a_cluster(monkeypatch):
    monkeypatch.setattr(cluster, "find", lambda address: "10.0.0.1:6379" if address == "auto" else address)
    for address in ("auto", "10.0.0.1:6379"):
        made = work.workers(2, address)
        with pytest.raises(OrbitccError, match="workers: 2 is not allowed; allowed: none with a cluster"):
            made.__enter__()
