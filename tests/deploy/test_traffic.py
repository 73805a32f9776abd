"""Ordinary programs choose a deployed policy by its name."""

import json
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from orbitcc.agents import deployment
from orbitcc.emulator.two_hosts import RECEIVER, SENDER, TwoHosts
from orbitcc.envs.environments.safety import SafetyFilter
from orbitcc.envs.scenarios import get
from tests.deploy.conftest import deploy, row, write_constant

SEND = """
import json, socket, sys, time
name, size = sys.argv[1], int(sys.argv[2])
link = socket.socket()
if name != "-":
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
link.connect(("10.0.0.2", 5001))
began = time.monotonic()
link.sendall(bytes(size))
link.shutdown(socket.SHUT_WR)
link.recv(1)
used = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode()
print(json.dumps({"mbps": size * 8e-6 / (time.monotonic() - began), "used": used}))
"""
RECEIVE = """
import socket
server = socket.create_server(("10.0.0.2", 5001))
print(flush=True)
connection, _ = server.accept()
while connection.recv(1 << 16):
    pass
"""


WATCH = """
import json, socket, struct, sys, threading, time
name, seconds = sys.argv[1], float(sys.argv[2])
link = socket.socket()
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
link.connect(("10.0.0.2", 5001))
began, seen = time.monotonic(), []
def send():
    while time.monotonic() - began < seconds:
        link.send(bytes(16384))
thread = threading.Thread(target=send, daemon=True)
thread.start()
while time.monotonic() - began < seconds:
    info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    seen.append((info[1], struct.unpack_from("I", info, 80)[0]))
    time.sleep(0.001)
print(json.dumps(seen))
sys.stdout.flush()
link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
link.close()
"""


def path(**params):
    return TwoHosts(get("dumbbell", rate_mbps=20.0, base_rtt_ms=40.0, duration_s=60.0, **params))


def send(hosts, name, size, meanwhile=lambda: None):
    """Send from one host to the other; what the sending program says."""
    receiver = hosts.popen(RECEIVER, [sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE)
    receiver.stdout.readline()
    sender = hosts.popen(SENDER, [sys.executable, "-c", SEND, name, str(size)], stdout=subprocess.PIPE, text=True)
    meanwhile()
    told, _ = sender.communicate(timeout=60)
    receiver.wait(10)
    return json.loads(told)


def closes(name):
    """Whether its last flow ends soon."""
    deadline = time.monotonic() + 10
    while row(name)["flows"] and time.monotonic() < deadline:
        time.sleep(0.1)
    return row(name)["flows"] == 0


@pytest.mark.parametrize("policy", ["perigee", "zenith"])
def test_an_ordinary_socket_sends_under_the_policy(machine, name, policy):
    deploy(name, policy=policy)
    with path() as hosts:
        hosts.start()
        told = send(hosts, name, 5_000_000)
        assert closes(name)
    assert told["used"] == name
    assert 8.0 < told["mbps"] < 20.0
    counted = row(name)
    # Two seconds at least, a decision every 30 ms, an acknowledgement of every segment or of two.
    assert counted["decisions"] > 60
    assert 5_000_000 / 1448 / 2.5 < counted["acks"] < 5_000_000 / 1448 * 1.2
    assert (counted["fallbacks"], counted["flows_in_all"]) == (0, 1)


def test_a_route_chooses_the_policy(perigee, name):
    with path() as hosts:
        hosts.set_controller(name)
        hosts.start()
        assert send(hosts, "-", 200_000)["used"] == name


def test_a_policy_is_replaced_during_traffic(perigee, name):
    def replace():
        time.sleep(0.5)
        deployment.undeploy(name)
        deploy(name)

    with path() as hosts:
        hosts.start()
        told = send(hosts, name, 3_000_000, replace)
        assert told["used"] == name
        assert row(name)["flows_in_all"] == 0, "the flow has stayed with the program that it began with"
        assert send(hosts, name, 200_000)["used"] == name
    assert row(name)["flows_in_all"] == 1


def test_outside_of_the_training_range_cubic_decides(machine, name):
    deploy(name, SafetyFilter(max_bdp=0.0, min_rtt_ms=(500.0, 1000.0), patience_s=0.1))
    with path() as hosts:
        hosts.start()
        told = send(hosts, name, 4_000_000)
        assert closes(name)
    counted = row(name)
    assert (counted["taken_over"], counted["handed_back"]) == (1, 0)
    assert (counted["fallbacks"], counted["flows"], told["used"]) == (0, 0, name)
    assert 8.0 < told["mbps"] < 20.0, "Cubic fills the link"


@pytest.mark.slow
def test_a_flow_that_returns_into_the_training_range_is_the_policys_again(machine, name):
    # 10 ms are too short; 40 ms are not. The smallest RTT of ten seconds is inside between 11 and 13 s; a second later
    # the policy decides.
    deploy(name, SafetyFilter(min_rtt_ms=(20.0, 100.0), patience_s=1.0))
    scenario = get("dumbbell", rate_mbps=5.0, base_rtt_ms=40.0, duration_s=60.0)
    link = scenario.links[0].changed(delay_ms=((0.0, 5.0), (2.0, 20.0)))
    with TwoHosts(scenario.changed(links=(link,))) as hosts:
        hosts.start()
        send(hosts, name, 10_000_000)
        assert closes(name)
    counted = row(name)
    assert (counted["taken_over"], counted["handed_back"], counted["fallbacks"]) == (1, 1, 0)


def windows(tmp_path, name, recovery, seconds, **link):
    """(state of TCP, window) every millisecond of a flow that starts with ten segments and never moves its window."""
    deploy(name, policy=write_constant(tmp_path / recovery, recovery))
    scenario = get("dumbbell", rate_mbps=20.0, base_rtt_ms=40.0, buffer_bdp=8.0, duration_s=60.0)
    scenario = scenario.changed(links=(scenario.links[0].changed(**link),))
    try:
        with TwoHosts(scenario) as hosts:
            hosts.start()
            receiver = hosts.popen(RECEIVER, [sys.executable, "-c", RECEIVE], stdout=subprocess.PIPE)
            receiver.stdout.readline()
            words = [sys.executable, "-c", WATCH, name, str(seconds)]
            told, _ = hosts.popen(SENDER, words, stdout=subprocess.PIPE, text=True).communicate(timeout=60)
            receiver.kill()
            receiver.wait(10)
        counted = row(name)
        assert counted["fallbacks"] == 0
        assert counted["decisions"] > 0.8 * seconds / 0.03
    finally:
        deployment.undeploy(name)
    return [tuple(pair) for pair in json.loads(told)]


OPEN, RECOVERY, LOSS = 0, 3, 4
"""enum tcp_ca_state (include/uapi/linux/tcp.h)."""


def test_a_recovery_holds_the_window_or_reduces_it_as_the_kernel_does(machine, name, tmp_path):
    loss = {"loss": {"kind": "bernoulli", "p": 0.02}}
    held, linux = (windows(tmp_path, name, recovery, 6.0, **loss) for recovery in ("hold", "kernel"))
    assert {cwnd for _, cwnd in held} == {10}
    recovering = [cwnd for state, cwnd in linux if state == RECOVERY]
    # As in the simulator: proportional rate reduction towards a threshold that is the window; above it only by a first
    # retransmission, which is never held back.
    assert recovering
    assert max(recovering) <= 11
    assert min(recovering) < 10
    # TCP_INFO reads the window before it locks the socket, and the state after that (tcp_get_info, net/ipv4/tcp.c): the
    # first reading of a state may have the window of the state before.
    still_open = {cwnd for (before, _), (state, cwnd) in pairwise(linux) if before == state == OPEN}
    assert still_open == {10}


def test_a_timeout_holds_the_window_or_leaves_one_segment_as_the_kernel_does(machine, name, tmp_path):
    outage = {"outages": ({"at_s": 2.0, "duration_ms": 1500, "flush": "all"},)}
    held, linux = (windows(tmp_path, name, recovery, 6.0, **outage) for recovery in ("hold", "kernel"))
    assert {cwnd for _, cwnd in held} == {10}
    assert LOSS in {state for state, _ in held}
    # All is lost: what is in flight and one segment; then the action's least window, and at most the least threshold.
    assert {cwnd for state, cwnd in linux if state == LOSS} >= {1}
    assert 4 <= linux[-1][1] <= 10
    assert linux[0][1] == 10


@pytest.mark.slow
def test_a_hundred_sockets_are_all_released(perigee, name):
    server = f"import socket\nserver = socket.create_server(('{RECEIVER}', 5001), backlog=200)\nprint(flush=True)\n" + (
        "links = [server.accept()[0] for _ in range(100)]\nfor link in links:\n    while link.recv(1 << 16): pass\n"
    )
    client = (
        "import socket, sys\nlinks = [socket.socket() for _ in range(100)]\nfor link in links:\n"
        "    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())\n"
        f"    link.connect(('{RECEIVER}', 5001))\n"
        "for link in links:\n    link.sendall(bytes(15_000))\nfor link in links:\n    link.close()\n"
    )
    with path() as hosts:
        hosts.start()
        receiver = hosts.popen(RECEIVER, [sys.executable, "-c", server], stdout=subprocess.PIPE)
        receiver.stdout.readline()
        sender = hosts.popen(SENDER, [sys.executable, "-c", client, name])
        assert sender.wait(60) == 0
        assert receiver.wait(60) == 0
        assert closes(name), "while the hosts are there: what has not ended with them waits for timers"
    assert (row(name)["fallbacks"], row(name)["flows_in_all"]) == (0, 100)
