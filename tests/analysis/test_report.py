import json
from dataclasses import replace

import pytest
import torch

from tdegnn import InputError, explain
from tdegnn.analysis.report import ordinal


def test_report_of_leapfrog():
    report = explain([2, -1])
    assert (report.history_length, report.root_multiplicity, report.is_stable) == (2, 2, True)
    assert report.max_root_modulus == 1.0
    assert report.derivative_coefficients == (0.0, 1.0)
    assert report.stencil_weights == (0.0, 1.0)
    assert report.verdict == "Stable: a pure second-order recursion, 1 is a 2-fold root."


def test_multiplicity_of_a_damped_wave_is_one_and_its_history_two():
    report = explain([1.97, -0.97])
    assert (report.history_length, report.root_multiplicity, report.is_stable) == (2, 1, True)
    assert "the first derivative takes part" in report.verdict


@pytest.mark.parametrize(
    ("coefficients", "verdict"),
    [
        ([1.0], "Stable: forward Euler, first order."),
        ([-0.08, 1.68, 0.153, 0.006, -0.759], "Unstable (largest root modulus 1.401)"),
        ([-1.0, 1.0, 1.0], "Unstable (a repeated root on the unit circle)"),
    ],
)
def test_verdicts(coefficients, verdict):
    assert explain(coefficients).verdict.startswith(verdict)


def test_an_unstable_c_of_latent_states_is_said_to_be_about_layers():
    report = explain([16.6, -15.0, -0.6])
    meaning = "It describes the states over the few layers of the network, not the forecasts or classes that it gives."
    latent = replace(report, states="latent")
    assert report.verdict.startswith("Unstable (largest root modulus 15.")
    assert latent.verdict == f"{report.verdict} {meaning}"
    assert latent.verdict in str(latent)
    assert meaning not in replace(report, states="physical").verdict  # there it is about the data
    assert meaning not in replace(explain([2, -1]), states="latent").verdict


def test_json_holds_what_is_promised():
    content = json.loads(explain([1.4, 0.2, -0.6]).to_json())
    promised = {
        "coefficients",
        "history_length",
        "root_multiplicity",
        "is_stable",
        "max_root_modulus",
        "roots",
        "derivative_coefficients",
        "verdict",
    }
    assert promised <= content.keys()
    assert content["roots"][2] == pytest.approx([-0.6, 0.0])


def test_text_shows_the_equation():
    text = str(explain([1.97, -0.97]))
    assert "0.03 h F' + 1 h^2 F'' = h s" in text
    assert "verdict" in text


def test_ordinals():
    assert [ordinal(order) for order in (1, 2, 3, 12)] == ["first", "second", "third", "12th"]


def test_sum_other_than_one_is_refused():
    with pytest.raises(InputError, match="sum to 1"):
        explain([1, 1])


def test_a_tensor_with_a_gradient_can_be_explained():
    assert explain(torch.tensor([2.0, -1.0], requires_grad=True)).root_multiplicity == 2


def test_a_long_padded_euler_is_still_euler():
    report = explain([1.0] + [0.0] * 40)
    assert (report.root_multiplicity, report.is_stable, report.max_root_modulus) == (1, True, 1.0)


def test_a_damped_wave_is_said_to_be_of_second_order():
    verdict = explain([1.98, -0.98]).verdict
    assert "1 is a simple root" in verdict
    assert "D_1 is 0.02 D_2: second order with lower derivatives" in verdict
    assert "D_1 does not vanish" in explain([0.6, 0.4]).verdict


def test_forward_euler_is_first_order_however_long_it_is_written():
    for c in ([1.0], [1.0, 0.0], [1.0, 0.0, 0.0, 0.0]):
        assert explain(c).verdict == "Stable: forward Euler, first order."
    assert explain([0.962, 0.01343, 0.01337, 0.0112]).verdict.startswith("Stable: first order, close to forward Euler")


def test_a_report_says_what_c_weighs_where_that_is_known():
    assert "not the data themselves" in str(replace(explain([2, -1]), states="latent"))
    assert "what was observed" in str(replace(explain([2, -1]), states="physical"))
    assert "weighs" not in str(explain([2, -1]))


def test_a_multiple_root_is_claimed_only_where_the_roots_are():
    """(x - 1)(x - 0.85)^3 has a tiny D_1, but 1 is a simple root and no other root is near it."""
    report = explain([3.55, -4.7175, 2.781625, -0.614125], tolerance=0.02)
    assert "2-fold" not in report.verdict or "although 1 is not a 2-fold root" in report.verdict
    assert report.verdict == "Stable: D_1 is below the tolerance, although 1 is not a 2-fold root."


def test_zeros_are_shown_as_zeros():
    assert "as differences     0 [order 1] +1.6 [order 2]" in str(explain([1.4, 0.2, -0.6]))
