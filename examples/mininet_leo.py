"""A program of one's own between two hosts over a LEO path in Mininet: here a file server and a download, timed.

    python examples/mininet_leo.py

Needs root and what `orbitcc doctor` lists for Mininet.
"""

import argparse
import sys

from orbitcc.emulator.mininet import emulated, network
from orbitcc.envs.scenarios import get

SERVER = """
import socket
server = socket.create_server(("10.1.0.1", 8000))
connection, _ = server.accept()
connection.sendall(bytes({megabytes} * 1_000_000))
connection.close()
"""
CLIENT = """
import socket, time
began, size = time.monotonic(), 0
while True:
    try:
        connection = socket.create_connection(("10.1.0.1", 8000))
        break
    except ConnectionRefusedError:
        time.sleep(0.1)
while block := connection.recv(1 << 16):
    size += len(block)
print(size, time.monotonic() - began)
"""


def main(megabytes: int = 10) -> tuple[int, float]:
    """Bytes received and the seconds they took, data flowing from d0 to s0: against the path's forward direction."""
    net = network(get("leo-access", rate_mbps=50.0, return_rate_mbps=20.0, duration_s=600.0))
    try:
        server = net["d0"].popen([sys.executable, "-c", SERVER.format(megabytes=megabytes)])
        client = net["s0"].popen([sys.executable, "-c", CLIENT])
        size, seconds = client.communicate(timeout=120)[0].split()
        server.wait(10)
        for link in emulated(net):
            print(link, link.report()["lateness"])
    finally:
        net.stop()
    print(f"{int(size) / 1e6:.1f} MB in {float(seconds):.1f} s: {int(size) * 8e-6 / float(seconds):.1f} Mbit/s")
    return int(size), float(seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=10)
    main(parser.parse_args().megabytes)
