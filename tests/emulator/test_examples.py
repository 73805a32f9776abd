"""The examples that need a real kernel, shortened."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leaves_nothing")]


@pytest.mark.mininet
def test_a_program_of_ones_own_runs_between_two_hosts():
    from mininet.net import Mininet

    from examples.mininet_leo import main

    Mininet.inited = True
    size, seconds = main(megabytes=2)
    assert size == 2_000_000
    # Its direction has 20 Mbit/s.
    assert 0.8 < seconds < 5


@pytest.mark.agents
def test_a_shipped_policy_learns_on_the_kernel(tmp_path):
    pytest.importorskip("stable_baselines3")
    from examples.finetune_on_kernel import main

    told = main(0.1, tmp_path / "tuned", runs=1, duration_s=5.0, steps=64)
    assert set(told) == {"before", "after"}
    assert all(goodput > 1 and delay >= 0.9 for goodput, delay in told.values())
    assert (tmp_path / "tuned" / "policy.safetensors").exists()
