"""Places on the ground: cities by name, points by coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.envs.orbits.constellation import EARTH_RADIUS_KM

Array = NDArray[np.float64]

_ECCENTRICITY_2 = 6.69437999014e-3
"""Square of the first eccentricity of the WGS-84 ellipsoid."""
MEAN_RADIUS_KM = 6371.0


@dataclass(frozen=True, slots=True)
class Place:
    """A point on the WGS-84 ellipsoid, in degrees north and east."""

    name: str
    latitude_deg: float
    longitude_deg: float

    def position_km(self) -> Array:
        """Earth-fixed coordinates, [3] in km."""
        latitude, longitude = math.radians(self.latitude_deg), math.radians(self.longitude_deg)
        radius = EARTH_RADIUS_KM / math.sqrt(1 - _ECCENTRICITY_2 * math.sin(latitude) ** 2)
        return np.array(
            (
                radius * math.cos(latitude) * math.cos(longitude),
                radius * math.cos(latitude) * math.sin(longitude),
                radius * (1 - _ECCENTRICITY_2) * math.sin(latitude),
            )
        )

    def up(self) -> Array:
        """The unit vector that points straight up, [3]."""
        latitude, longitude = math.radians(self.latitude_deg), math.radians(self.longitude_deg)
        return np.array(
            (
                math.cos(latitude) * math.cos(longitude),
                math.cos(latitude) * math.sin(longitude),
                math.sin(latitude),
            )
        )


def great_circle_km(one: Place, other: Place) -> float:
    """The great-circle distance on a sphere with a radius of 6371 km."""
    cross = np.linalg.norm(np.cross(one.up(), other.up()))
    return MEAN_RADIUS_KM * math.atan2(float(cross), float(one.up() @ other.up()))


def find(text: str, field: str = "place") -> Place:
    """A city by name, or the point "latitude,longitude" in degrees. Raises OrbitccError about `field`."""
    if text in CITIES:
        return CITIES[text]
    by_lower = {name.lower(): city for name, city in CITIES.items()}
    if text.strip().lower() in by_lower:
        return by_lower[text.strip().lower()]
    latitude, comma, longitude = text.partition(",")
    if not comma:
        raise UnknownPlaceError(field, text)
    try:
        north, east = float(latitude), float(longitude)
    except ValueError:
        raise UnknownPlaceError(field, text) from None
    if not (-90 <= north <= 90 and -180 <= east <= 180):
        raise OrbitccError(field, text, "latitude in [-90, 90] and longitude in [-180, 180] degrees")
    return Place(f"{north:g},{east:g}", north, east)


class UnknownPlaceError(UnknownNameError):
    """A place that is neither in the list of cities nor a pair of coordinates."""

    kind = "place"

    def __init__(self, field: str, name: str) -> None:
        super().__init__(field, name, sorted(CITIES), "orbitcc list places")

    def _message(self) -> str:
        return f"{super()._message()}, or latitude,longitude in degrees, e.g. 47.61,-122.34"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value)


CITIES = {
    name: Place(name, latitude, longitude)
    for name, latitude, longitude in (
        # The five ends of LeoEM's paths (Cao and Zhang 2022), with the digits given there.
        ("San Diego", 32.881, -117.237),
        ("New York", 40.845, -73.932),
        ("Seattle", 47.608, -122.335),
        ("London", 51.5074, -0.1278),
        ("Shanghai", 31.2304, 121.4737),
        ("Accra", 5.60, -0.19),
        ("Amsterdam", 52.37, 4.90),
        ("Anchorage", 61.22, -149.90),
        ("Athens", 37.98, 23.73),
        ("Atlanta", 33.75, -84.39),
        ("Auckland", -36.85, 174.76),
        ("Bangkok", 13.76, 100.50),
        ("Beijing", 39.90, 116.41),
        ("Berlin", 52.52, 13.41),
        ("Bogota", 4.71, -74.07),
        ("Buenos Aires", -34.60, -58.38),
        ("Cairo", 30.04, 31.24),
        ("Cape Town", -33.92, 18.42),
        ("Casablanca", 33.57, -7.59),
        ("Chicago", 41.88, -87.63),
        ("Dakar", 14.72, -17.47),
        ("Dallas", 32.78, -96.80),
        ("Delhi", 28.61, 77.21),
        ("Denver", 39.74, -104.99),
        ("Dubai", 25.20, 55.27),
        ("Dublin", 53.35, -6.26),
        ("Frankfurt", 50.11, 8.68),
        ("Hong Kong", 22.32, 114.17),
        ("Honolulu", 21.31, -157.86),
        ("Istanbul", 41.01, 28.98),
        ("Jakarta", -6.21, 106.85),
        ("Johannesburg", -26.20, 28.05),
        ("Karachi", 24.86, 67.01),
        ("Kyiv", 50.45, 30.52),
        ("Lagos", 6.52, 3.38),
        ("Lima", -12.05, -77.04),
        ("Lisbon", 38.72, -9.14),
        ("Los Angeles", 34.05, -118.24),
        ("Madrid", 40.42, -3.70),
        ("Manila", 14.60, 120.98),
        ("Melbourne", -37.81, 144.96),
        ("Mexico City", 19.43, -99.13),
        ("Miami", 25.76, -80.19),
        ("Montreal", 45.50, -73.57),
        ("Moscow", 55.76, 37.62),
        ("Mumbai", 19.08, 72.88),
        ("Nairobi", -1.29, 36.82),
        ("Oslo", 59.91, 10.75),
        ("Oulu", 65.01, 25.47),
        ("Paris", 48.86, 2.35),
        ("Perth", -31.95, 115.86),
        ("Reykjavik", 64.15, -21.94),
        ("Rome", 41.90, 12.50),
        ("San Francisco", 37.77, -122.42),
        ("Santiago", -33.45, -70.67),
        ("Sao Paulo", -23.55, -46.63),
        ("Seoul", 37.57, 126.98),
        ("Singapore", 1.35, 103.82),
        ("Sydney", -33.87, 151.21),
        ("Tokyo", 35.68, 139.69),
        ("Toronto", 43.65, -79.38),
        ("Vancouver", 49.28, -123.12),
        ("Victoria BC", 48.43, -123.37),
        ("Victoria Seychelles", -4.62, 55.45),
        ("Warsaw", 52.23, 21.01),
        ("Washington", 38.91, -77.04),
    )
}
