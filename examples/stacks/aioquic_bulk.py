"""A bulk upload over QUIC with aioquic (BSD-3-Clause): its client and its server, for `orbitcc run --program`.

    python -m venv /tmp/aioquic && /tmp/aioquic/bin/pip install aioquic
    orbitcc run leo-responsiveness --set run=2 --set duration_s=60 \
        --program aioquic='/tmp/aioquic/bin/python examples/stacks/aioquic_bulk.py send {server} {port} cubic' \
        --server '/tmp/aioquic/bin/python examples/stacks/aioquic_bulk.py receive {port}'

`reno` instead of `cubic` chooses its other controller. Tested with aioquic 1.7.2. Python limits it to some 50 Mbit/s.
"""

import asyncio
import datetime
import ssl
import sys

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

BLOCK = 250_000
UNDER_WAY = 40
"""Blocks that the receiver has not confirmed: aioquic would take data without limit."""


def certified() -> QuicConfiguration:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now.replace(year=2100)
    )
    found = QuicConfiguration(is_client=False)
    found.certificate, found.private_key = made.sign(key, hashes.SHA256()), key
    return found


async def confirm(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await reader.readexactly(BLOCK)
        writer.write(b".")


async def receive(port: int) -> None:
    tasks = set()
    await serve("0.0.0.0", port, configuration=certified(),
                stream_handler=lambda *ends: tasks.add(asyncio.ensure_future(confirm(*ends))))  # fmt: skip
    await asyncio.Future()


async def send(server: str, port: int, controller: str) -> None:
    chosen = QuicConfiguration(verify_mode=ssl.CERT_NONE, congestion_control_algorithm=controller)
    async with connect(server, port, configuration=chosen) as connection:
        reader, writer = await connection.create_stream()
        for block in range(1_000_000):
            writer.write(bytes(BLOCK))
            if block >= UNDER_WAY:
                await reader.readexactly(1)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        asyncio.run(send(sys.argv[2], int(sys.argv[3]), sys.argv[4]))
    else:
        asyncio.run(receive(int(sys.argv[2])))
