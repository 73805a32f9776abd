import pickle

import pytest

from orbitcc.agents import checkpoint
from orbitcc.common.errors import MANY, UnknownNameError
from orbitcc.envs import controllers, scenarios
from orbitcc.envs.environments import presets
from orbitcc.envs.orbits.places import find
from orbitcc.eval import contenders, suites
from orbitcc.training import recipe


def said(call, *args) -> str:
    with pytest.raises(UnknownNameError) as caught:
        call(*args)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


def test_a_part_of_a_name_suggests_the_names_that_begin_with_it() -> None:
    message = said(scenarios.get("dumbbell").override, "links.0.rate", 5)
    assert message.startswith("links.0.rate: unknown name 'rate'; did you mean 'rate_mbps'?")
    assert "did you mean 'responsiveness' or 'responsiveness-loss' or 'responsiveness-wide'?" in said(
        suites.get, "respons"
    )
    assert "did you mean" not in said(suites.get, "zzz")


def test_where_there_are_many_names_the_close_ones_and_the_way_to_all_are_said() -> None:
    places = said(find, "San")
    assert "unknown place 'San'; did you mean" in places
    assert "'San Diego'" in places
    assert "`orbitcc list places` shows all 66" in places
    assert "latitude,longitude" in places
    many = [
        said(scenarios.load, "dumbel"),
        said(suites.get, "geo-downlod"),
        said(controllers.get, "cubik"),
        said(contenders.from_controller, "cubik"),
        places,
    ]
    assert all(len(message) < 200 and "orbitcc list" in message for message in many), many


@pytest.mark.parametrize(
    ("search", "known"),
    [(recipe.load, recipe.names()), (checkpoint.resolve, checkpoint.shipped()), (presets.preset, presets.PRESETS)],
)
def test_a_few_names_are_all_said(search, known) -> None:
    message = said(search, "zzz")
    if len(known) <= MANY:
        assert all(name in message for name in known)
    else:
        assert f"shows all {len(known)}" in message
