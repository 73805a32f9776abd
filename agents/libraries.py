"""Policies in the files of the library that trained them: `rllib:FOLDER` and `sb3:FILE`, each `[:option=value,...]`.

* `rllib:FOLDER`: the checkpoint of an algorithm of RLlib (new API stack), or of an RLModule of one. The connectors of
  the checkpoint process observations and actions. Option `module`: the id of one of several policies.
* `sb3:FILE`: the zip file of a model of Stable-Baselines3 or sb3-contrib. Option `normalize`: the file of its
  `VecNormalize`.

Both take `preset`: observation, action and interval of the policy. An algorithm of RLlib stores them (`env_config`),
the others do not. Decisions are deterministic. A recurrent policy keeps a state for each flow.

Both kinds of files hold pickled objects, and loading these runs code. They are loaded only from places that
:func:`trust` was given, which the command line (`--trust PATH`) and Python can call, but no file.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orbitcc.common.errors import (
    FileContentError,
    NoSuchFileError,
    OrbitccError,
    OrbitccWarning,
    StateError,
    UnknownNameError,
)
from orbitcc.common.extras import installing
from orbitcc.common.files import MOST_STATE, open_regular, read_bytes
from orbitcc.common.names import plain
from orbitcc.envs.environments import presets
from orbitcc.envs.environments.presets import Preset, of_choices
from orbitcc.envs.environments.registration import FLOWS, IDS, WORLDS

Act = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""obs f32[n, D] -> actions f32[n, A]."""

KINDS = {"rllib": ("module", "preset"), "sb3": ("normalize", "preset")}
"""Library -> the options of its policies."""
CLASS_FILE = "class_and_ctor_args.pkl"
MODULES = Path("learner_group", "learner", "rl_module")
CONNECTORS = (Path("env_runner", "env_to_module_connector"), Path("env_runner", "module_to_env_connector"))

_trusted: set[Path] = set()


class Policy(Protocol):
    """A policy whose flows each have an object of their own."""

    preset: Preset
    foreign: str | None
    """The environment of somebody else in which it was trained."""

    def begin(self) -> Any:
        """What decides for one flow: an object with `act(obs f32[1, D]) -> f32[1, A]`."""


def is_library_policy(name: str) -> bool:
    """Is this `rllib:FOLDER` or `sb3:FILE`, rather than `package.module:factory` or a checkpoint of ours?"""
    kind, colon, rest = name.partition(":")
    return bool(colon and rest) and kind in KINDS


def suggestion(path: Path) -> str:
    """How to name a policy of a library that is at this path; empty where none is."""
    if path.is_dir() and ((path / CLASS_FILE).is_file() or (path / "rllib_checkpoint.json").is_file()):
        return f"rllib:{path}"
    return f"sb3:{path}" if path.is_file() and path.suffix == ".zip" else ""


def trust(places: Iterable[str | Path]) -> None:
    """Allow that policies at these paths, and below them, run code in this process and in its workers."""
    _trusted.update(Path(place).expanduser().resolve() for place in places)


def trusted() -> tuple[Path, ...]:
    """What :func:`trust` was given, for worker processes."""
    return tuple(sorted(_trusted))


def label(name: str) -> str:
    """A short name for tables: the last part of the path, as it was given, and the options."""
    kind, path, given = _split(name)
    options = sorted(item.partition("=") for item in given.split(",") if item)
    chosen = ",".join(f"{key}={Path(value).name}" for key, _, value in options if key != "normalize")
    last = os.path.basename(os.path.abspath(os.path.expanduser(path)))  # a link keeps its name
    return f"{kind}:{last.replace(' ', '_')}" + (f":{chosen}" if chosen else "")


def digest(name: str) -> str:
    """12 hex digits of the files that decide, and of the options."""
    kind, path, options = _parts(name)
    files = [path]
    if kind == "rllib":
        places = [path / place for place in (MODULES, *CONNECTORS)] if _is_algorithm(path) else [path]
        inside = {file for place in places for file in place.rglob("*") if not file.is_dir()}
        inside |= {file for file in path.glob("*") if not file.is_dir()}  # settings: the preset of its environment, say
        for file in inside:  # RLlib would wait for a pipe
            open_regular(file, MOST_STATE).close()
        files = sorted(file for file in inside if file.suffix in (".pkl", ".msgpack"))
    elif "normalize" in options:
        files.append(_existing(options["normalize"]))
    found = hashlib.sha256(repr(sorted(options.items())).encode())
    if "preset" in options:
        found.update(presets.preset(options["preset"]).identity.encode())
    for file in files:
        found.update(read_bytes(file, MOST_STATE))
    return found.hexdigest()[:12]


def load(name: str) -> Policy:
    """The policy, loaded once for all runs of this process.

    Raises:
        OrbitccError: the file is missing, not trusted or not what it should be; the library is not installed; the
            preset is not known or does not fit the network.
    """
    _, path, options = _parts(name)
    places = [path.resolve(), *(_existing(options[key]).resolve() for key in ("normalize",) if key in options)]
    for place in places:
        if not any(place.is_relative_to(known) for known in _trusted):
            raise StateError(
                "policy",
                f"{name} holds pickled objects, which can run code when they are loaded; if you trust whoever wrote "
                f"them: --trust {place if place != path.resolve() else path}",
            )
    here = os.getcwd()
    if here not in sys.path:  # classes of a script beside the checkpoint
        sys.path.insert(0, here)
    policy = _load(name, digest(name))
    if policy.foreign is not None and parent_process() is None:  # once, not in each worker
        text = f"{name} was trained in {policy.foreign}, none of our environments: here it observes and acts as the "
        text += f"preset {policy.preset.name} says; what else that environment did with observations and actions is "
        text += "left out"
        warnings.warn(plain(text), OrbitccWarning, stacklevel=2)
    return policy


@lru_cache(maxsize=8)
def _load(name: str, _: str) -> Policy:
    kind, path, options = _parts(name)
    try:
        import torch

        torch.set_num_threads(1)  # of small networks: more would wait for each other
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _Rllib(name, path, options) if kind == "rllib" else _Sb3(name, path, options)
    except OrbitccError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or str(error)
        known = missing.partition(".")[0] in ("torch", "ray", "stable_baselines3")
        comes = f", which comes with {installing('train')}" if known else ""
        raise OrbitccError(
            "policy", name, f"a policy whose libraries are installed; missing: {missing}{comes}"
        ) from error
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        allowed = f"a policy that this version of its library can load ({type(error).__name__}: {reason})"
        raise OrbitccError("policy", name, allowed) from error


def _parts(name: str) -> tuple[str, Path, dict[str, str]]:
    """Library, path and options. Raises OrbitccError for an unknown option or a missing file."""
    kind, path, given = _split(name)
    options = {}
    for item in filter(None, given.split(",")):
        key, equals, value = item.partition("=")
        if key not in KINDS[kind]:
            raise UnknownNameError("policy", key, KINDS[kind])
        if not equals or not value:
            raise OrbitccError("policy", item, f"{key}=VALUE")
        options[key] = value
    return kind, _existing(path), options


def _split(name: str) -> tuple[str, str, str]:
    """Library, path and options, as text."""
    kind, _, rest = name.partition(":")
    before, colon, last = rest.rpartition(":")
    return (kind, before, last) if colon and "=" in last else (kind, rest, "")


def _existing(text: str) -> Path:
    path = Path(text).expanduser()
    if not path.exists():
        raise NoSuchFileError("policy", text)
    return path


def _chosen(name: str, options: Mapping[str, str], known: Preset | None) -> Preset:
    if "preset" in options:
        return presets.preset(options["preset"]).for_deployment()
    if known is None:
        kind = name.partition(":")[0]
        option = f"{name}{',' if '=' in name.rpartition(':')[2] else ':'}preset=NAME"
        why = (
            "its environment is none of ours, with no preset in env_config"
            if kind == "rllib"
            else "files do not say it"
        )
        raise StateError("policy", f"the preset of {name} is not known ({why}): {option} (`orbitcc list presets`)")
    return known.for_deployment()


def _check_spaces(name: str, preset: Preset, seen: Any, done: Any, beyond: int = 0) -> None:
    """The observation and action spaces of a network must be those of the preset. beyond: further inputs."""
    inputs, expected = getattr(seen, "shape", None), (preset.observation_space().shape[0] + beyond,)
    if inputs != expected:
        allowed = f"a policy that observes shape {expected}, as the preset {preset.name} does; it observes {inputs}"
        raise OrbitccError("policy", name, allowed)
    outputs = getattr(done, "n", None) if preset.choices is not None else getattr(done, "shape", None)
    wanted = preset.choices if preset.choices is not None else (preset.action_dim,)
    if outputs != wanted:
        what = f"one of {wanted} actions" if preset.choices is not None else f"actions of shape {wanted}"
        raise OrbitccError("policy", name, f"a policy with {what}, as the preset {preset.name} has; it has {done}")


def _action(preset: Preset, action: Any) -> NDArray[np.float32]:
    """The action of a network as f32[1, A] in [-1, 1]."""
    row = np.asarray(action, np.float32).reshape(1, -1)
    if preset.choices is not None:
        row = of_choices(row, preset.choices)
    return np.clip(row, -1.0, 1.0)


# RLlib


def _is_algorithm(path: Path) -> bool:
    return (path / MODULES).is_dir()


class _Rllib:
    def __init__(self, name: str, path: Path, options: Mapping[str, str]) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
        from ray.rllib.core.rl_module.rl_module import RLModule

        logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of itself when a module is read
        if not (path / CLASS_FILE).is_file():
            allowed = f"a checkpoint of RLlib's new API stack, a folder with {CLASS_FILE}"
            raise FileContentError("policy", str(path), allowed)
        whole = _is_algorithm(path)
        config = _config(path) if whole else {}
        folder = (path / MODULES if whole else path).absolute()
        modules = RLModule.from_checkpoint(folder)
        self._id, self._agent = "", None
        module = modules
        if isinstance(modules, MultiRLModule):
            self._id = _module_id(name, sorted(modules.keys()), options.get("module"))
            module = modules[self._id]
        elif "module" in options:
            raise OrbitccError("policy.module", options["module"], "a checkpoint of several policies")
        self.preset = _chosen(name, options, _stored_preset(config))
        env = config.get("env")
        self.foreign = None if not whole or _is_ours(env) else str(getattr(env, "__qualname__", env))
        if whole:
            from ray.rllib.connectors.connector_v2 import ConnectorV2

            self._to_module, self._to_env = (
                ConnectorV2.from_checkpoint((path / place).absolute()) for place in CONNECTORS
            )
        else:
            self._to_module, self._to_env = _default_connectors(module)
        for connector in self._to_module.connectors:
            if hasattr(connector, "_update_stats"):
                connector._update_stats = False  # of a running mean: training has ended
        seen, done = self._to_module.input_observation_space, self._to_module.input_action_space
        self._several = any(type(c).__name__ == "AgentToModuleMapping" for c in self._to_module.connectors)
        if self._several:
            self._agent = _agent_of(seen, module)
            seen, done = seen[self._agent], done[self._agent]
        self._module = modules if self._several else module
        self._spaces = seen, done
        self._beyond = max(0, _width(seen) - self.preset.observation_space().shape[0]) if _has_state(config) else 0
        _check_spaces(name, self.preset, seen, done, self._beyond)
        if self._beyond and not self._ignores_the_rest():
            allowed = "a policy that does not read the global state of its world, which no real flow knows"
            raise OrbitccError("policy", name, allowed)

    def begin(self) -> _RllibFlow:
        return _RllibFlow(self)

    def _ignores_the_rest(self) -> bool:
        """Is the action the same, whatever the columns of the global state hold?"""
        seen = np.zeros((1, self._spaces[0].shape[0] - self._beyond), np.float32)
        return bool(np.array_equal(self.begin().act(seen), self.begin().act(seen, rest=1.0)))

    def episode(self) -> Any:
        """A new, empty episode of RLlib's."""
        from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
        from ray.rllib.env.single_agent_episode import SingleAgentEpisode

        seen, done = self._spaces
        if not self._several:
            return SingleAgentEpisode(observation_space=seen, action_space=done)
        return MultiAgentEpisode(
            observation_space={self._agent: seen},
            action_space={self._agent: done},
            agent_to_module_mapping_fn=lambda *_, **__: self._id,
        )


class _RllibFlow:
    """An episode of RLlib's that goes on as long as its flow; it holds the state of a recurrent module."""

    def __init__(self, policy: _Rllib) -> None:
        self._policy = policy
        self._episode = policy.episode()
        self._last: tuple[Any, dict[str, Any]] | None = None
        self._shared: dict[str, Any] = {"vector_env_episodes_map": {}}

    def act(self, obs: NDArray[np.float32], rest: float = 0.0) -> NDArray[np.float32]:
        """Action f32[1, A]; rest: what stands in columns that the network has for its critic alone."""
        from ray.rllib.core.columns import Columns

        policy, episode = self._policy, self._episode
        self._observe(np.concatenate([obs[0], np.full(policy._beyond, rest, np.float32)]))
        common = {"rl_module": policy._module, "episodes": [episode], "explore": False, "shared_data": self._shared}
        batch = policy._module.forward_inference(policy._to_module(batch={}, **common))
        out = policy._to_env(batch=batch, **common)
        self._shared["vector_env_episodes_map"] = {}
        actions = out.pop(Columns.ACTIONS)
        for_env = out.pop(Columns.ACTIONS_FOR_ENV, actions)[0]
        self._last = actions[0], {key: value[0] for key, value in out.items()}
        return _action(policy.preset, for_env[policy._agent] if policy._several else for_env)

    def _observe(self, row: NDArray[np.float32]) -> None:
        agent, episode = self._policy._agent, self._episode
        if self._policy._several:
            if self._last is None:
                episode.add_env_reset(observations={agent: row}, infos={agent: {}})
                return
            actions, extra = self._last
            episode.add_env_step(
                {agent: row},
                actions,
                {agent: 0.0},
                {agent: {}},
                terminateds={"__all__": False},
                truncateds={"__all__": False},
                extra_model_outputs={agent: {key: values[agent] for key, values in extra.items() if agent in values}},
            )
        elif self._last is None:
            episode.add_env_reset(observation=row, infos={})
        else:
            action, extra = self._last
            episode.add_env_step(row, action, 0.0, {}, extra_model_outputs=extra)


def _config(path: Path) -> Mapping[str, Any]:
    """The settings of the algorithm."""
    from ray import cloudpickle

    with (path / CLASS_FILE).open("rb") as file:
        given, named = cloudpickle.load(file)["ctor_args_and_kwargs"]
    config = given[0] if given else named.get("config", {})
    return config if isinstance(config, Mapping) else config.to_dict()


def _stored_preset(config: Mapping[str, Any]) -> Preset | None:
    """The preset in the arguments of the environment; None if it is another's environment that does not name one."""
    settings = config.get("env_config") or {}
    scenario = settings.get("scenario")
    named = settings.get("preset") or getattr(scenario, "preset", None)
    if named is None and not _is_ours(config.get("env")):
        return None
    parts = {key: settings[key] for key in ("observation", "action", "interval_ms") if settings.get(key) is not None}
    return presets.preset(named or presets.DEFAULT, **parts)


def _is_ours(env: Any) -> bool:
    """Is this environment, by name or class, one of OrbitCC's?"""
    known = isinstance(env, str) and env.removeprefix("orbitcc:") in {*IDS, FLOWS, WORLDS}
    return known or getattr(env, "__module__", "").startswith("orbitcc.")


def _has_state(config: Mapping[str, Any]) -> bool:
    return bool((config.get("env_config") or {}).get("global_state"))


def _module_id(name: str, known: list[str], wanted: str | None) -> str:
    if wanted is not None:
        if wanted not in known:
            raise UnknownNameError("policy.module", wanted, known)
        return wanted
    if len(known) > 1:
        separator = "," if "=" in name.rpartition(":")[2] else ":"
        allowed = f"one of several policies: {', '.join(f'{name}{separator}module={key}' for key in known)}"
        raise OrbitccError("policy", name, allowed)
    return known[0]


def _default_connectors(module: Any) -> tuple[Any, Any]:
    """Those of an algorithm without connectors of its own, for a module alone."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core import DEFAULT_MODULE_ID  # noqa: F401  (fails early on the old API stack)
    from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES

    config, spaces = PPOConfig(), (module.observation_space, module.action_space)
    known = {INPUT_ENV_SINGLE_SPACES: spaces, INPUT_ENV_SPACES: spaces}
    build = (
        partial(config.build_env_to_module_connector, spaces=known),
        partial(config.build_module_to_env_connector, spaces=known),
    )
    return build[0](), build[1]()


def _width(space: Any) -> int:
    return int(space.shape[0]) if getattr(space, "shape", None) else 0


def _agent_of(spaces: Any, module: Any) -> Any:
    """An agent of the training whose observation has the shape that this module takes."""
    fits = [agent for agent, space in spaces.spaces.items() if space.shape == module.observation_space.shape]
    return next(iter(fits or spaces.spaces))


# Stable-Baselines3


class _Sb3:
    def __init__(self, name: str, path: Path, options: Mapping[str, str]) -> None:
        from stable_baselines3.common.save_util import load_from_zip_file

        self.preset = _chosen(name, options, None)
        self.foreign: str | None = None  # the file does not name its environment
        data, params, _ = load_from_zip_file(str(path), device="cpu")
        if not data or "policy" not in params:
            raise FileContentError("policy", str(path), "a model that Stable-Baselines3 has saved")
        seen, done = data["observation_space"], data["action_space"]
        _check_spaces(name, self.preset, seen, done)
        arguments = dict(data.get("policy_kwargs") or {})
        if data.get("use_sde"):
            arguments["use_sde"] = True
        self.policy = data["policy_class"](seen, done, lambda _: 0.0, **arguments)
        self.policy.load_state_dict(params["policy"])
        self.policy.set_training_mode(False)
        self.normalise: Act = lambda obs: obs
        if "normalize" in options:
            import pickle

            with Path(options["normalize"]).expanduser().open("rb") as file:
                statistics = pickle.load(file)
            self.normalise = statistics.normalize_obs

    def begin(self) -> _Sb3Flow:
        return _Sb3Flow(self)


class _Sb3Flow:
    def __init__(self, policy: _Sb3) -> None:
        self._policy = policy
        self._state: Any = None

    def act(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Action f32[1, A]."""
        seen, first = self._policy.normalise(obs), np.array([self._state is None])
        action, self._state = self._policy.policy.predict(seen, self._state, first, deterministic=True)
        return _action(self._policy.preset, action)
