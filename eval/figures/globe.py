"""A route over the Earth, seen from far above its middle."""

from __future__ import annotations

import functools
import itertools
import json
import math
from dataclasses import dataclass
from importlib import resources

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Circle
from numpy.typing import NDArray

from orbitcc.common import names
from orbitcc.envs.orbits.places import MEAN_RADIUS_KM
from orbitcc.envs.orbits.routing import Route
from orbitcc.eval.figures import style
from orbitcc.eval.figures.style import Theme

Array = NDArray[np.float64]

ASPECT = 2.1
"""Width over height of the map."""
MARGIN_KM, LEAST_KM = 900.0, 3200.0
"""Around the nodes, and from top to bottom at least."""
MAP_INCHES = 4.4
"""About the height of a map, which says how large names are on it."""
MAX_LABELS = 16
"""Satellites and gateways of longer routes are not named."""
ARC_POINTS = 60


@dataclass(frozen=True)
class Projection:
    """An orthographic projection: the plane that `east` and `north` span, seen from where `up` points to."""

    up: Array
    east: Array
    north: Array

    @staticmethod
    def above(point: Array) -> Projection:
        up = point / np.linalg.norm(point)
        east = np.cross((0.0, 0.0, 1.0), up)
        if np.linalg.norm(east) < 1e-9:  # a pole
            east = np.array((0.0, 1.0, 0.0))
        east /= np.linalg.norm(east)
        return Projection(up, east, np.cross(up, east))

    def plane(self, positions: Array) -> Array:
        """Where positions [..., 3] appear, [..., 2]."""
        return positions @ np.stack((self.east, self.north), axis=-1)

    def faces(self, positions: Array) -> NDArray[np.bool_]:
        """Whether positions lie on the near half."""
        facing: NDArray[np.bool_] = positions @ self.up > 0
        return facing


def draw_globe(ax: Axes, route: Route, at_s: float, theme: Theme) -> None:
    """The route at one moment among the other satellites, their links or the gateways, and the land below."""
    network = route.network
    nodes = route.leg_at(at_s).nodes
    t = np.array([at_s])
    places = network.positions_km(t, nodes or (network.source, network.target))[0]
    ends = network.ground_km[:2]
    view = Projection.above(ends.sum(axis=0) if np.linalg.norm(ends.sum(axis=0)) > 1 else places.sum(axis=0))
    satellites = network.satellites_km(t)[0]
    middle, height = _window(view.plane(np.concatenate((places, ends))))
    draw_ground(ax, view, height, theme)
    visible = view.faces(satellites)
    if network.spec.mode == "isl":
        grid = network.constellation.grid()
        links = view.plane(satellites[grid[visible[grid].all(axis=1)]])
        faint = style.mix(theme.edge, theme.page, 0.5)
        ax.add_collection(LineCollection(list(links), colors=faint, linewidths=0.5, zorder=2), autolim=False)
    dots = view.plane(satellites[visible])
    ax.plot(dots[:, 0], dots[:, 1], ".", color=style.mix(theme.muted, theme.page, 0.4), markersize=3, zorder=2.5)
    gateways = network.ground_km[2:]
    stations = view.plane(gateways[view.faces(gateways)])
    ax.plot(stations[:, 0], stations[:, 1], "^", color=theme.edge, markersize=4.5, zorder=2.5)
    arc = view.plane(_great_circle(*ends))
    ax.plot(arc[:, 0], arc[:, 1], color=theme.muted, linewidth=1.1, linestyle=(0, (4, 2.5)), zorder=3)
    if nodes:
        line = view.plane(places)
        if network.spec.mode == "bp1":
            cable = view.plane(_great_circle(places[-2], places[-1]))
            ax.plot(cable[:, 0], cable[:, 1], color=theme.base_rtt, linewidth=2.2, linestyle=(0, (2, 1)), zorder=4)
            ax.plot(line[:-1, 0], line[:-1, 1], color=theme.base_rtt, linewidth=2.2, zorder=4)
        else:
            ax.plot(line[:, 0], line[:, 1], color=theme.base_rtt, linewidth=2.2, solid_joinstyle="round", zorder=4)
        taken = _mark_ends(ax, route, line, height, theme)
        _mark_nodes(ax, route, nodes, line, taken, height, theme)
    else:
        _mark_ends(ax, route, view.plane(places), height, theme)
    ax.set_xlim(middle[0] - ASPECT * height / 2, middle[0] + ASPECT * height / 2)
    ax.set_ylim(middle[1] - height / 2, middle[1] + height / 2)
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)
    ax.set_title(f"The route at {at_s:g} s" if nodes else f"No route at {at_s:g} s")
    words = ["dashed: great circle", "dots: satellites" + (" and their links" if network.spec.mode == "isl" else "")]
    if network.spec.mode != "isl":
        words.append("triangles: gateways")
    ax.text(1.0, 1.02, ", ".join(words), transform=ax.transAxes, ha="right", va="bottom", fontsize=8, color=theme.muted)


def _mark_ends(ax: Axes, route: Route, line: Array, height_km: float, theme: Theme) -> Array:
    """The two places with their names; the points that these cover."""
    avoid = _dense(line)
    for place, at in zip(route.network.ground[:2], line[[0, -1]], strict=True):
        ax.plot(*at, "s", color=theme.ink, markersize=7, markeredgecolor=theme.page, zorder=6)
        name = _name(ax, place.name, at, avoid, height_km, theme, size=10, colour=theme.ink, weight="bold")
        avoid = np.concatenate((avoid, name))
    return avoid


def _mark_nodes(
    ax: Axes, route: Route, nodes: tuple[int, ...], line: Array, avoid: Array, height_km: float, theme: Theme
) -> None:
    """Satellites and gateways of the route with their names."""
    for node, at in zip(nodes[1:-1], line[1:-1], strict=True):
        above = node < route.network.source
        ax.plot(
            *at, "o" if above else "^", color=theme.base_rtt, markersize=7 if above else 8,
            markeredgecolor=theme.page, zorder=5,
        )  # fmt: skip
        if len(nodes) <= MAX_LABELS:
            text = route.network.label(node)
            name = _name(ax, text, at, avoid, height_km, theme, size=7.5, colour=theme.base_rtt)
            avoid = np.concatenate((avoid, name))


def _dense(line: Array) -> Array:
    """Points all along a line."""
    share = np.linspace(0, 1, 12, endpoint=False)[:, None]
    return np.concatenate([a + (b - a) * share for a, b in itertools.pairwise(line)] + [line[-1:]])


SIDES = ((0, 1), (0, -1), (1, 0), (-1, 0))
GAP_POINTS = 7.0


def _name(
    ax: Axes, text: str, at: Array, avoid: Array, height_km: float, theme: Theme,
    *, size: float, colour: str, weight: str = "normal",
) -> Array:  # fmt: skip
    """A name above, below or beside its node, where it keeps farthest from points to avoid; points that it covers."""
    km_per_point = height_km / (72 * MAP_INCHES)
    half = np.array((0.32 * size * len(text), 0.6 * size)) * km_per_point
    others = avoid[np.linalg.norm(avoid - at, axis=1) > 1]

    def middle(side: tuple[int, int]) -> Array:
        return at + np.array(side) * (half + GAP_POINTS * km_per_point)

    def room(side: tuple[int, int]) -> float:
        away = np.linalg.norm(np.maximum(np.abs(others - middle(side)) - half, 0), axis=1)
        return float(away.min()) or -float((away == 0).sum())

    side = max(SIDES, key=room)
    ax.annotate(
        names.figure(text), (at[0], at[1]), (GAP_POINTS * side[0], GAP_POINTS * side[1]), textcoords="offset points",
        fontsize=size, color=colour, weight=weight, zorder=8,
        ha=("center", "left", "right")[side[0]], va=("center", "bottom", "top")[side[1]],
        bbox={"facecolor": theme.page, "edgecolor": "none", "pad": 0.8, "alpha": 0.65},
    )  # fmt: skip
    return middle(side) + np.linspace(-1, 1, 9)[:, None] * half * (1, 0)


def _window(points: Array) -> tuple[Array, float]:
    """The middle and the height of a map that holds all points, [n, 2]."""
    low, high = points.min(axis=0), points.max(axis=0)
    width, height = high - low + 2 * MARGIN_KM
    return (low + high) / 2, max(height, width / ASPECT, LEAST_KM)


def draw_ground(ax: Axes, view: Projection, height_km: float, theme: Theme) -> None:
    """The Earth's disc with land and graticule."""
    ax.grid(visible=False)
    ax.add_patch(Circle((0, 0), MEAN_RADIUS_KM, facecolor=theme.page, edgecolor=theme.edge, linewidth=0.8, zorder=0.1))
    fills, shores = [], []
    for ring in _land():
        facing = view.faces(ring)
        if facing.any():
            flat = view.plane(ring)
            # What lies behind the horizon is moved onto it, which closes the visible part.
            onto = flat * (MEAN_RADIUS_KM / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-9))
            fills.append(np.where(facing[:, None], flat, onto))
            shores.append(np.where(facing[:, None], flat, np.nan))
    ax.add_collection(PolyCollection(fills, facecolors=theme.area, edgecolors="none", zorder=0.2), autolim=False)
    ax.add_collection(LineCollection(shores, colors=theme.edge, linewidths=0.6, zorder=0.4), autolim=False)
    step = 10 if height_km < 5000 else 15
    turn, rise = np.linspace(-180, 180, 181), np.linspace(-90, 90, 91)
    lines = [_sphere(turn, np.full_like(turn, north)) for north in range(-90 + step, 90, step)]
    lines += [_sphere(np.full_like(rise, east), rise) for east in range(-180, 180, step)]
    graticule = [np.where(view.faces(line)[:, None], view.plane(line), np.nan) for line in lines]
    ax.add_collection(LineCollection(graticule, colors=theme.grid, linewidths=0.6, zorder=0.3), autolim=False)


@functools.cache
def _land() -> tuple[Array, ...]:
    """Outlines of land [n, 3] km, from Natural Earth (public domain), with points close enough for a horizon."""
    text = resources.files("orbitcc.eval.figures").joinpath("land.json").read_text(encoding="utf-8")
    rings = []
    for numbers in json.loads(text)["rings"]:
        ring = np.array(numbers).reshape(-1, 2)
        steps = np.maximum(np.ceil(np.abs(np.diff(ring, axis=0)).max(axis=1) / 3), 1).astype(int)
        at = np.concatenate([k + np.arange(n) / n for k, n in enumerate(steps)] + [[len(ring) - 1]])
        known = np.arange(len(ring))
        rings.append(_sphere(np.interp(at, known, ring[:, 0]), np.interp(at, known, ring[:, 1])))
    return tuple(rings)


def _sphere(longitude_deg: Array, latitude_deg: Array) -> Array:
    """Points of the ground, [n, 3] km."""
    east, north = np.radians(longitude_deg), np.radians(latitude_deg)
    flat = np.cos(north)
    return MEAN_RADIUS_KM * np.stack((flat * np.cos(east), flat * np.sin(east), np.sin(north)), axis=-1)


def _great_circle(one: Array, other: Array) -> Array:
    """The shortest way over the ground, [ARC_POINTS, 3] km."""
    a, b = one / np.linalg.norm(one), other / np.linalg.norm(other)
    angle = math.acos(float(np.clip(a @ b, -1, 1)))
    share = np.linspace(0, 1, ARC_POINTS)[:, None]
    if math.sin(angle) < 1e-9:
        return MEAN_RADIUS_KM * (a * (1 - share) + b * share)
    return MEAN_RADIUS_KM * (np.sin((1 - share) * angle) * a + np.sin(share * angle) * b) / math.sin(angle)
