"""Paths over satellites: constellations, routes, and traces of their delay, capacity and handovers."""
