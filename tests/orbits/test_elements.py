"""Orbital elements: the forms in which they are published, SGP4's positions, and routes over them."""

import itertools
import json
import math
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from orbitcc.common.errors import FileContentError, OrbitccError, OrbitccWarning
from orbitcc.envs import scenarios
from orbitcc.envs.orbits.constellation import LIGHT_KM_PER_S, SHELLS
from orbitcc.envs.orbits.elements import Elements, earth_fixed_km, sidereal_rad
from orbitcc.envs.orbits.places import CITIES
from orbitcc.envs.orbits.routing import PathSpec, find_route
from tests.commands.shell import called, orbitcc

api = pytest.importorskip("sgp4.api")
SD_NY = ("--from", "San Diego", "--to", "New York")
VANGUARD = (  # satellite 00005 of SGP4's verification set (Vallado et al., AIAA 2006-6753)
    "1 00005U 58002B   00179.78495062  .00000023  00000-0  28098-4 0  4753",
    "2 00005  34.2682 348.7242 1859667 331.7664  19.3264 10.82419157413667",
)


def sealed(line):
    return line + str(sum(int(c) if c.isdigit() else c == "-" for c in line) % 10)


def lines(number, *, day=26305.5, inclination=53.0, node=0.0, anomaly=0.0, motion=15.05580308, bstar=" 10000-4"):
    """The two lines of a circular orbit; day: of the epoch, yyddd.dddddddd."""
    angles = f"{inclination:8.4f} {node % 360:8.4f} 0000010   0.0000 {anomaly % 360:8.4f}"
    return (
        sealed(f"1 {number:05d}U 19074A   {day:14.8f}  .00000000  00000+0 {bstar} 0  999"),
        sealed(f"2 {number:05d} {angles} {motion:11.8f}    1"),
    )


def walker(planes, slots, phasing):
    """Satellites as in the Walker shell of this form at 53 degrees and 550 km, in its order."""
    for plane, slot in itertools.product(range(planes), range(slots)):
        anomaly = 360 * (slot / slots + phasing / (planes * slots) * plane)
        number = plane * slots + slot
        yield f"0 SAT-{number}", *lines(10_000 + number, node=360 / planes * plane, anomaly=anomaly)


@pytest.fixture(scope="module")
def starlink(tmp_path_factory):
    """A file in the form of Starlink's first shell."""
    file = tmp_path_factory.mktemp("elements") / "walker.tle"
    file.write_text("\n".join(itertools.chain(*walker(72, 22, 39))) + "\n")
    return str(file)


def fleet(tmp_path, text, start_s=0.0, **fields):
    (tmp_path / "some.tle").write_text(text, newline="")
    return Elements(tle=str(tmp_path / "some.tle"), **fields).moving(0.0, 0.0, start_s)


def test_positions_are_those_of_the_verification_set(tmp_path):
    found = fleet(tmp_path, "\n".join(VANGUARD))
    t = 60.0 * np.array([0, 360, 720])
    published = [  # km, in TEME
        (7022.46529266, -1400.08296755, 0.03995155),
        (-7154.03120202, -3783.17682504, -3536.19412294),
        (-7134.59340119, 6531.68641334, 3260.27186483),
    ]
    assert found._inertial(t)[0][:, 0] == pytest.approx(np.array(published), abs=1e-4)
    turned = found.positions_km(t)[:, 0]
    assert turned[:, 2] == pytest.approx(np.array(published)[:, 2], abs=1e-4)
    assert np.hypot(*turned[:, :2].T) == pytest.approx(np.hypot(*np.array(published)[:, :2].T), abs=1e-4)


def test_the_earth_turns_as_in_the_text_book():
    """Vallado, example 3-5: 1992-08-20 12:14 UT1. Example 3-15: UTC 2004-04-06 07:51:28.386009, whose UT1 is 0.44 s
    earlier: 0.26 km at this distance from the axis."""
    assert math.degrees(sidereal_rad(2_448_854.5, np.array(12 * 3600.0 + 14 * 60))) == pytest.approx(
        152.57878788, abs=1e-6
    )
    angle = sidereal_rad(2_453_101.5, np.array(7 * 3600 + 51 * 60 + 28.386009))
    found = earth_fixed_km(np.array((5094.18016210, 6127.64465950, 6380.34453270)), angle)
    assert np.linalg.norm(found - (-1033.4793830, 7901.2952754, 6380.3565958)) < 0.27


def messages():
    """Two satellites as OMM."""
    common = {"EPOCH": "2026-11-01T12:00:00.000000", "MEAN_MOTION": 15.05580308, "ECCENTRICITY": 1e-6,
              "INCLINATION": 53.0, "ARG_OF_PERICENTER": 0.0, "EPHEMERIS_TYPE": 0, "CLASSIFICATION_TYPE": "U",
              "ELEMENT_SET_NO": 999, "REV_AT_EPOCH": 1, "BSTAR": 1e-5, "MEAN_MOTION_DOT": 0}  # fmt: skip
    return [{"OBJECT_NAME": f"STAR-{k}", "OBJECT_ID": "2019-074A", "NORAD_CAT_ID": 10_000 + k, "RA_OF_ASC_NODE": 140.0,
             "MEAN_ANOMALY": 40.0 * k} | common for k in (0, 1)]  # fmt: skip


def as_csv(rows):
    return "\r\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]) + "\r\n"


def test_all_forms_of_elements_say_the_same(tmp_path):
    two = [lines(10_000 + k, node=140, anomaly=40 * k) for k in (0, 1)]
    forms = {
        "TLE": "\n".join(itertools.chain(*two)),
        "TLE of CelesTrak": "\r\n".join(f"STAR-{k}            \r\n{a}\r\n{b}" for k, (a, b) in enumerate(two)) + "\r\n",
        "3LE": "# a comment\n\n" + "\n\n".join(f"0 STAR-{k}\n{a}\n{b}" for k, (a, b) in enumerate(two)) + "\n\n",
        "OMM JSON": json.dumps(messages()),
        "OMM CSV": "\ufeff" + as_csv(messages()),
    }
    t = np.arange(0, 6000, 100.0)
    first = fleet(tmp_path, forms["TLE"])
    assert [first.label(k) for k in (0, 1)] == ["satellite (10000)", "satellite (10001)"]
    for form, text in forms.items():
        found = fleet(tmp_path, text)
        assert form == "TLE" or [found.label(k) for k in (0, 1)] == ["STAR-0", "STAR-1"]
        assert np.abs(found.positions_km(t) - first.positions_km(t)).max() < 1e-3, form


ONE, TWO = lines(10_000)
ROWS = messages()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no satellite in it"),
        ("No GP data found", "line 1: the file ends within"),
        ("<xml>\n<ndm>\n", "line 2: must be line 1"),
        (f"{ONE}\n", "line 2: the file ends within"),
        (f"A\n{ONE}\nB\n{TWO}", "line 3: must be line 2"),
        (f"{TWO}\n{ONE}", "line 1: must be line 1"),
        (f"{ONE[:-1]}\n{TWO}", "line 1: has 68 characters, not 69"),
        (f"{ONE}\n{TWO} x", "line 2: has 71 characters, not 69"),
        (f"{VANGUARD[0]}\n{VANGUARD[1][:-1]}6", "line 2: its checksum is 6, but must be 7"),
        (f"{ONE}\n{sealed(TWO[:10] + 'O' + TWO[11:-1])}", "line 2: has letters or spaces"),
        (f"{sealed(ONE[:59] + '  ' + ONE[61:-1])}\n{TWO}", "line 1: has letters or spaces"),
        (f"{ONE}\n{lines(10_001)[1]}", "line 2: is of satellite 10001, but line 1 is of 10000"),
        ("[{]", "must be TLE, 3LE, or OMM"),
        ("[5]", "satellite 0: must be a table"),
        (json.dumps([ROWS[0], ROWS[1] | {"BSTAR": None}]), "satellite 1: BSTAR must be a number"),
        (json.dumps([ROWS[0] | {"EPOCH": "yesterday"}]), "satellite 0: EPOCH must be a time"),
        (json.dumps([ROWS[0] | {"ECCENTRICITY": -0.1}]), "satellite 0: ECCENTRICITY must be in [0, 1)"),
        (json.dumps([ROWS[0] | {"MEAN_MOTION": 0}]), "satellite 0: MEAN_MOTION must be above 0"),
        (json.dumps([ROWS[0] | {"MEAN_ELEMENT_THEORY": "SGP4-XP"}]), "satellite 0: MEAN_ELEMENT_THEORY must be SGP4"),
        (as_csv(ROWS).rpartition(",15.0")[0], "line 3: BSTAR must be a number"),
        (as_csv(ROWS).replace("BSTAR", "INCLINATION", 1), "line 1: must have each column once; INCLINATION comes"),
        (as_csv(ROWS).rstrip() + ",7\n", "line 3: has more cells than the first line"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(text, says, tmp_path):
    with pytest.raises(OrbitccError, match=r"tle .*some.tle: must be") as error:
        fleet(tmp_path, text)
    assert says in str(error.value)
    if text:
        done = called("path", *SD_NY, "--tle", str(tmp_path / "some.tle"))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert says in done.stderr


def test_stale_and_decayed_satellites_are_left_out_with_their_number(tmp_path):
    rows = [*lines(1), *lines(2, day=26291.4), *lines(3, day=26291.6), *lines(4, motion=17.3)]
    rows += [*lines(3, day=26280.0), *lines(5, day=26301.5)]  # the newer elements of satellite 3 count
    said = (
        "some.tle: 2 of 5 satellites are left out: 1 with an epoch more than 14 days from 2026-11-01 12:00 UTC, 1 that"
    )
    with pytest.warns(OrbitccWarning, match=f"{said} have decayed"):
        found = fleet(tmp_path, "\n".join(rows))
    assert [one.number for one in found.satellites] == ["00001", "00003", "00005"]
    with pytest.warns(OrbitccWarning, match="3 of 5 .* 2 with an epoch more than 14 days from 2026-11-02"):
        assert fleet(tmp_path, "\n".join(rows), start_s=86_400.0).size == 2
    told = orbitcc("path", *SD_NY, "--tle", str(tmp_path / "some.tle"))
    assert (told.returncode, told.stderr.count("\n"), told.stderr[:9]) == (0, 1, "warning: ")
    assert "2 of 5 satellites are left out" in told.stderr
    with pytest.raises(
        OrbitccError, match="within 14 days of 2027-01-01 00:00 UTC; of 5 .*: the nearest epoch is 60.5 days"
    ):
        fleet(tmp_path, "\n".join(rows), start="2027-01-01")
    with pytest.raises(OrbitccError, match="start: 'soon'"):
        fleet(tmp_path, "\n".join(rows), start="soon")
    with pytest.raises(OrbitccError, match="they have decayed"):
        fleet(tmp_path, "\n".join(lines(4, motion=17.3)))


@pytest.mark.parametrize("mode", ["isl", "bp", "bp1"])
def test_delays_are_those_of_sgp4s_own_positions(mode, starlink):
    spec = PathSpec(source="San Diego", target="New York", shell={"tle": starlink}, mode=mode, start_s=600.0)
    route = find_route(spec, 100.0)
    trace, network = route.trace(), route.network
    rows = Path(starlink).read_text().split("\n")
    models = [api.Satrec.twoline2rv(rows[k + 1], rows[k + 2]) for k in range(0, len(rows) - 1, 3)]
    from sgp4.propagation import gstime

    checked = 0
    for leg in route.legs:
        t = (leg.start_s + leg.end_s) / 2
        path = []
        for node in leg.nodes[: -1 if mode == "bp1" else None]:
            if node >= network.source:
                path.append(network.ground[node - network.source].position_km())
                continue
            assert network.label(node) == f"SAT-{node}"
            error, (x, y, z), _ = models[node].sgp4(2_461_346.0, (600.0 + t) / 86_400)
            turn = gstime(2_461_346.0 + (600.0 + t) / 86_400)
            path.append(np.array((x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn), z)))
            assert error == 0
            checked += 1
        km = sum(np.linalg.norm(b - a) for a, b in itertools.pairwise(path))
        km += network.fibre_km[leg.nodes[-2] - network.source] if mode == "bp1" else 0.0
        assert trace.delays_ms(t)[0] == pytest.approx(km / LIGHT_KM_PER_S * 1e3, abs=0.001)
    assert checked >= 7


def test_links_between_satellites_are_those_of_a_grid(starlink):
    found = Elements(tle=starlink).moving(0.0, 0.0, 0.0)
    grid = {tuple(link) for link in found.grid().tolist()}
    assert np.bincount(found.grid().ravel()).max() == 4
    walker_grid = {tuple(link) for link in SHELLS["starlink1"].grid().tolist()}
    assert len(grid & walker_grid) > 0.95 * len(walker_grid)
    assert len(grid - walker_grid) < 0.02 * len(walker_grid)
    spec = PathSpec(source="San Diego", target="New York", shell=Elements(tle=starlink))
    median_ms = find_route(spec, 1500.0).trace().statistics().rtt_ms[2]
    assert median_ms == pytest.approx(43.4, abs=0.5)  # docs/links.md, for the shell


def test_scenarios_take_a_file(starlink):
    one = scenarios.get("leo-path", tle=starlink, mode="bp", duration_s=30)
    assert one.description == "San Diego – New York, walker, bp, shortest"
    many = scenarios.get("constellation", tle=starlink, cities=tuple(list(CITIES)[:6]), pairs=4, duration_s=20)
    assert any(link.name.startswith("SAT-") for link in many.links)
    for scenario in ("leo-path", "constellation"):
        with pytest.raises(OrbitccError, match="tle: .*either tle or shell \\(kuiper1\\), not both"):
            scenarios.get(scenario, tle=starlink, shell="kuiper1")
    assert "either --tle or --shell" in called("path", *SD_NY, "--tle", starlink, "--shell", "oneweb").stderr
    assert "--tle: no such file: none" in called("path", *SD_NY, "--tle", "none").stderr
    with pytest.raises(OrbitccError, match="raan_deg"):
        PathSpec(source="Rome", target="Oslo", shell={"tle": starlink}, raan_deg=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert called("path", *SD_NY, "--tle", starlink, "--mode", "bp", "--duration", "30").returncode == 0


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sgp4.api", None)
    (tmp_path / "one.tle").write_text("\n".join(lines(77)))
    done = called("path", *SD_NY, "--tle", str(tmp_path / "one.tle"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'orbitcc[tle]'" in done.stderr


def _messages(tmp_path, count=1, **changes):
    """OMM of satellites of one orbit."""
    row = {
        "EPOCH": "2026-10-27T12:00:00", "MEAN_MOTION": 15.5, "ECCENTRICITY": 0.0006, "INCLINATION": 51.6,
        "RA_OF_ASC_NODE": 10, "ARG_OF_PERICENTER": 20, "BSTAR": 1e-4, **changes,
    }  # fmt: skip
    path = tmp_path / "elements.json"
    path.write_text(json.dumps([{**row, "NORAD_CAT_ID": k, "MEAN_ANOMALY": 20 * k} for k in range(count)]))
    return str(path)


def test_one_satellite_alone_has_no_links(tmp_path):
    assert Elements(tle=_messages(tmp_path)).moving(0, 0, 0).grid().shape == (0, 2)


@pytest.mark.parametrize(
    ("start", "start_s"),
    [("9999-12-31T23:59:59", 10.0), ("0001-01-01T00:00:00+14:00", 0.0), ("", 1e12), ("", 1e300)],
)
def test_a_time_beyond_the_calendar_is_one_error(tmp_path, start, start_s):
    with pytest.raises(OrbitccError, match="years 1 to 9999"):
        Elements(tle=_messages(tmp_path), start=start).moving(0, 0, start_s)


@pytest.mark.parametrize(("key", "value"), [("TIME_SYSTEM", "TAI"), ("CENTER_NAME", "MARS"), ("REF_FRAME", "GCRF")])
def test_elements_of_another_clock_centre_or_frame_are_refused(tmp_path, key, value):
    """37 s, the difference between TAI and UTC, move a satellite by 280 km."""
    with pytest.raises(FileContentError, match=f"satellite 0: {key} must be"):
        Elements(tle=_messages(tmp_path, **{key: value})).moving(0, 0, 0)
