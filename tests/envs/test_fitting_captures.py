"""One transfer in every form of a capture: the same segments are read from each, or it is refused in one clear line."""

import struct

import numpy as np
import pytest

from orbitcc.common.errors import FileContentError
from orbitcc.envs.fitting.files import read
from orbitcc.envs.fitting.recordings import Packets

SEGMENT, COUNT = 1000, 600


def transfer(count=COUNT):
    """(time in s, from the sender or not, seq or ack, payload, SACK block): segment 100 is lost and sent again."""
    rows = []
    for k in range(count):
        t = 1 + k / 100
        rows.append((t, True, 1 + SEGMENT * k, SEGMENT, None))
        if k != 100:
            acked = 1 + SEGMENT * (100 if 100 < k < 107 else k + 1)
            block = (1 + SEGMENT * 101, 1 + SEGMENT * (k + 1)) if 100 < k < 107 else None
            rows.append((t + 0.04, False, acked, 0, block))
    return [*rows, (2.065, True, 1 + SEGMENT * 100, SEGMENT, None), (2.105, False, 1 + SEGMENT * 107, 0, None)]


def tcp(forth, number, block):
    options = b"" if block is None else b"\1\1\5\n" + struct.pack(">II", *block)
    ports = (40_000, 5201) if forth else (5201, 40_000)
    offset = (20 + len(options)) // 4 << 4
    return struct.pack(">HHIIBBHHH", *ports, number if forth else 1, 1 if forth else number, offset, 0x10, 9, 0, 0) + options  # fmt: skip # noqa: E501


def ipv4(forth, segment, payload, said=True):
    ends = (bytes((10, 1, 0, 1)), bytes((10, 2, 0, 1)))[:: 1 if forth else -1]
    length = 20 + len(segment) + payload if said else 0
    return struct.pack(">BBHHHBBH", 0x45, 0, length, 0, 0, 64, 6, 0) + b"".join(ends) + segment


def ipv6(forth, segment, payload, options=False):
    ends = (b"\x20\1" + bytes(13) + b"\1", b"\x20\1" + bytes(13) + b"\2")[:: 1 if forth else -1]
    more = bytes((6, 0)) + bytes(6) if options else b""
    head = struct.pack(">IHBB", 6 << 28, len(more) + len(segment) + payload, 0 if options else 6, 64)
    return head + b"".join(ends) + more + segment


def ethernet(proto, tags=()):
    return bytes(12) + b"".join(struct.pack(">HH", tag, 7) for tag in tags) + struct.pack(">H", proto)


LINKS = {
    "Ethernet": (1, lambda forth: ethernet(0x800), ipv4),
    "Ethernet, IPv6": (1, lambda forth: ethernet(0x86DD), ipv6),
    "IPv6 with options": (1, lambda forth: ethernet(0x86DD), lambda *a: ipv6(*a, options=True)),
    "802.1Q": (1, lambda forth: ethernet(0x800, [0x8100]), ipv4),
    "QinQ, IPv6": (1, lambda forth: ethernet(0x86DD, [0x88A8, 0x8100]), ipv6),
    "SLL": (113, lambda forth: struct.pack(">HHHQH", 4 if forth else 0, 1, 6, 0, 0x800), ipv4),
    "SLL, 802.1Q": (113, lambda forth: struct.pack(">HHHQHHH", 4, 1, 6, 0, 0x8100, 7, 0x800), ipv4),
    "SLL2, IPv6": (276, lambda forth: struct.pack(">HHIHBBQ", 0x86DD, 0, 2, 1, 4 if forth else 0, 6, 0), ipv6),
    "raw": (101, lambda forth: b"", ipv4),
    "raw, IPv6": (101, lambda forth: b"", ipv6),
    "raw IPv6": (229, lambda forth: b"", ipv6),
    "loopback of BSD": (0, lambda forth: struct.pack("<I", 2), ipv4),
    "loopback of macOS, IPv6": (0, lambda forth: struct.pack("<I", 30), ipv6),
    "loopback of OpenBSD": (108, lambda forth: struct.pack(">I", 2), ipv4),
    "length 0 by offloading": (1, lambda forth: ethernet(0x800), lambda *a: ipv4(*a, said=False)),
}


def frames(link, rows=None, snap=1 << 16, payload_kept=0):
    """(time, kept bytes, length on the wire) of each packet."""
    _, head, network = LINKS[link]
    for t, forth, number, payload, block in sorted(rows or transfer()):
        kept = head(forth) + network(forth, tcp(forth, number, block), payload)
        yield t, (kept + bytes(min(payload, payload_kept)))[:snap], len(kept) + payload


def pcap(packets, kind, order="<", nanoseconds=False):
    magic, per_s = (0xA1B23C4D, 1e9) if nanoseconds else (0xA1B2C3D4, 1e6)
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, kind)]
    for t, kept, length in packets:
        out.append(struct.pack(order + "IIII", int(t), round(t % 1 * per_s), len(kept), length) + kept)
    return b"".join(out)


def block(order, kind, body):
    body += bytes(-len(body) % 4)
    return struct.pack(order + "II", kind, 12 + len(body)) + body + struct.pack(order + "I", 12 + len(body))


def pcapng(packets, kind, order="<", resolution=None, interfaces=1, offset_s=0):
    """resolution: of if_tsresol: 10^-n, or 2^-n with the highest bit; a name resolution block is in between."""
    tick = 1e-6 if resolution is None else 2.0 ** -(resolution & 127) if resolution & 128 else 10.0**-resolution
    options = b"" if resolution is None else struct.pack(order + "HHB3x", 9, 1, resolution)
    options += struct.pack(order + "HHq", 14, 8, offset_s) + struct.pack(order + "HH", 0, 0)
    out = [block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out += [block(order, 1, struct.pack(order + "HHI", kind, 0, 0) + options)] * interfaces + [
        block(order, 4, bytes(8))
    ]
    for t, kept, length in packets:
        stamp = round((t - offset_s) / tick)
        for which in range(interfaces):
            head = struct.pack(order + "5I", which, stamp >> 32, stamp & 0xFFFFFFFF, len(kept), length)
            out.append(block(order, 6, head + kept))
    return b"".join(out)


@pytest.fixture
def given(tmp_path):
    def given(content):
        path = tmp_path / "capture"
        path.write_bytes(content)
        try:
            return read(path)
        except FileContentError as error:
            return str(error).replace(str(path), "FILE").replace("\n", " TWO LINES ")

    return given


def check(found, six=False, vary_s=2e-6):
    """600 segments, 10 ms apart, acknowledged after 40 ms, of which the 100th was lost."""
    assert isinstance(found, Packets), found
    assert found.sent_s == pytest.approx(np.arange(COUNT) / 100, abs=vary_s)
    assert found.wire_bytes.tolist() == [SEGMENT + (74 if six else 54)] * COUNT
    assert np.flatnonzero(found.lost).tolist() == [100]
    assert (found.acked_s - found.sent_s)[found.once] == pytest.approx(0.04, abs=2 * vary_s)
    assert found.once[101:107].all(), "acknowledged selectively"


@pytest.mark.parametrize("link", [link for link in LINKS if link != "IPv6 with options"])
@pytest.mark.parametrize("make", [pcap, pcapng])
def test_every_link_type(given, link, make):
    check(given(make(frames(link), LINKS[link][0])), six="IPv6" in link)


def test_options_of_ipv6_count_as_bytes(given):
    found = given(pcap(frames("IPv6 with options"), 1))
    assert found.wire_bytes.tolist() == [SEGMENT + 82] * COUNT
    assert found.payload_bytes == COUNT * SEGMENT


@pytest.mark.parametrize("order", "<>")
def test_byte_orders_and_ticks(given, order):
    for nanoseconds in (False, True):
        check(given(pcap(frames("Ethernet"), 1, order, nanoseconds)))
    for resolution in (None, 9, 128 + 20, 3):
        vary_s = 1.1e-3 if resolution == 3 else 3e-6
        if resolution != 3:
            check(given(pcapng(frames("Ethernet"), 1, order, resolution)), vary_s=vary_s)
        else:
            assert given(pcapng(frames("Ethernet"), 1, order, 3)).sent_s[-1] == pytest.approx(5.99, abs=vary_s)
    check(given(pcapng(frames("Ethernet"), 1, order, offset_s=-5)))


def test_a_packet_that_two_interfaces_saw_is_one_packet(given):
    """`tcpdump -i any` on the loopback interface sees each packet go and come; a bridge has two interfaces."""
    check(given(pcapng(frames("Ethernet"), 1, interfaces=2)))
    twice = []
    for t, kept, length in frames("SLL"):
        twice += [(t, struct.pack(">H", kind) + kept[2:], length) for kind in (4, 0)]
    check(given(pcap(twice, 113)))


def test_sections_one_behind_the_other(given):
    """As `cat` leaves them, each with its own byte order; the interfaces of both are told apart by their numbers."""
    rows = list(frames("Ethernet"))
    found = given(pcapng(rows, 1) + pcapng(rows[:100], 1, ">"))
    check(found)


def test_cut_packets_and_a_cut_file(given):
    """A short snaplen keeps the headers; the options of the next record are not taken for those of this one."""
    check(given(pcap(frames("Ethernet", payload_kept=1000), 1)))
    check(given(pcap(frames("Ethernet", snap=66, payload_kept=1000), 1)))
    found = given(pcap(frames("Ethernet", snap=54), 1))
    assert not found.once[101:106].any(), "without the options"
    assert "`tcpdump -s 128`" in given(pcap(frames("Ethernet", snap=40), 1))
    for make in (pcap, pcapng):
        whole = make([*frames("Ethernet"), (9.0, bytes(60), 60)], 1)
        check(given(whole[:-30]))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (pcap(frames("Ethernet"), 127), "it has link type 127"),
        (pcap([(1.0, ethernet(0x806) + bytes(40), 60)], 1), "it has none"),
        (pcap([], 1), "it has none"),
        (pcapng([], 1), "it has none"),
        (pcap([], 1)[:10], "cut off in its header"),
        (b"snoop\0\0\0" + bytes(40), "not snoop; `editcap -F pcap FILE out.pcap` converts it"),
        (b"\x34\xcd\xb2\xa1" + bytes(40), "not modified pcap; `editcap"),
        (pcapng([], 1) + block("<", 3, bytes(80)), "enhanced packets (type 6); `editcap"),
    ],
)
def test_a_capture_that_cannot_be_read(given, content, says):
    assert says in given(content)


def test_a_damaged_pcapng_is_read_as_far_as_it_goes_or_refused(given):
    whole = pcapng(frames("SLL2, IPv6"), 276)
    rng = np.random.default_rng(1)
    for k in range(80):
        damaged = bytearray(whole[: rng.integers(20, len(whole))] if k % 2 else whole)
        for at in rng.integers(0, len(damaged) if k % 4 else 200, 20):
            damaged[at % len(damaged)] = rng.integers(256)
        assert isinstance(given(bytes(damaged)), Packets | str)
