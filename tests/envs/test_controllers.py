import pickle

import pytest

from orbitcc.common.errors import OrbitccError, UnknownNameError
from orbitcc.envs import controllers
from orbitcc.envs.controllers import Param
from orbitcc.envs.description.flows import Flow


def test_classical_controllers_are_registered_on_import():
    assert {"reno", "cubic", "udp"} <= set(controllers.names("baseline"))
    assert "external" not in controllers.names()


def test_defaults_are_filled_in():
    rest = {"hystart_k": 3.0, "fast_convergence": "on", "friendliness": "on", "abe": "off"}
    rest |= {"resume_cwnd": 0.0, "resume_rtt_ms": 0.0}
    assert controllers.make("cubic", {}) == ({"name": "cubic", "params": {"hystart": "both", **rest}}, {})
    assert controllers.make("cubic-nohystart", {}) == ({"name": "cubic", "params": {"hystart": "off", **rest}}, {})


@pytest.mark.parametrize(
    ("text", "field", "allowed"),
    [
        ("cubic:hystart_k=9", "hystart_k", "3.0 unless hystart = dynamic"),
        ("cubic:hystart=both,hystart_k=20", "hystart_k", "3.0 unless hystart = dynamic"),
        ("cubic-nohystart:hystart_k=9", "hystart_k", "one of fast_convergence"),
        ("prague:ecn=off", "ecn", "one of network, accurate"),
        ("c4:ecn=classic", "ecn", "one of network, accurate"),
        ("dctcp:ecn=off", "ecn", "one of network, classic, accurate"),
        *((f"{name}:ssthresh_cache=20", "ssthresh_cache", "one of network, off, live")
          for name in ("bbr", "bbr3", "leocc", "c4", "copa", "vivace", "vivace-geo")),
    ],
)  # fmt: skip
def test_a_parameter_that_would_not_act_is_refused(text, field, allowed):
    with pytest.raises(OrbitccError, match=allowed) as caught:
        Flow.parse(text)
    assert caught.value.field == f"flow.{field}"


@pytest.mark.parametrize("text", ["cubic:hystart=dynamic,hystart_k=2", "cubic:hystart_k=3", "dctcp:ecn=classic",
                                  "c4:ecn=accurate", "copa:ssthresh_cache=live"])  # fmt: skip
def test_a_parameter_that_acts_or_says_what_is_so_is_taken(text):
    assert Flow.parse(text).controller.params


def test_a_flow_may_run_another_kernel_than_the_network():
    made, _ = controllers.make("reno", {"kernel": "v4_15", "ssthresh_cache": 500})
    assert made == {"name": "reno", "params": {"abe": "off", "kernel": "v4_15", "ssthresh_cache": 500}}
    assert "kernel" in controllers.get("cubic-nohystart").params
    assert "kernel" not in controllers.get("udp").params
    with pytest.raises(OrbitccError, match=r"controller.ssthresh_cache: 1 .*off, live or a whole number in \[2"):
        controllers.make("reno", {"ssthresh_cache": 1})


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"controller: unknown name 'cubick'; did you mean 'cubic'\?"):
        controllers.make("cubick", {})
    with pytest.raises(UnknownNameError, match=r"controller.name: .*did you mean 'contender'\?"):
        Flow.build({"controller": "contendr"})
    with pytest.raises(UnknownNameError, match=r"controller.histart: .*did you mean 'hystart'"):
        controllers.make("cubic", {"histart": "off"})
    with pytest.raises(UnknownNameError, match=r"controller.hystart: .*'oof'.*off"):
        controllers.make("cubic", {"hystart": "oof"})


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="already registered"):
        controllers.register(controllers.get("reno"))


@pytest.mark.parametrize(
    ("param", "good", "bad"),
    [
        (Param(5, "", low=1, high=9), [1, 9, 3.0], [0, 10, 2.5, True, "3", float("nan"), float("inf")]),
        (Param(0.5, "", low=0, high=1), [0, 1, 0.25], [-0.1, 1.1, float("nan"), "x", False]),
        (Param(True, ""), [True, False], [1, "true"]),
        (Param("x", ""), ["", "abc"], [1, True]),
        (Param("a", "", choices=("a", "b")), ["a", "b"], ["c", 1]),
        (Param("a", "", choices=("a", "b"), low=2, high=9), ["a", 2, 9], ["c", 1, 10, 2.5]),
    ],
)
def test_parameters_are_checked(param, good, bad):
    for value in good:
        assert param.check("p", value) == value
    for value in bad:
        with pytest.raises(OrbitccError, match=r"^p: "):
            param.check("p", value)


def test_errors_survive_a_worker_process():
    for error in (OrbitccError("a.b", -1, "more"), UnknownNameError("x", "renoo", ("reno", "cubic"))):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (type(error), str(error))


def test_every_native_parameter_is_described():
    from orbitcc import _sim

    for name in ("reno", "cubic", "hybla", "vegas", "westwood", "illinois"):
        params = controllers.get(name).params.items()
        ours = {key: param.default for key, param in params if key not in controllers.HOST_PARAMS}
        assert ours == dict(_sim.CONTROLLERS[name])
