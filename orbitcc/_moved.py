"""Modules that moved: importing one by its old name is an error that says where it is now."""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_ROOMS = {
    "envs.description": ("compile", "flows", "links", "model", "ranges", "scenario"),
    "envs.environments": (
        "batch", "connections", "episodes", "journal", "parallel",  "presets", "registration",
        "render", "rllib", "sb3", "single", "slots", "source", "vector",
    ),
    "eval.figures": ("globe", "style"),
}  # fmt: skip
MOVED = {
    **{
        f"orbitcc.{room.split('.')[0]}.{name}": f"orbitcc.{room}.{name}"
        for room, names in _ROOMS.items()
        for name in names
    },
    "orbitcc.envs.pieces": "orbitcc.envs.environments.custom",
    **dict.fromkeys(
        ("orbitcc.envs.batched", "orbitcc.envs.environments.batched"), "orbitcc.envs.environments.batched_parallel"
    ),
    "orbitcc.envs.distribution": "orbitcc.envs.scenarios.distribution",
    "orbitcc.envs.simulate": "orbitcc.envs.backends.simulator",
    **{f"orbitcc.eval.{name}_figure": f"orbitcc.eval.figures.{name}" for name in ("path", "run", "scenario")},
    **{f"orbitcc.eval.{name}_figures": f"orbitcc.eval.figures.{name}" for name in ("geo", "grid")},
    "orbitcc.eval.envelope": "orbitcc.eval.extrapolation",
    "orbitcc.eval.assessment.card": "orbitcc.eval.assessment.judgement",
    "orbitcc.eval.figures.suites": "orbitcc.eval.figures.by_suite",
    "orbitcc.eval.suites.further": "orbitcc.eval.suites.leo_unpublished",
}
"""Old name of a module -> the new one."""


class _Signpost:
    """Last of Python's finders: asked only for what nobody else has found."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in MOVED:
            raise ImportError(f"{name} has moved: it is {MOVED[name]} now", name=name)
        return None


def put_up_signposts() -> None:
    """Begin to tell who asks for an old name; a second call changes nothing."""
    if _Signpost not in sys.meta_path:
        sys.meta_path.append(_Signpost)
