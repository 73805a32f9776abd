"""Gateways: the ground stations of bent pipes.

Our own compilation, from public sources, of towns with a Starlink gateway or another large teleport. Coordinates are
accurate to about 0.1 degrees (11 km), which changes no delay by more than 0.04 ms. The list is not complete and has no
specific date; operators do not publish which gateways serve which users.
"""

from __future__ import annotations

from orbitcc.envs.orbits.places import Place

GATEWAYS = tuple(
    Place(name, latitude, longitude)
    for name, latitude, longitude in (
        # North America
        ("North Bend WA", 47.5, -121.8),
        ("Brewster WA", 48.1, -119.7),
        ("Kalama WA", 46.0, -122.8),
        ("Prosser WA", 46.2, -119.8),
        ("Charleston OR", 43.3, -124.3),
        ("Arbuckle CA", 39.0, -122.1),
        ("Hawthorne CA", 33.9, -118.3),
        ("Panaca NV", 37.8, -114.4),
        ("Vernon UT", 40.1, -112.4),
        ("Butte MT", 46.0, -112.5),
        ("Conrad MT", 48.2, -111.9),
        ("Loring MT", 48.8, -107.9),
        ("Evanston WY", 41.3, -111.0),
        ("Cheyenne WY", 41.1, -104.8),
        ("Dumas TX", 35.9, -102.0),
        ("Sanderson TX", 30.1, -102.4),
        ("New Braunfels TX", 29.7, -98.1),
        ("Boca Chica TX", 26.0, -97.2),
        ("Springer OK", 34.3, -97.1),
        ("Hitterdal MN", 47.0, -96.3),
        ("Merrillan WI", 44.5, -90.8),
        ("Wright City MO", 38.8, -91.0),
        ("Savannah TN", 35.2, -88.2),
        ("Baxley GA", 31.8, -82.4),
        ("Kenansville FL", 27.9, -81.0),
        ("Manassas VA", 38.8, -77.5),
        ("Greenville PA", 41.4, -80.4),
        ("Lockport NY", 43.2, -78.7),
        ("Litchfield CT", 41.7, -73.2),
        ("Fairbanks AK", 64.8, -147.7),
        ("Nome AK", 64.5, -165.4),
        ("Ketchikan AK", 55.3, -131.6),
        ("Saguenay QC", 48.4, -71.1),
        ("Saint John's NL", 47.6, -52.7),
        ("Paumalu HI", 21.7, -158.0),
        # Latin America
        ("Queretaro MX", 20.6, -100.4),
        ("Merida MX", 21.0, -89.6),
        ("Bogota CO", 4.7, -74.1),
        ("Lurin PE", -12.3, -76.9),
        ("Caldera CL", -27.1, -70.8),
        ("Noviciado CL", -33.4, -70.8),
        ("Puerto Montt CL", -41.5, -72.9),
        ("Punta Arenas CL", -53.2, -70.9),
        ("Falda del Carmen AR", -31.6, -64.5),
        ("Porto Alegre BR", -30.0, -51.2),
        ("Itaborai BR", -22.7, -42.9),
        ("Camacari BR", -12.7, -38.3),
        ("Manaus BR", -3.1, -60.0),
        # Europe
        ("Goonhilly UK", 50.0, -5.2),
        ("Chalfont Grove UK", 51.6, -0.6),
        ("Isle of Man", 54.2, -4.5),
        ("Elfordstown IE", 51.9, -8.2),
        ("Villenave-d'Ornon FR", 44.8, -0.6),
        ("Gravelines FR", 51.0, 2.1),
        ("Ibi ES", 38.6, -0.6),
        ("Villarejo de Salvanes ES", 40.2, -3.3),
        ("Sintra PT", 38.9, -9.3),
        ("Aerzen DE", 52.0, 9.3),
        ("Usingen DE", 50.3, 8.5),
        ("Turin IT", 45.1, 7.7),
        ("Foggia IT", 41.5, 15.5),
        ("Wola Krobowska PL", 51.9, 20.9),
        ("Kaunas LT", 54.9, 23.9),
        ("Nemea GR", 37.8, 22.6),
        ("Istanbul TR", 41.0, 28.9),
        # Africa and the Middle East
        ("Ikire NG", 7.4, 4.2),
        ("Hartebeesthoek ZA", -25.9, 27.7),
        ("Longonot KE", -1.0, 36.5),
        ("Al Amerat OM", 23.5, 58.5),
        # Asia and the Pacific
        ("Hitachinaka JP", 36.4, 140.5),
        ("Akita JP", 39.7, 140.1),
        ("Yamaguchi JP", 34.2, 131.6),
        ("Kumsan KR", 36.1, 127.5),
        ("Santa Rosa PH", 14.3, 121.1),
        ("Cyberjaya MY", 2.9, 101.7),
        ("Singapore", 1.35, 103.8),
        ("Jatiluhur ID", -6.5, 107.4),
        ("Guam", 13.4, 144.8),
        ("Suva FJ", -18.1, 178.4),
        ("Wagin AU", -33.3, 117.3),
        ("Bulla Bulling AU", -31.0, 120.9),
        ("Pimba AU", -31.3, 136.8),
        ("Boorowa AU", -34.4, 148.7),
        ("Bogantungan AU", -23.6, 147.3),
        ("Te Hana NZ", -36.3, 174.5),
        ("Awarua NZ", -46.5, 168.4),
    )
)
