import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from orbitcc.common.errors import FileError
from orbitcc.envs.orbits import leoem
from orbitcc.envs.orbits.places import find
from orbitcc.envs.orbits.routing import PathSpec, find_route
from orbitcc.eval.figures.globe import Projection, _land, draw_globe
from orbitcc.eval.figures.path import draw_path, plot_path
from orbitcc.eval.figures.style import DARK, LIGHT


def route(**given):
    return find_route(PathSpec(**{"source": "San Diego", "target": "New York", **given}), 60, seed=1)


def drawn(figure, axes, colour):
    """The points of the lines of this colour in one of the axes."""
    return [line.get_xydata() for line in figure.axes[axes].lines if line.get_color() == colour]


def test_the_rtt_is_drawn_as_it_is():
    trace = route().trace()
    figure = draw_path(trace, LIGHT)
    assert len(figure.axes) == 1
    (points,) = drawn(figure, 0, LIGHT.base_rtt)
    assert points[:, 1] == pytest.approx(trace.base_rtt_ms(points[:, 0]))
    assert (points[0, 0], points[-1, 0]) == (0, pytest.approx(60, abs=1e-5))


def test_every_handover_is_marked():
    trace = leoem.get("sd-ny-bp").trace
    full, dotted = draw_path(trace, DARK).axes[0].collections[:2]
    assert len(full.get_segments()) == 6
    assert len(dotted.get_segments()) == 94 - 6 + sum(not s.mid_change for s in trace.slots if s.access_change)


def test_the_map_shows_the_route_at_its_second():
    chosen = route(mode="bp")
    for at_s in (0.0, 50.0):
        figure = draw_path(chosen.trace(), LIGHT, route=chosen, at_s=at_s)
        world = figure.axes[1]
        names = {text.get_text() for text in world.texts}
        assert {chosen.network.label(node) for node in chosen.leg_at(at_s).nodes} <= names
        longest = max(drawn(figure, 1, LIGHT.base_rtt), key=len)
        assert len(longest) == len(chosen.leg_at(at_s).nodes)
        low, high = np.array((world.get_xlim(), world.get_ylim())).T
        assert ((longest > low) & (longest < high)).all()


@pytest.mark.parametrize(
    "given",
    [
        {"source": "San Diego", "target": "Shanghai"},  # over the date line
        {"source": "Oulu", "target": "Anchorage", "shell": "oneweb"},  # over the pole
        {"source": "0,0", "target": "0,180"},  # to the antipode
        {"source": "New York", "target": "London", "mode": "bp"},  # no route
        {"source": "Sydney", "target": "Perth", "mode": "bp1"},
    ],
    ids=str,
)
def test_any_route_can_be_drawn(given, tmp_path):
    chosen = route(**given)
    file = plot_path(chosen.trace(), tmp_path / "a.png", route=chosen, at_s=20)
    pixels = np.asarray(Image.open(file).convert("RGB"))
    assert len(np.unique(pixels @ (1 << 16, 1 << 8, 1))) > 20


def test_the_projection_looks_down_on_the_middle():
    york, london = find("New York").position_km(), find("London").position_km()
    view = Projection.above(york + london)
    there, here = view.plane(np.stack((york, london)))
    assert there == pytest.approx(-here, abs=40)  # the Earth is no sphere
    assert there[0] < 0 < here[0]
    assert view.faces(np.stack((york, london, -york))).tolist() == [True, True, False]
    assert Projection.above(np.array((0, 0, 1.0))).plane(np.array((0, 1.0, 0))) == pytest.approx((1, 0))


def test_land_is_where_it_should_be():
    with mpl.rc_context(LIGHT.rc()):
        figure = mpl.figure.Figure()
        draw_globe(figure.subplots(), route(source="Chicago", target="Denver"), 0, LIGHT)
    america = max(_land(), key=lambda ring: (ring @ find("Chicago").up() > 6000).sum())
    assert len(_land()) > 100
    assert np.linalg.norm(america, axis=1) == pytest.approx(6371)
    assert np.linalg.norm(america - 6371 * find("Miami").up(), axis=1).min() < 80  # a coast
    assert np.linalg.norm(america - 6371 * find("Denver").up(), axis=1).min() > 800  # none


def test_a_wrong_name_is_refused(tmp_path):
    with pytest.raises(FileError, match="plot: .*a.bmp"):
        plot_path(route().trace(), tmp_path / "a.bmp")
