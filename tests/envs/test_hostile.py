"""Scenario files and values made to break the reader: one line, quickly."""

import time

import pytest

from orbitcc.envs.description.flows import parse_value
from orbitcc.envs.description.scenario import Scenario
from orbitcc.envs.errors import OrbitccError
from orbitcc.envs.files import parse_toml

HEAD = 'name = "x"\nduration_s = 5\n'
LINK = '[[links]]\nname = "l{}"\nrate_mbps = {}\ndelay_ms = 10\n'
FLOW = '[[flows]]\ncontroller = "cubic"\n'
LINK_AND_FLOW = LINK.format(0, 10) + FLOW
POINTS = "[" + ",".join(f"[{k * 1e-5:.6f},{10 + k % 7}]" for k in range(1_000_000)) + "]"
HOSTILE = {
    "100,000 nested arrays": (HEAD + f"x = {'[' * 100_000}{']' * 100_000}\n", "nested too deeply"),
    "5,000 nested tables": (f"{HEAD}[{'.'.join('a' * 5_000)}]\nb = 1\n", "a key of more than 1,000 parts"),
    "5,000 tables in a line": (HEAD + f"x = {'{a=' * 5_000}1{'}' * 5_000}\n", "nested too deeply"),
    "300 nested arrays": (HEAD + f"x = {'[' * 300}{']' * 300}\n", "deeper than 100 levels"),
    "400 digits": (f'name = "x"\nduration_s = {"1" * 400}\n' + LINK_AND_FLOW, "64 bits"),
    "5,000 digits": (f'name = "x"\nduration_s = {"1" * 5_000}\n' + LINK_AND_FLOW, "thousands of digits"),
    "a key of 200,000 parts": (f"{HEAD}{'.'.join(['a'] * 200_000)} = 1\n{LINK_AND_FLOW}", "more than 1,000 parts"),
    "200,000 links": (HEAD + "".join(LINK.format(k, 10) for k in range(200_000)) + FLOW, "at most 4 MB"),
    "5,000 links": (HEAD + "".join(LINK.format(k, 10) for k in range(5_000)) + FLOW, "5,000 links and 1 flows"),
    "a million points": (HEAD + LINK.format(0, POINTS) + FLOW, "at most 4 MB"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_line_within_seconds(name: str) -> None:
    text, message = HOSTILE[name]
    began = time.process_time()
    with pytest.raises(OrbitccError, match=message) as caught:
        Scenario.from_toml(text)
    assert time.process_time() - began < 5.0  # of this process alone; more than 25 s before there were bounds
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_what_is_large_and_allowed_is_read() -> None:
    text = "x = [" + ",".join(f"[{k}, 1]" for k in range(100_000)) + "]"
    assert len(parse_toml(text)["x"]) == 100_000
    words = " ".join(["3.14.15"] * 2_000)
    assert parse_toml(f'description = "{words}"\na.b.c.d = {2**63 - 1}\n')["a"]["b"]["c"]["d"] == 2**63 - 1
    with pytest.raises(ValueError, match="64 bits"):
        parse_toml(f"a = [[{2**63}]]")


@pytest.mark.parametrize("text", ["9" * 5_000, "9" * 400, "[" * 10_000 + "]" * 10_000])
def test_a_value_of_the_command_line_is_bounded_alike(text: str) -> None:
    with pytest.raises(OrbitccError, match="value"):
        parse_value(text)
    scenario = Scenario.from_toml(HEAD + LINK_AND_FLOW)
    with pytest.raises(OrbitccError):
        scenario.override("duration_s", text)
    with pytest.raises(OrbitccError):
        scenario.changed(duration_s=10**5_000)
