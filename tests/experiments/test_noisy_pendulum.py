import numpy as np
import pytest

from tdegnn.experiments.noisy_pendulum import observe_with_noise
from tdegnn.experiments.pendulum import make_pendulum


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_order_is_found_though_noise_exceeds_the_second_differences(seed):
    noisy = observe_with_noise(make_pendulum(), seed)
    assert noisy.noise_of_second_differences > 30
    assert noisy.found.order == 2
    assert "noise of 20% on every angle" in noisy.verdict()


def test_noise_is_on_the_bob_alone_and_of_the_given_size():
    data = make_pendulum()
    before = data.simulation.states.clone()
    noisy = observe_with_noise(data, noise=0.1)
    assert (noisy.observed - noisy.angles).std() / noisy.angles.std() == pytest.approx(0.1, rel=0.1)
    np.testing.assert_array_equal(before, data.simulation.states)
