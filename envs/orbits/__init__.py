"""Paths over satellites: constellation geometry, routes, and the traces of delay, capacity and handovers they give."""
