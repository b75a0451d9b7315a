"""Metrics that check shapes and skip unobserved values: the only place in this library where errors are computed.

Prediction and target must have the same shape: nothing is broadcast. Published baselines of this field come from a
metric that subtracted (n,) from (n, 1) and averaged the n x n result, and so are no better than a constant. A target
that is NaN was not observed and does not count; a NaN prediction of an observed target makes the metric NaN.

Metrics of forecasts take tensors or arrays and return a tensor on the device of the prediction; those of errors can be
trained on. Metrics of nodes (`accuracy`, `macro_f1`, `roc_auc`, `r2`) return floats.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from numpy.typing import ArrayLike
from torch import Tensor

from tdegnn.errors import InputError, check_count

# In the order of the axes (windows, horizon, nodes, channels).
Per = Literal["step", "horizon", "node", "channel"]
Forecast: TypeAlias = Float[Tensor, "*shape"] | ArrayLike
Mask: TypeAlias = Bool[Tensor, "*shape"] | ArrayLike
Score: TypeAlias = Float[Tensor, ""] | Float[Tensor, " kept"]
Labels: TypeAlias = Shaped[Tensor, " nodes"] | ArrayLike
Numbers: TypeAlias = Float[Tensor, " nodes"] | Float[Tensor, "nodes targets"] | ArrayLike


def mean_squared_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """Mean squared error.

    Args:
        prediction: The forecasts, a tensor or an array. Gradients flow through a tensor.
        target: The observed values, of the same shape, with NaN for unobserved ones. Moved to the prediction's device.
        observed: Boolean mask of the targets that count, of the same shape. If None, all targets that are not NaN.
        per: The axis of (windows, horizon, nodes, channels) to keep: one mean per predicted `"step"` (that is, per
            window), step of the `"horizon"`, `"node"` or `"channel"`; NaN for entries without observed targets. If
            None, one mean over all values, for any number of axes.

    Raises:
        InputError: The shapes differ, or no target was observed.
    """
    forecast, actual, is_observed = _compare(prediction, target, observed, per)
    return _average((forecast - actual).square(), is_observed, per)


def root_mean_squared_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """Root of the mean squared error. Arguments as in `mean_squared_error`."""
    squared = mean_squared_error(prediction, target, observed, per)
    # The slope of the root is infinite at zero: a perfect forecast must not make the gradient NaN.
    is_positive = squared > 0
    return torch.where(is_positive, torch.where(is_positive, squared, 1.0).sqrt(), squared)


def mean_absolute_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """Mean absolute error. Arguments as in `mean_squared_error`."""
    forecast, actual, is_observed = _compare(prediction, target, observed, per)
    return _average((forecast - actual).abs(), is_observed, per)


def mean_absolute_percentage_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """Mean of the absolute errors as fractions of the targets: 0.1 is 10 %. Arguments as in `mean_squared_error`.

    Infinite if an observed target is zero: zero is a value like any other, not a missing one. Use
    `mean_absolute_scaled_error` for series that may be zero.
    """
    forecast, actual, is_observed = _compare(prediction, target, observed, per)
    return _average(_divide((forecast - actual).abs(), actual.abs()), is_observed, per)


def mean_absolute_scaled_error(
    prediction: Forecast,
    target: Forecast,
    scale: Float[Tensor, "nodes channels"] | ArrayLike,
    observed: Mask | None = None,
    per: Per | None = None,
) -> Score:
    """Mean absolute error in units of the error of the naive forecast: below 1 is better than naive.

    Infinite if a scale is zero (the series was constant in training), NaN if a scale is NaN (it was not observed in
    training). Leave such nodes out with `observed`, or look at the others with `per="node"`.

    Args:
        prediction: See `mean_squared_error`.
        target: See `mean_squared_error`. Its last two axes are (nodes, channels).
        scale: Result of `seasonal_naive_scale` for the training steps.
        observed: See `mean_squared_error`.
        per: See `mean_squared_error`.
    """
    forecast, actual, is_observed = _compare(prediction, target, observed, per)
    errors, units = (forecast - actual).abs(), _as_numbers(scale, "scale")
    if actual.dim() < 2 or units.shape != actual.shape[-2:]:
        raise InputError(
            "Expected a scale of shape (nodes, channels), the last two axes of the target, got "
            f"{tuple(units.shape)} for a target of shape {tuple(actual.shape)}."
        )
    return _average(_divide(errors, torch.where(is_observed, units.to(errors), 1.0)), is_observed, per)


def seasonal_naive_scale(
    training: Float[Tensor, "time nodes channels"] | ArrayLike, season: int = 1
) -> Float[Tensor, "nodes channels"]:
    """Mean absolute error of the forecast "as one season ago" on the training steps, per node and channel.

    NaN for a node and channel without two observed steps that are one season apart.

    Args:
        training: The training steps of the series, oldest first, with NaN for unobserved values.
        season: Number of steps from one season to the next; 1 means "as one step ago". Default: 1.
    """
    check_count(season=season)
    values = _as_numbers(training, "training")
    if values.dim() != 3:
        raise InputError(f"Expected training steps of shape (time, nodes, channels), got shape {tuple(values.shape)}.")
    if len(values) <= season:
        raise InputError(
            f"Expected more than {season} training steps for a season of {season}, got {len(values)}. "
            "Take a shorter season or a longer series."
        )
    return (values[season:] - values[:-season]).abs().nanmean(dim=0)


def interval_coverage(
    low: Forecast, high: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """Share of the observed targets that lie between `low` and `high`, both ends included.

    Args:
        low: Lower ends of the intervals.
        high: Upper ends of the intervals, of the same shape.
        target: See `mean_squared_error`.
        observed: See `mean_squared_error`.
        per: See `mean_squared_error`.
    """
    lowest, actual, is_observed = _compare(low, target, observed, per)
    highest, _, _ = _compare(high, target, observed, per)
    is_inside = ((lowest <= actual) & (actual <= highest)).double()
    # A comparison with NaN is false, so the target would count as outside of its interval.
    is_unknown = lowest.isnan() | highest.isnan()
    return _average(torch.where(is_unknown, torch.nan, is_inside) * is_observed, is_observed, per)


def pinball_loss(
    prediction: Forecast, target: Forecast, quantile: float, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """Mean pinball loss of a forecast of a quantile: what is above it costs `quantile`, what is below `1 - quantile`.

    Args:
        prediction: Forecasts of the quantile, for example the upper ends of intervals.
        target: See `mean_squared_error`.
        quantile: The share of the targets that should lie below the forecasts, between 0 and 1.
        observed: See `mean_squared_error`.
        per: See `mean_squared_error`.
    """
    if not 0 < quantile < 1:
        raise InputError(f"Expected a quantile between 0 and 1, got {quantile}. 0.95 stands for 95 %.")
    forecast, actual, is_observed = _compare(prediction, target, observed, per)
    above = actual - forecast
    return _average(torch.maximum(quantile * above, (quantile - 1) * above), is_observed, per)


def accuracy(predicted: Labels, labels: Labels, mask: Mask | None = None) -> float:
    """Share of the nodes whose label was predicted.

    Args:
        predicted: One predicted label per node, whole numbers or text.
        labels: The true labels.
        mask: Boolean mask of the nodes that count. If None, all nodes.
    """
    guesses, truth = _masked_labels(predicted, labels, mask)
    return float((guesses == truth).mean())


def macro_f1(predicted: Labels, labels: Labels, mask: Mask | None = None) -> float:
    """Mean of the F1 scores of the classes that are predicted or true within the mask.

    Arguments as in `accuracy`.
    """
    from sklearn.metrics import f1_score

    guesses, truth = _masked_labels(predicted, labels, mask)
    return float(f1_score(truth, guesses, average="macro"))


def roc_auc(
    scores: Float[Tensor, " nodes"] | Float[Tensor, "nodes classes"] | ArrayLike,
    labels: Labels,
    mask: Mask | None = None,
) -> float:
    """Area under the ROC curve: how often a node of a class has a higher score for it than another node.

    Args:
        scores: For two classes, one score per node, higher for the greater label. For any number of classes, one score
            per node and class, where class k is label k; the areas of each class against the rest are averaged.
        labels: The true labels.
        mask: Boolean mask of the nodes that count; every class needs a node in it. If None, all nodes.
    """
    values, truth = _as_numbers(scores, "scores"), _as_labels(labels, "labels")
    if values.dim() not in (1, 2) or len(values) != len(truth):
        raise InputError(
            f"Expected scores of shape ({len(truth)},) or ({len(truth)}, classes), one row per label, got shape "
            f"{tuple(values.shape)}."
        )
    chosen = _as_mask(mask, len(truth))
    rows, truth = values.detach().cpu().numpy()[chosen], truth[chosen]
    if not np.isfinite(rows).all():
        raise InputError("Expected finite scores, got NaN or infinity within the mask.")
    classes = np.unique(truth)
    if rows.ndim == 2:
        return _one_against_rest(rows, truth, classes)
    if len(classes) != 2:
        raise InputError(
            f"Expected labels of two classes within the mask for one score per node, got {classes.tolist()}. "
            "Take another mask, or scores of shape (nodes, classes)."
        )
    return _area_under_curve(truth == classes[1], rows)


def r2(predicted: Numbers, targets: Numbers, mask: Mask | None = None) -> float:
    """R squared, the mean over the targets of a node: 1 is perfect, 0 is as good as the mean of the true numbers.

    A target that is the same at all nodes has no variance to explain. Its squared errors are then subtracted from 1
    without dividing them.

    Args:
        predicted: The predicted numbers, of shape (nodes,) or (nodes, targets).
        targets: The true numbers, of the same shape. A node with NaN among its targets does not count.
        mask: Boolean mask of the nodes that count. If None, all nodes.
    """
    forecast, actual = (
        np.asarray(_as_numbers(values, name).detach().cpu())
        for values, name in ((predicted, "predicted"), (targets, "targets"))
    )
    if forecast.shape != actual.shape or actual.ndim not in (1, 2):
        raise InputError(
            "Expected predicted and true numbers of the same shape, (nodes,) or (nodes, targets), got "
            f"{forecast.shape} and {actual.shape}. Reshape one of them."
        )
    forecast, actual = (values.reshape(len(values), -1) for values in (forecast, actual))
    counts = _as_mask(mask, len(actual)) & ~np.isnan(actual).any(axis=1)
    if not counts.any():
        raise InputError(f"Expected at least one node with known targets within the mask, got none of {len(actual)}.")
    errors = np.square(forecast - actual)[counts].sum(axis=0)
    spread = np.square(actual[counts] - actual[counts].mean(axis=0)).sum(axis=0)
    return float(np.mean(1 - errors / np.where(spread > 0, spread, 1.0)))


def _one_against_rest(
    scores: Float[np.ndarray, "nodes classes"],
    labels: Shaped[np.ndarray, " nodes"],
    classes: Shaped[np.ndarray, " present"],
) -> float:
    num_classes = scores.shape[1]
    if num_classes < 2 or classes.tolist() != list(range(num_classes)):
        raise InputError(
            f"Expected scores of at least two classes, and each of the labels 0 to {num_classes - 1} within "
            f"the mask, got labels {classes.tolist()}. Take a larger mask, or the scores of these classes only."
        )
    # One class at a time, because scikit-learn accepts only probabilities for several classes.
    return float(np.mean([_area_under_curve(labels == label, scores[:, label]) for label in range(num_classes)]))


def _area_under_curve(is_positive: Bool[np.ndarray, " nodes"], scores: Float[np.ndarray, " nodes"]) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(is_positive, scores))


def _compare(
    prediction: Forecast, target: Forecast, observed: Mask | None, per: Per | None
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
    """Check prediction and target; return them with 1 in place of unobserved values, and the mask of observed ones."""
    forecast = _as_numbers(prediction, "prediction")
    actual = _as_numbers(target, "target").to(forecast.device)
    if forecast.shape != actual.shape:
        raise InputError(
            f"Expected prediction and target of the same shape, got {tuple(forecast.shape)} and {tuple(actual.shape)}. "
            "Reshape one of them: broadcasting would compare values that do not belong together."
        )
    _check_per(per, actual)
    is_observed = ~actual.isnan()
    if observed is not None:
        chosen = _as_tensor(observed, "observed").to(forecast.device)
        if chosen.dtype != torch.bool or chosen.shape != actual.shape:
            raise InputError(
                f"Expected observed to be a boolean mask of shape {tuple(actual.shape)}, as the target, got "
                f"{chosen.dtype} of shape {tuple(chosen.shape)}."
            )
        is_observed &= chosen
    # Replace unobserved values before computing anything: a gradient through NaN is NaN even if its weight is zero.
    # Both become 1, not 0, so that their error is zero in every metric, including those that divide.
    return torch.where(is_observed, forecast, 1.0), torch.where(is_observed, actual, 1.0), is_observed


def _check_per(per: Per | None, target: Float[Tensor, "*shape"]) -> None:
    if per is None:
        return
    if per not in get_args(Per):
        raise InputError(f"Expected per to be one of {', '.join(get_args(Per))}, got {per!r}.")
    if target.dim() != 4:
        raise InputError(
            f"Expected prediction and target of shape (windows, horizon, nodes, channels) for per={per!r}, got shape "
            f"{tuple(target.shape)}."
        )


def _divide(errors: Float[Tensor, "*shape"], units: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    # Infinite for a unit of zero, even if the error is zero too; NaN stays NaN.
    return torch.where(units == 0, errors + torch.inf, errors / units)


def _average(errors: Float[Tensor, "*shape"], is_observed: Bool[Tensor, "*shape"], per: Per | None) -> Score:
    """Mean of `errors`, which are zero for unobserved targets."""
    if not is_observed.any():
        raise InputError(
            f"Expected at least one observed target, got none among {is_observed.numel()}. "
            "Take more of the series or another mask."
        )
    if per is None:
        return errors.sum() / is_observed.sum()
    others = [axis for axis, name in enumerate(get_args(Per)) if name != per]
    return errors.sum(dim=others) / is_observed.sum(dim=others)


def _as_array(values: Tensor | ArrayLike, name: str) -> Shaped[np.ndarray, "..."]:
    if isinstance(values, Tensor):
        return np.asarray(values.detach().cpu())
    try:
        return np.asarray(values)
    except ValueError as error:
        raise _not_rectangular(values, name) from error


def _as_tensor(values: Tensor | ArrayLike, name: str) -> Shaped[Tensor, "..."]:
    if isinstance(values, Tensor):
        return values
    try:
        # A copy, because torch accepts neither read-only memory nor negative strides.
        return torch.from_numpy(np.array(values, order="C"))
    except (TypeError, ValueError) as error:
        raise _not_rectangular(values, name) from error


def _not_rectangular(values: object, name: str) -> InputError:
    return InputError(f"Expected {name} to be a rectangular array of numbers, got {type(values).__name__}.")


def _as_numbers(values: Tensor | ArrayLike, name: str) -> Float[Tensor, "..."]:
    """Convert to at least float32: a sum of errors soon exceeds the range of half precision."""
    tensor = _as_tensor(values, name)
    if tensor.is_complex():
        raise InputError(f"Expected {name} to be real numbers, got {tensor.dtype}.")
    is_float = tensor.is_floating_point()
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32) if is_float else torch.float64)


def _masked_labels(
    predicted: Labels, labels: Labels, mask: Mask | None
) -> tuple[Shaped[np.ndarray, " nodes"], Shaped[np.ndarray, " nodes"]]:
    guesses, truth = _as_labels(predicted, "predicted"), _as_labels(labels, "labels")
    if guesses.shape != truth.shape:
        raise InputError(f"Expected one predicted label per node, got {len(guesses)} for {len(truth)} labels.")
    chosen = _as_mask(mask, len(truth))
    return guesses[chosen], truth[chosen]


def _as_labels(values: Labels, name: str) -> Shaped[np.ndarray, " nodes"]:
    labels = _as_array(values, name)
    if labels.ndim != 1 or labels.dtype.kind in "fc":
        raise InputError(
            f"Expected {name} to hold one label per node, whole numbers or text, got {labels.dtype} of shape "
            f"{labels.shape}. For scores, take the argmax over the classes."
        )
    return labels


def _as_mask(mask: Mask | None, num_nodes: int) -> Bool[np.ndarray, " nodes"]:
    chosen = np.ones(num_nodes, dtype=bool) if mask is None else _as_array(mask, "mask")
    if chosen.dtype != bool or chosen.shape != (num_nodes,):
        raise InputError(
            f"Expected a boolean mask of shape ({num_nodes},), one entry per node, got {chosen.dtype} of shape "
            f"{chosen.shape}."
        )
    if not chosen.any():
        raise InputError(f"Expected a mask with at least one node, got none of {num_nodes}.")
    return chosen
