"""Where satellites are, against closed forms."""

import math

import numpy as np
import pytest

from orbitcc.common.errors import OrbitccError
from orbitcc.envs.orbits import places
from orbitcc.envs.orbits.constellation import SHELLS, Constellation, Shell
from orbitcc.envs.orbits.gateways import GATEWAYS

STARLINK = SHELLS["starlink1"]


def positions(shell, t_s=(0.0, 1000.0, 5000.0)):
    return Constellation(shell, raan_deg=17, argument_deg=5).positions_km(np.array(t_s))


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS)
def test_orbits_are_circles(shell):
    radii = np.linalg.norm(positions(shell), axis=2)
    assert radii == pytest.approx(shell.radius_km, rel=1e-6)
    assert np.abs(np.degrees(np.arcsin(positions(shell)[..., 2] / shell.radius_km))).max() <= min(
        shell.inclination_deg, 180 - shell.inclination_deg
    ) + 1e-9  # fmt: skip


def test_the_period_is_the_draconitic_one():
    assert STARLINK.period_s == pytest.approx(5735.45, abs=0.05)
    start, later = Constellation(STARLINK).positions_km([0.0, STARLINK.period_s])
    assert later[:, 2] == pytest.approx(start[:, 2], abs=1e-6)


def test_a_plane_drifts_west_by_the_earths_turn_and_the_oblateness():
    constellation = Constellation(STARLINK, raan_deg=30)
    # A satellite over the equator going up is at its ascending node.
    node = constellation.positions_km([0.0, STARLINK.period_s], [0])[:, 0]
    longitudes = np.degrees(np.arctan2(node[:, 1], node[:, 0]))
    a = STARLINK.radius_km
    drift = -1.5 * 1.08262668e-3 * (6378.137 / a) ** 2 * math.sqrt(398600.4418 / a**3) * math.cos(math.radians(53))
    moved = math.degrees((drift - 7.2921158553e-5) * STARLINK.period_s)
    assert longitudes == pytest.approx([30, 30 + moved])
    assert math.degrees(drift) * 86400 == pytest.approx(-4.5, abs=0.1)  # degrees a day


@pytest.mark.parametrize(
    ("name", "inside_km", "across_km"),
    [("starlink1", (1972.0, 1.0), (542, 726.2)), ("leoem", (658.6, 0.5), (1114, 1824))],
)
def test_links_are_as_long_as_they_should_be(name, inside_km, across_km):
    shell = SHELLS[name]
    grid = shell.grid()
    ends = positions(shell)[:, grid]
    lengths = np.linalg.norm(ends[:, :, 0] - ends[:, :, 1], axis=2)
    same_plane = np.diff(grid // shell.satellites_per_plane, axis=1)[:, 0] == 0
    assert lengths[:, same_plane] == pytest.approx(inside_km[0], abs=inside_km[1])
    assert 2 * shell.radius_km * math.sin(math.pi / shell.satellites_per_plane) == pytest.approx(lengths[0, same_plane])
    assert across_km[0] <= lengths[:, ~same_plane].min() < lengths[:, ~same_plane].max() <= across_km[1]


@pytest.mark.parametrize("shell", SHELLS.values(), ids=SHELLS)
def test_each_satellite_has_two_links_in_its_plane_and_one_to_each_neighbouring_plane(shell):
    grid = shell.grid()
    assert (grid[:, 0] < grid[:, 1]).all()
    assert len(np.unique(grid, axis=0)) == len(grid)
    degree = np.bincount(grid.ravel(), minlength=shell.size)
    plane = np.arange(shell.size) // shell.satellites_per_plane
    at_the_seam = (plane == 0) | (plane == shell.planes - 1)
    assert (degree[~at_the_seam] == 4).all()
    assert (degree[at_the_seam] == (4 if shell.closed else 3)).all()


def test_one_satellite_has_no_links():
    assert Shell(planes=1, satellites_per_plane=1, inclination_deg=53, altitude_km=550).grid().shape == (0, 2)


def test_links_across_the_seam_are_as_short_as_the_others():
    grid = STARLINK.grid()
    plane = grid // 22
    seam = (plane[:, 0] == 0) & (plane[:, 1] == 71)
    inner = plane[:, 1] - plane[:, 0] == 1
    ends = positions(STARLINK)[:, grid]
    lengths = np.linalg.norm(ends[:, :, 0] - ends[:, :, 1], axis=2)
    assert lengths[:, seam].max() == pytest.approx(lengths[:, inner].max(), abs=2.0)


@pytest.mark.parametrize(("phasing", "shift"), [(0, 0), (35, 0), (39, 1), (71, 1)])
def test_links_go_to_the_plane_neighbour_nearest_in_phase(phasing, shift):
    grid = STARLINK.changed(phasing=phasing).grid()
    partner = next(b for a, b in grid.tolist() if a == 5 and b >= 22)
    assert partner == 22 + 5 - shift


def test_a_shell_too_thin_for_links_is_refused():
    thin = Shell(planes=6, satellites_per_plane=4, inclination_deg=53, altitude_km=550)
    with pytest.raises(OrbitccError, match="shell: 'custom' .* dense enough .* 80 km above the Earth"):
        thin.grid()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"planes": 0}, r"planes: 0 .* \[1, 1000\]"),
        ({"planes": 500}, "planes: 500 .* at most 20000 satellites in total, not 50000"),
        ({"altitude_km": 100}, r"altitude_km: 100 .* \[200, 36000\] km"),
        ({"inclination_deg": 190}, "inclination_deg: 190"),
    ],
)
def test_a_wrong_shell_is_named(change, says):
    with pytest.raises(OrbitccError, match=says):
        Shell(**{"planes": 5, "satellites_per_plane": 100, "inclination_deg": 53, "altitude_km": 550, **change})


@pytest.mark.parametrize(
    ("latitude", "least", "mean", "most"),
    [
        (0, 4, 6.9, 9), (33, 8, 9.7, 12), (41, 11, 13, 16),
        (47.6, 18, 20.4, 23), (51.5, 17, 18.8, 21), (53, 15, 17.3, 20),
    ],
)  # fmt: skip
def test_as_many_satellites_are_visible_as_there_should_be(latitude, least, mean, most):
    place = places.Place("here", latitude, -100)
    sight = Constellation(STARLINK).positions_km(np.arange(0, 5736, 5.0)) - place.position_km()
    counts = (sight @ place.up() >= math.sin(math.radians(25)) * np.linalg.norm(sight, axis=2)).sum(axis=1)
    assert counts.mean() == pytest.approx(mean, abs=1)
    assert (counts.min(), counts.max()) == (pytest.approx(least, abs=1), pytest.approx(most, abs=1))


def test_satellites_follow_sgp4():
    """Elements of one satellite, once by the mean motion here, once by SGP4; what differs is J2's short periods."""
    sgp4 = pytest.importorskip("sgp4.api")
    shell = STARLINK
    constellation = Constellation(shell)
    model = sgp4.Satrec()
    k2 = math.radians(shell.inclination_deg)
    for plane, slot in ((0, 0), (20, 7), (50, 15)):
        node = 2 * math.pi * plane / 72
        argument = 2 * math.pi * (slot / 22 + 39 / 1584 * plane)
        # SGP4's mean motion is Kozai's: without the secular terms in J2 it adds itself.
        n = math.sqrt(398600.4418 / shell.radius_km**3)
        kozai = n * (1 + 1.5 * 1.08262668e-3 * (6378.137 / shell.radius_km) ** 2 * (1 - 1.5 * math.sin(k2) ** 2))
        model.sgp4init(
            sgp4.WGS72, "i", 1, 25000.0, 0.0, 0.0, 0.0, 1e-6, 0.0, k2, argument % (2 * math.pi), kozai * 60, node
        )
        t = np.arange(0, 5736, 60.0)
        mine = constellation.positions_km(t, [plane * 22 + slot])[:, 0]
        for at, position in zip(t, mine, strict=True):
            _, theirs, _ = model.sgp4_tsince(at / 60)
            turn = 7.2921158553e-5 * at
            x, y, z = theirs
            fixed = (x * math.cos(turn) + y * math.sin(turn), y * math.cos(turn) - x * math.sin(turn), z)
            assert np.linalg.norm(position - fixed) < 20


# -- places --------------------------------------------------------------------------------------------------------


def test_places_lie_on_the_ellipsoid():
    for place in (*places.CITIES.values(), *GATEWAYS):
        x, y, z = place.position_km()
        assert (x / 6378.137) ** 2 + (y / 6378.137) ** 2 + (z / 6356.752314) ** 2 == pytest.approx(1, abs=1e-9)
        normal = np.array((x / 6378.137**2, y / 6378.137**2, z / 6356.752314**2))
        assert place.up() == pytest.approx(normal / np.linalg.norm(normal), abs=1e-9)


def test_great_circles_have_known_lengths():
    find = places.find
    assert places.great_circle_km(find("New York"), find("London")) == pytest.approx(5566, abs=15)
    assert places.great_circle_km(find("0,0"), find("0,180")) == pytest.approx(math.pi * 6371)
    assert places.great_circle_km(find("10,20"), find("10,20")) == pytest.approx(0, abs=1e-9)


def test_a_place_is_a_city_or_coordinates():
    assert places.find("new york ") == places.CITIES["New York"]
    assert places.find("47.61,-122.34") == places.Place("47.61,-122.34", 47.61, -122.34)
    with pytest.raises(OrbitccError, match="source: unknown place 'New Yrok'; did you mean 'New York'.*latitude"):
        places.find("New Yrok", "source")
    with pytest.raises(OrbitccError, match=r"target: '95,0' .* latitude in \[-90, 90\]"):
        places.find("95,0", "target")
    with pytest.raises(OrbitccError, match="unknown place '12,x'"):
        places.find("12,x")
    with pytest.raises(OrbitccError, match="'nan,0'"):
        places.find("nan,0")


def test_there_are_some_80_gateways_all_over_the_world():
    assert 75 <= len(GATEWAYS) <= 95
    assert len({g.name for g in GATEWAYS}) == len(GATEWAYS)
    assert {round(g.longitude_deg / 60) for g in GATEWAYS} == {-3, -2, -1, 0, 1, 2, 3}
    assert min(g.latitude_deg for g in GATEWAYS) < -50
    assert max(g.latitude_deg for g in GATEWAYS) > 60
