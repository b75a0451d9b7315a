import numpy as np
import pytest
import sklearn.metrics
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tdegnn import InputError
from tdegnn.metrics import (
    accuracy,
    interval_coverage,
    macro_f1,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_absolute_scaled_error,
    mean_squared_error,
    pinball_loss,
    r2,
    roc_auc,
    root_mean_squared_error,
    seasonal_naive_scale,
)

NAN, INF = float("nan"), float("inf")
SHAPE = (4, 3, 5, 2)
AXES = {"step": 0, "horizon": 1, "node": 2, "channel": 3}
PLAIN = [mean_squared_error, root_mean_squared_error, mean_absolute_error, mean_absolute_percentage_error]
OF_SCIKIT_LEARN = {
    mean_squared_error: sklearn.metrics.mean_squared_error,
    root_mean_squared_error: sklearn.metrics.root_mean_squared_error,
    mean_absolute_error: sklearn.metrics.mean_absolute_error,
    mean_absolute_percentage_error: sklearn.metrics.mean_absolute_percentage_error,
}
numbers = st.floats(-100, 100).map(lambda number: round(number, 3))


def forecast_and_target(seed=0, missing=0.3):
    rng = np.random.default_rng(seed)
    prediction, target = rng.standard_normal(SHAPE), rng.standard_normal(SHAPE)
    target[rng.random(SHAPE) < missing] = NAN
    return prediction, target


@pytest.mark.parametrize("metric", PLAIN)
def test_metrics_of_what_was_observed_are_those_of_scikit_learn(metric, device):
    prediction, target = forecast_and_target()
    seen = ~np.isnan(target)
    expected = OF_SCIKIT_LEARN[metric](target[seen], prediction[seen])
    assert float(metric(prediction, target)) == pytest.approx(expected, rel=1e-12)
    on_device = metric(torch.as_tensor(prediction, device=device), target)
    assert on_device.device.type == device.type
    assert float(on_device) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("metric", PLAIN)
@pytest.mark.parametrize("per", AXES)
def test_one_mean_for_each_entry_of_an_axis_is_that_of_a_loop(metric, per):
    prediction, target = forecast_and_target()
    together = metric(prediction, target, per=per)
    assert together.shape == (SHAPE[AXES[per]],)
    for entry, value in enumerate(together):
        alone = metric(prediction.take(entry, AXES[per]), target.take(entry, AXES[per]))
        assert float(value) == pytest.approx(float(alone), rel=1e-12)


@given(
    arrays.arrays(float, (6, 2), elements=numbers),
    arrays.arrays(float, (6, 2), elements=numbers),
    arrays.arrays(bool, (6, 2)),
)
def test_what_is_masked_counts_as_little_as_what_is_missing(prediction, target, observed):
    observed[0, 0] = True
    chosen = mean_absolute_error(prediction, target, observed)
    assert torch.equal(chosen, mean_absolute_error(prediction, np.where(observed, target, NAN)))
    assert torch.equal(chosen, mean_absolute_error(np.where(observed, prediction, NAN), target, observed))
    assert float(chosen) == pytest.approx(np.abs(prediction - target)[observed].mean())


@given(arrays.arrays(float, 8, elements=numbers), arrays.arrays(float, 8, elements=numbers))
def test_squared_errors_are_symmetric_and_at_least_the_absolute_ones(prediction, target):
    root = root_mean_squared_error(prediction, target)
    assert torch.equal(root, root_mean_squared_error(target, prediction))
    assert root >= mean_absolute_error(prediction, target) - 1e-9
    assert mean_squared_error(prediction, prediction) == 0


def test_a_forecast_is_never_broadcast_against_its_target():
    # Constant zero would be as good as the truth: the mean of an n x n table of differences.
    target = torch.randn(50, 1)
    with pytest.raises(InputError, match=r"the same shape, got \(50,\) and \(50, 1\). Reshape one of them"):
        mean_squared_error(target[:, 0], target)
    for shape in [(50, 2), (1, 50), (1,), ()]:
        with pytest.raises(InputError, match="the same shape"):
            mean_squared_error(torch.zeros(shape), target)


@pytest.mark.parametrize("metric", PLAIN)
def test_a_missing_prediction_of_something_observed_is_never_hidden(metric):
    assert metric([1.0, NAN], [1.0, 2.0]).isnan()
    assert metric([1.0, NAN], [2.0, NAN]).isfinite()
    assert mean_absolute_percentage_error([NAN], [0.0]).isnan()


@pytest.mark.parametrize("metric", PLAIN)
def test_gradients_flow_through_what_was_observed_and_nothing_else(metric, device):
    prediction = torch.tensor([1.0, 2.0, NAN, 4.0], device=device, requires_grad=True)
    target = torch.tensor([2.0, NAN, NAN, 8.0], device=device)
    metric(prediction, target).backward()
    assert prediction.grad.isfinite().all()
    assert (prediction.grad != 0).tolist() == [True, False, False, True]


def test_gradients_are_those_of_the_formula():
    prediction = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    target = torch.as_tensor(forecast_and_target()[1]) + 3
    for metric in PLAIN:
        assert torch.autograd.gradcheck(lambda forecast, metric=metric: metric(forecast, target), prediction)


def test_a_perfect_forecast_has_a_gradient_of_zero():
    prediction = torch.ones(3, requires_grad=True)
    root_mean_squared_error(prediction, torch.ones(3)).backward()
    assert (prediction.grad == 0).all()


def test_entries_of_which_nothing_was_observed_are_nan():
    prediction, target = forecast_and_target()
    target[:, :, 1] = NAN
    for metric in PLAIN:
        assert metric(prediction, target, per="node").isnan().tolist() == [False, True, False, False, False]


def test_half_precision_does_not_overflow_and_whole_numbers_are_numbers():
    assert mean_squared_error(torch.full((9,), 200.0, dtype=torch.float16), torch.zeros(9)) == 40000
    assert mean_absolute_error([1, 2, 3], torch.tensor([2, 2, 5])) == 1.0


def test_read_only_and_reversed_arrays_are_taken():
    values = np.arange(4.0)
    values.flags.writeable = False
    assert mean_absolute_error(values, values[::-1]) == 2.0


def test_the_percentage_error_of_a_zero_is_infinite():
    assert mean_absolute_percentage_error([1.0, 2.2], [0.0, 2.0]) == INF
    assert mean_absolute_percentage_error([0.0, 2.2], [0.0, 2.0]) == INF
    assert float(mean_absolute_percentage_error([0.0, 2.2], [NAN, 2.0])) == pytest.approx(0.1)


@pytest.mark.parametrize("season", [1, 3])
def test_the_scale_is_the_error_of_the_seasonal_naive_forecast_in_a_plain_loop(season):
    training = np.random.default_rng(0).standard_normal((12, 3, 2))
    training[np.random.default_rng(1).random(training.shape) < 0.2] = NAN
    scale = seasonal_naive_scale(training, season)
    for node in range(3):
        for channel in range(2):
            series = training[:, node, channel]
            errors = [abs(series[step] - series[step - season]) for step in range(season, 12)]
            mean = np.mean([error for error in errors if not np.isnan(error)])
            assert float(scale[node, channel]) == pytest.approx(mean, rel=1e-12)


def test_the_naive_forecast_of_the_training_part_has_a_scaled_error_of_one():
    training = torch.randn(30, 4, 2, dtype=torch.float64).cumsum(0)
    scale = seasonal_naive_scale(training, season=7)
    naive, target = training[None, :-7], training[None, 7:]
    torch.testing.assert_close(
        mean_absolute_scaled_error(naive, target, scale, per="node"), torch.ones(4, dtype=torch.float64)
    )


@given(st.floats(0.01, 1000))
def test_the_scaled_error_does_not_know_the_unit(unit):
    rng = np.random.default_rng(0)
    training, prediction, target = rng.random((9, 2, 1)), rng.random((3, 2, 2, 1)), rng.random((3, 2, 2, 1))
    plain = mean_absolute_scaled_error(prediction, target, seasonal_naive_scale(training))
    scaled = mean_absolute_scaled_error(unit * prediction, unit * target, seasonal_naive_scale(unit * training))
    torch.testing.assert_close(scaled, plain)


def test_a_node_without_a_scale_shows_and_can_be_left_out():
    training = torch.tensor([[1.0, 5.0, NAN], [2.0, 5.0, 1.0]])[..., None]
    scale = seasonal_naive_scale(training)
    assert scale.flatten().nan_to_num(-1.0).tolist() == [1.0, 0.0, -1.0]
    target = torch.full((2, 1, 3, 1), 5.0)
    prediction = (target + torch.tensor([[0.5], [0.0], [0.0]])).requires_grad_()
    per_node = mean_absolute_scaled_error(prediction, target, scale, per="node")
    assert per_node[:2].tolist() == [0.5, INF]
    assert per_node[2].isnan()
    error = mean_absolute_scaled_error(prediction, target, scale, (scale > 0).expand(target.shape))
    error.backward()
    assert error == 0.5
    assert prediction.grad.isfinite().all()


def test_the_scaled_error_keeps_device_and_precision_of_the_prediction(device):
    prediction = torch.zeros(3, 1, 2, 1, device=device)
    error = mean_absolute_scaled_error(prediction, prediction + 1, np.ones((2, 1)))
    assert (error.dtype, error.device) == (prediction.dtype, prediction.device)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_coverage_counts_observed_targets_between_both_ends(kind):
    low, high, target = kind([0.0, 0.0, 0.0, 0.0]), kind([1.0, 1.0, 1.0, INF]), kind([0.0, 1.0, 1.5, NAN])
    assert float(interval_coverage(low, high, target)) == 2 / 3
    assert float(interval_coverage(low, high, target, kind([True, False, True, True]))) == 1 / 2


def test_coverage_per_step_of_the_horizon_is_that_of_a_loop():
    center, target = forecast_and_target()
    together = interval_coverage(center - 1, center + 1, target, per="horizon")
    for step, share in enumerate(together):
        seen = ~np.isnan(target[:, step])
        assert float(share) == (np.abs(center - target)[:, step][seen] <= 1).mean()


def test_the_pinball_loss_is_that_of_scikit_learn():
    draw = np.random.default_rng(3)
    prediction, target = draw.normal(size=(2, 20))
    for quantile in (0.05, 0.5, 0.9):
        expected = sklearn.metrics.mean_pinball_loss(target, prediction, alpha=quantile)
        assert float(pinball_loss(prediction, target, quantile)) == pytest.approx(expected)
    assert float(pinball_loss([0.0, 0.0], [NAN, 1.0], 0.9)) == pytest.approx(0.9)
    with pytest.raises(InputError, match="Expected a quantile between 0 and 1, got 95. 0.95 stands for 95 %."):
        pinball_loss([0.0], [1.0], 95)


def test_an_end_that_is_nan_is_neither_inside_nor_outside():
    assert interval_coverage([NAN, 0.0], [1.0, 1.0], [0.5, 0.5]).isnan()
    assert interval_coverage([NAN, 0.0], [1.0, 1.0], [NAN, 0.5]) == 1.0


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_r_squared_is_that_of_scikit_learn(kind):
    rng = np.random.default_rng(0)
    targets, mask = rng.standard_normal((40, 3)), rng.random(40) < 0.7
    predicted = targets + 0.3 * rng.standard_normal((40, 3))
    expected = sklearn.metrics.r2_score(targets[mask], predicted[mask])
    assert r2(kind(predicted), kind(targets), kind(mask)) == pytest.approx(expected, rel=1e-12)
    unknown = np.where(mask[:, None], targets, NAN)
    assert r2(kind(predicted), kind(unknown)) == pytest.approx(expected, rel=1e-12)
    alone = sklearn.metrics.r2_score(targets[:, 0], predicted[:, 0])
    assert r2(kind(predicted[:, 0]), kind(targets[:, 0])) == pytest.approx(alone, rel=1e-12)


def test_r_squared_of_a_constant_target_is_finite():
    assert r2([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert r2([1.0, 2.0], [1.0, 1.0]) == 0.0


def test_labels_may_be_text():
    assert accuracy(["cat", "dog", "dog"], np.array(["cat", "dog", "cat"])) == 2 / 3
    assert macro_f1(["a", "b"], ["a", "b"]) == 1.0


def scores_and_labels(num_classes, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(40) % num_classes
    scores = rng.random((40, num_classes)) + np.eye(num_classes)[labels] * 0.5
    return scores / scores.sum(axis=1, keepdims=True), labels, rng.random(40) < 0.7


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_metrics_of_classes_are_those_of_scikit_learn(kind):
    scores, labels, mask = scores_and_labels(3)
    predicted = scores.argmax(axis=1)
    ours = [metric(kind(predicted), kind(labels), kind(mask)) for metric in (accuracy, macro_f1)]
    assert ours == [
        sklearn.metrics.accuracy_score(labels[mask], predicted[mask]),
        sklearn.metrics.f1_score(labels[mask], predicted[mask], average="macro"),
    ]
    expected = sklearn.metrics.roc_auc_score(labels[mask], scores[mask], multi_class="ovr")
    assert roc_auc(kind(scores), kind(labels), kind(mask)) == pytest.approx(expected, rel=1e-12)


def test_two_classes_take_one_score_or_two():
    scores, labels, mask = scores_and_labels(2)
    expected = sklearn.metrics.roc_auc_score(labels[mask], scores[mask, 1])
    assert roc_auc(scores[:, 1], labels, mask) == expected
    assert roc_auc(scores[:, 1], labels == 1, mask) == expected
    assert roc_auc(scores, labels == 1, mask) == pytest.approx(expected, rel=1e-12)
    assert roc_auc(scores[:, 1], labels + 6, mask) == expected


@pytest.mark.slow
@given(arrays.arrays(int, 12, elements=st.integers(0, 3)), arrays.arrays(int, 12, elements=st.integers(0, 3)))
def test_accuracy_and_f1_are_those_of_plain_loops(predicted, labels):
    assert accuracy(predicted, labels) == pytest.approx(
        sum(a == b for a, b in zip(predicted, labels, strict=True)) / 12
    )
    scores = []
    for label in {*predicted.tolist(), *labels.tolist()}:
        hits = ((predicted == label) & (labels == label)).sum()
        scores.append(2 * hits / ((predicted == label).sum() + (labels == label).sum()))
    assert macro_f1(predicted, labels) == pytest.approx(np.mean(scores))


@given(arrays.arrays(int, 10, elements=st.integers(-5, 5)))
def test_the_area_is_the_share_of_pairs_in_the_right_order(scores):
    labels = np.arange(10) % 2
    pairs = [(high > low) + 0.5 * (high == low) for high in scores[labels == 1] for low in scores[labels == 0]]
    assert roc_auc(scores, labels) == pytest.approx(np.mean(pairs))


def test_the_area_takes_scores_that_are_no_probabilities():
    scores, labels, _ = scores_and_labels(3)
    assert roc_auc(torch.as_tensor(scores).requires_grad_() * 7 - 2, labels) == pytest.approx(roc_auc(scores, labels))


FOUR = np.zeros(SHAPE)
LABELS = np.array([0, 1, 2, 0])
HALF = np.array([True, True, False, False])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_squared_error(FOUR, FOUR[0]), r"the same shape, got \(4, 3, 5, 2\) and \(3, 5, 2\)"),
        (lambda: mean_squared_error([1.0], [NAN]), "at least one observed target, got none among 1"),
        (lambda: mean_squared_error(FOUR, FOUR * NAN, per="node"), "at least one observed target, got none among 120"),
        (lambda: mean_squared_error(FOUR[:0], FOUR[:0]), "got none among 0"),
        (lambda: mean_squared_error(FOUR, FOUR, per="time"), "one of step, horizon, node, channel, got 'time'"),
        (lambda: mean_squared_error(FOUR[0], FOUR[0], per="node"), r"channels\) for per='node', got shape \(3, 5, 2\)"),
        (lambda: mean_squared_error(FOUR, FOUR, FOUR), "a boolean mask of shape .* got torch.float64"),
        (lambda: mean_squared_error(FOUR, FOUR, FOUR[0] == 0), r"got torch.bool of shape \(3, 5, 2\)"),
        (lambda: mean_squared_error([[1.0], [1.0, 2.0]], [1.0]), "prediction to be a rectangular array of numbers"),
        (lambda: mean_squared_error([1.0], ["a"]), "target to be a rectangular array of numbers, got list"),
        (lambda: mean_squared_error([1.0], [1j]), "target to be real numbers, got torch.complex128"),
        (
            lambda: mean_absolute_scaled_error(FOUR, FOUR, np.ones((5, 1))),
            r"last two axes of the target, got \(5, 1\) for",
        ),
        (lambda: mean_absolute_scaled_error([1.0], [1.0], np.ones(1)), r"got \(1,\) for a target of shape \(1,\)"),
        (lambda: seasonal_naive_scale(FOUR[0], 0), "season to be at least 1, got 0"),
        (
            lambda: seasonal_naive_scale(FOUR[0], 3),
            "more than 3 training steps for a season of 3, got 3. Take",
        ),
        (lambda: seasonal_naive_scale(FOUR), r"\(time, nodes, channels\), got shape \(4, 3, 5, 2\)"),
        (lambda: interval_coverage(FOUR, FOUR[0], FOUR), r"the same shape, got \(3, 5, 2\) and \(4, 3, 5, 2\)"),
        (lambda: interval_coverage([1.0], [1.0], [NAN]), "at least one observed target, got none among 1"),
        (lambda: r2(FOUR[0, 0], FOUR[0, 0, :, 0]), r"of the same shape, .* got \(5, 2\) and \(5,\). Reshape"),
        (lambda: r2(FOUR[0], FOUR[0]), r"\(nodes,\) or \(nodes, targets\), got \(3, 5, 2\)"),
        (lambda: r2([1.0, 2.0], [NAN, 1.0], [True, False]), "at least one node with known targets .* got none of 2"),
        (lambda: r2([1.0], [1.0], [1.0]), r"boolean mask of shape \(1,\), one entry per node, got float64"),
        (lambda: accuracy([[1], [1, 2]], LABELS), "predicted to be a rectangular array"),
        (
            lambda: accuracy(FOUR[0, 0], LABELS),
            "predicted to hold one label per node, .* got float64",
        ),
        (lambda: accuracy(LABELS[:3], LABELS), "one predicted label per node, got 3 for 4 labels"),
        (lambda: accuracy(LABELS, LABELS, LABELS), r"boolean mask of shape \(4,\), one entry per node, got int64"),
        (lambda: accuracy(LABELS, LABELS, HALF[:2]), r"one entry per node, got bool of shape \(2,\)"),
        (lambda: macro_f1(LABELS, LABELS, LABELS > 5), "at least one node, got none of 4"),
        (lambda: roc_auc(FOUR[0, 0], LABELS), r"scores of shape \(4,\) or \(4, classes\), .* got shape \(5, 2\)"),
        (lambda: roc_auc(np.ones(4), LABELS), r"two classes within the mask .* got \[0, 1, 2\]"),
        (lambda: roc_auc(np.ones(4), LABELS, LABELS == 0), r"got \[0\]. Take another mask"),
        (lambda: roc_auc(np.ones((4, 3)), LABELS, HALF), r"labels 0 to 2 within the mask, got labels \[0, 1\]"),
        (lambda: roc_auc(np.ones((4, 1)), LABELS * 0), "at least two classes"),
        (lambda: roc_auc([NAN, 1.0, 1.0, 1.0], LABELS, HALF), "finite scores, got NaN or infinity within the mask"),
    ],
)
def test_wrong_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
