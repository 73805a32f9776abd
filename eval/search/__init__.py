"""Worlds in which a controller does much worse than another: searched in declared ranges, shrunk and grouped."""

from orbitcc.eval.search.regret import OBJECTIVES, Objective
from orbitcc.eval.search.search import Found, Search, run_search, save
from orbitcc.eval.search.space import Space, space_of

__all__ = ["OBJECTIVES", "Found", "Objective", "Search", "Space", "run_search", "save", "space_of"]
