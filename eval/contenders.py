"""Contenders: classical controllers and policies under evaluation, each with a label."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orbitcc.common.errors import OrbitccError, StateError, UnknownNameError
from orbitcc.common.files import MOST_TABLE, read_bytes
from orbitcc.envs import controllers
from orbitcc.envs.description.flows import Flow
from orbitcc.envs.description.scenario import ControllerSpec, Scenario

SIMULATED = "@simulator"
ORACLE = "oracle"
"""The label of :func:`oracle`."""


@dataclass(frozen=True)
class Contender:
    """One line of every table and figure.

    label: what people read, unique within the results. digest: of a policy's files or source, so that a policy that was
    trained or written anew is another contender under the same name; empty for classical controllers. family: the
    observation of a checkpoint. simulated: it runs in the simulator, whatever the backend of the others is; its label
    ends with `@simulator`.
    """

    label: str
    controller: str
    params: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    family: str = ""
    simulated: bool = False

    @property
    def key(self) -> str:
        """Identifies the contender in stored results; a policy is identified by its weights."""
        if self.digest:
            return f"{self.label.split(' ')[0]}#{self.digest}"
        return spec_text(self.controller, self.params) + (SIMULATED if self.simulated else "")

    @property
    def design(self) -> str:
        """What it does: the same for `cubic` and `cubic:hystart=both`, the default. Of a policy, its key."""
        if self.digest:
            return self.key
        params = controllers.check(self.controller, self.params)
        hosts = {key: params.get(key) for key in controllers.HOST_PARAMS}
        return json.dumps([controllers.make(self.controller, params)[0], hosts, self.simulated], sort_keys=True)

    def check_unchanged(self) -> None:
        """StateError where the policy's files are no longer those with which the evaluation began."""
        if self.digest and self.controller != controllers.PROGRAM:
            now = digest_of(ControllerSpec(name=self.controller, params=dict(self.params)))
            if now != self.digest:
                raise StateError(self.label, "its files were changed while it was evaluated; evaluate it once more")

    def take_all(self, scenario: Scenario) -> Scenario:
        """The scenario with every flow driven by this contender and named after it."""
        return self.take(scenario, lambda flow: flow.controller.name != "udp")

    def take(self, scenario: Scenario, chosen: Callable[[Flow], bool]) -> Scenario:
        """The scenario with the chosen flows driven by this contender and named after it."""
        spec = ControllerSpec(name=self.controller, params=dict(self.params))
        others = {flow.name for flow in scenario.flows if not chosen(flow)}

        def name(position: int) -> str:
            own = f"{self.label}-{position}" if len(scenario.flows) > 1 else self.label
            return f"{own}-judged" if own in others else own  # Cubic beside Cubic

        return scenario.with_flows(
            [
                flow.changed(controller=spec, name=name(i)) if chosen(flow) else flow
                for i, flow in enumerate(scenario.flows)
            ]
        )


def spec_text(name: str, params: Mapping[str, Any]) -> str:
    """`cubic:hystart=off,kernel=v6`: parameters in alphabetical order."""
    return name + "".join(f"{',' if i else ':'}{key}={params[key]}" for i, key in enumerate(sorted(params)))


def from_controller(text: str) -> Contender:
    """A `--controller NAME[:param=value,...]` argument. Raises OrbitccError for an unknown name or a start time."""
    if "@" in text:
        raise OrbitccError("--controller", text, "NAME[:param=value,...]; a suite decides itself when flows start")
    try:
        spec = ControllerSpec.parse(text)
    except OrbitccError as error:
        raise (error.at if error.field in ("", "name") else error.under)("--controller") from None
    if controllers.get(spec.name).kind == "internal":
        raise UnknownNameError("--controller", spec.name, controllers.names(), "orbitcc list controllers")
    if controllers.get(spec.name).kind == "policy":
        if spec.name == "policy" and not spec.params.get("path"):
            raise OrbitccError("--controller", text, "policy:path=FOLDER, or --policy FOLDER")
        return _policy(str(spec.params.get("path", spec.name)), spec.params)
    return Contender(spec_text(spec.name, spec.params), spec.name, dict(spec.params))


def from_policy(text: str) -> Contender:
    """A `--policy` argument: the policy, then `[:option=value,...]`. Raises OrbitccError if it cannot be used."""
    from orbitcc.agents.registry import policy_spec

    try:
        params = policy_spec(text).params
    except OrbitccError as error:
        raise error.under("--policy") from None
    return _policy(params["path"], params)


def oracle() -> Contender:
    """Who knows rate, RTT and rivals (:mod:`orbitcc.agents.oracle`): what others are measured by; it is not ranked."""
    return replace(from_policy("orbitcc.agents.oracle:Oracle"), label=ORACLE)


def _policy(name_or_path: str, params: Mapping[str, Any]) -> Contender:
    """The policy with those of these parameters that change how it decides."""
    from orbitcc.agents.registry import OPTIONS

    plain = _as_trained(name_or_path)
    options = {key: params[key] for key, option in OPTIONS.items() if params.get(key, option.default) != option.default}
    if not options:
        return plain
    given = {**plain.params, **options}
    controllers.get(plain.controller).make(controllers.check(plain.controller, given))  # refuses what it cannot do
    digest = hashlib.sha256(f"{plain.digest} {options}".encode()).hexdigest()[:12]
    return replace(plain, label=spec_text(plain.label, options), params=given, digest=digest)


_TEXTS = {"schema_version", "name", "description", "training", "training_range", "imported", "scores"}
_DIGESTS = {"weights_sha256", "digest"}
"""Fields of a model card that do not change how a policy decides."""


def _as_trained(name_or_path: str) -> Contender:
    from orbitcc.agents import checkpoint, libraries, python_policy

    if python_policy.is_python_policy(name_or_path):
        python_policy.load(name_or_path)
        label = libraries.label(name_or_path) if libraries.is_library_policy(name_or_path) else name_or_path
        return Contender(label, "policy", {"path": name_or_path}, python_policy.digest(name_or_path))
    loaded = checkpoint.load(name_or_path)
    acting = loaded.card.model_dump_json(exclude=_TEXTS | _DIGESTS)
    weights = read_bytes(loaded.path / checkpoint.WEIGHTS, MOST_TABLE)
    digest = hashlib.sha256(acting.encode() + weights).hexdigest()[:12]
    family = loaded.card.observation.preset
    if loaded.card.name in controllers.names("baseline"):
        allowed = "a model card without the name of a controller: tables would show two of them"
        raise OrbitccError("name", loaded.card.name, allowed)
    if name_or_path in checkpoint.shipped():
        return Contender(loaded.card.name, name_or_path, {}, digest, family)
    return Contender(loaded.card.name, "policy", {"path": name_or_path}, digest, family)


def policies_of(scenario: Scenario) -> list[str]:
    """The digests of the policies that flows of a scenario name: its description has no more than where they are."""
    named = [flow.controller for flow in scenario.flows if controllers.get(flow.controller.name).kind == "policy"]
    return [digest_of(spec) for spec in named]


def digest_of(policy: ControllerSpec) -> str:
    """Of the files and options of a policy that a controller names."""
    return _policy(str(policy.params.get("path", policy.name)), policy.params).digest


def from_program(spec: ControllerSpec) -> Contender:
    """A program with its server (:func:`orbitcc.emulator.programs.specs`); other commands are another contender."""
    digest = hashlib.sha256(repr(sorted(spec.params.items())).encode()).hexdigest()[:12]
    return Contender(str(spec.params["name"]), spec.name, dict(spec.params), digest)


def line_up(
    controller_texts: Sequence[str],
    policies: Sequence[str],
    programs: Sequence[ControllerSpec] = (),
    *,
    beside_simulator: bool = False,
) -> list[Contender]:
    """The contenders of the results, with distinct labels. Raises OrbitccError for wrong or repeated ones.

    beside_simulator: controllers and policies follow once more, simulated.
    """
    found = [from_controller(text) for text in controller_texts] + [from_policy(text) for text in policies]
    again = [replace(c, label=c.label + SIMULATED, simulated=True) for c in found if beside_simulator]
    found += [*(from_program(spec) for spec in programs), *again]
    designs = [contender.design for contender in found]
    for contender in found:
        if designs.count(contender.design) > 1:
            raise OrbitccError("contenders", contender.label, "every controller and policy once")
    labels = [contender.label for contender in found]
    return [c if labels.count(c.label) == 1 else replace(c, label=f"{c.label} #{c.digest[:6]}") for c in found]
