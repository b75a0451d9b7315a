"""Metrics that check shapes and leave out what was not observed.

Prediction and target must have one shape: nothing is broadcast. Published baselines of this field come from a metric
that subtracted (n,) from (n, 1) and averaged the n x n result, and so are no better than a constant. A target that is
NaN was not observed and does not count; a prediction that is NaN where something was observed makes the metric NaN.

Forecast metrics work in torch, on any device, and can be trained on. Those of node classification return floats.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from numpy.typing import ArrayLike
from torch import Tensor

from tdegnn.errors import InputError, check_count

# In the order of the axes (windows, horizon, nodes, channels) that they keep.
Per = Literal["step", "horizon", "node", "channel"]
Forecast: TypeAlias = Float[Tensor, "*shape"] | ArrayLike
Mask: TypeAlias = Bool[Tensor, "*shape"] | ArrayLike
Score: TypeAlias = Float[Tensor, ""] | Float[Tensor, " kept"]
Labels: TypeAlias = Shaped[Tensor, " nodes"] | ArrayLike


def mean_squared_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """The mean of the squared errors.

    Args:
        prediction: What was forecast; tensor or array. Gradients flow through it.
        target: What came, of the same shape; NaN where nothing was observed. Brought to the prediction's device.
        observed: Which targets count, of the same shape. Without it, all that are not NaN.
        per: Which axis of (windows, horizon, nodes, channels) to keep: one mean for each predicted `"step"` (that is,
            each window), step of the `"horizon"`, `"node"` or `"channel"`, NaN where nothing was observed. Without it
            one mean over everything, of any number of axes.

    Raises:
        InputError: Shapes differ, or nothing was observed at all.
    """
    forecast, actual, is_observed = _compare(prediction, target, observed, per)
    return _average((forecast - actual).square(), is_observed, per)


def root_mean_squared_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """The root of the mean of the squared errors. Arguments as in `mean_squared_error`."""
    squared = mean_squared_error(prediction, target, observed, per)
    # The slope of the root is infinite at zero: a perfect forecast must not make the gradient NaN.
    is_positive = squared > 0
    return torch.where(is_positive, torch.where(is_positive, squared, 1.0).sqrt(), squared)


def mean_absolute_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """The mean of the absolute errors. Arguments as in `mean_squared_error`."""
    forecast, actual, is_observed = _compare(prediction, target, observed, per)
    return _average((forecast - actual).abs(), is_observed, per)


def mean_absolute_percentage_error(
    prediction: Forecast, target: Forecast, observed: Mask | None = None, per: Per | None = None
) -> Score:
    """The mean of the absolute errors as shares of the targets: 0.1 is 10 %. Arguments as in `mean_squared_error`.

    Infinite where an observed target is zero, which is a value like any other and not a missing one. For series that
    may be zero take `mean_absolute_scaled_error`.
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
    """The mean of the absolute errors in units of what the naive forecast errs: below 1 is better than naive.

    Infinite where the scale is zero: the series was constant while training. NaN where the scale is NaN: nothing to
    scale by was observed. Leave such nodes out with `observed`, or look at the others with `per="node"`.

    Args:
        prediction: See `mean_squared_error`.
        target: See `mean_squared_error`. Its last two axes are (nodes, channels).
        scale: From `seasonal_naive_scale`, of the training part.
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
    """Mean absolute error of the forecast "as one season ago" on the training part, for each node and channel.

    NaN for a node and channel of which no two steps a season apart were observed.

    Args:
        training: The training part of the series, oldest first; NaN where nothing was observed.
        season: Steps from one season to the next; 1 is the forecast "as one step ago".
    """
    check_count(season=season)
    values = _as_numbers(training, "training")
    if values.dim() != 3:
        raise InputError(f"Expected a training part of shape (time, nodes, channels), got shape {tuple(values.shape)}.")
    if len(values) <= season:
        raise InputError(
            f"Expected a training part of more than {season} steps for a season of {season}, got {len(values)}. "
            "Take a shorter season or a longer training part."
        )
    return (values[season:] - values[:-season]).abs().nanmean(dim=0)


def accuracy(predicted: Labels, labels: Labels, mask: Mask | None = None) -> float:
    """The share of nodes whose label was predicted.

    Args:
        predicted: One integer label a node.
        labels: The true ones.
        mask: The nodes that count. Without it, all.
    """
    guesses, truth = _masked_labels(predicted, labels, mask)
    return float((guesses == truth).mean())


def macro_f1(predicted: Labels, labels: Labels, mask: Mask | None = None) -> float:
    """The F1 score of each class, averaged over the classes that are predicted or true within the mask.

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
    """The area under the ROC curve: how often a node of a class has a higher score for it than another node.

    Args:
        scores: Of two classes: one score a node, higher for the greater label. Of any number of classes: one score a
            node and class, class k being label k; each class is then held against the rest, and the areas averaged.
        labels: The true integer labels.
        mask: The nodes that count. Without it, all. Every class needs a node in it.
    """
    values, truth = _as_numbers(scores, "scores"), _as_labels(labels, "labels")
    if values.dim() not in (1, 2) or len(values) != len(truth):
        raise InputError(
            f"Expected scores of shape ({len(truth)},) or ({len(truth)}, classes), a row for each label, got shape "
            f"{tuple(values.shape)}."
        )
    chosen = _as_mask(mask, truth)
    rows, truth = values.detach().cpu().numpy()[chosen], truth[chosen]
    if not np.isfinite(rows).all():
        raise InputError("Expected finite scores, got NaN or infinity within the mask.")
    classes = np.unique(truth)
    if rows.ndim == 2:
        return _one_against_rest(rows, truth, classes)
    if len(classes) != 2:
        raise InputError(
            f"Expected labels of two classes within the mask for one score a node, got {classes.tolist()}. "
            "Take another mask, or scores of shape (nodes, classes)."
        )
    return _area_under_curve(truth == classes[1], rows)


def _one_against_rest(
    scores: Float[np.ndarray, "nodes classes"],
    labels: Shaped[np.ndarray, " nodes"],
    classes: Shaped[np.ndarray, " present"],
) -> float:
    num_classes = scores.shape[1]
    if num_classes < 2 or classes.tolist() != list(range(num_classes)):
        raise InputError(
            f"Expected a score for each of at least two classes, and each of the labels 0 to {num_classes - 1} within "
            f"the mask, got labels {classes.tolist()}. Take a larger mask, or the scores of these classes only."
        )
    # One class at a time: scikit-learn's own way takes nothing but probabilities.
    return float(np.mean([_area_under_curve(labels == label, scores[:, label]) for label in range(num_classes)]))


def _area_under_curve(is_positive: Bool[np.ndarray, " nodes"], scores: Float[np.ndarray, " nodes"]) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(is_positive, scores))


def _compare(
    prediction: Forecast, target: Forecast, observed: Mask | None, per: Per | None
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"], Bool[Tensor, "*shape"]]:
    """Prediction and target, both one where nothing was observed, and where something was."""
    forecast = _as_numbers(prediction, "prediction")
    actual = _as_numbers(target, "target").to(forecast.device)
    if forecast.shape != actual.shape:
        raise InputError(
            f"Expected prediction and target of one shape, got {tuple(forecast.shape)} and {tuple(actual.shape)}. "
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
    # Replaced before anything is computed: a gradient through NaN is NaN even where its weight is zero. And by one,
    # not zero, so that what is left out has an error of zero in every metric, those that divide included.
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
    # Infinite for a unit of zero, even where the error is zero too; NaN stays NaN.
    return torch.where(units == 0, errors + torch.inf, errors / units)


def _average(errors: Float[Tensor, "*shape"], is_observed: Bool[Tensor, "*shape"], per: Per | None) -> Score:
    """The mean of `errors`, which are zero where nothing was observed."""
    if not is_observed.any():
        raise InputError(
            f"Expected at least one observed target, got none among {is_observed.numel()}. "
            "Take a longer part of the series or another mask."
        )
    if per is None:
        return errors.sum() / is_observed.sum()
    others = [axis for axis, name in enumerate(get_args(Per)) if name != per]
    return errors.sum(dim=others) / is_observed.sum(dim=others)


def _as_tensor(values: Tensor | ArrayLike, name: str) -> Shaped[Tensor, ...]:
    if isinstance(values, Tensor):
        return values
    try:
        # A copy: torch takes neither memory that is read-only nor strides that are negative.
        return torch.from_numpy(np.array(values, order="C"))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Expected {name} to be a rectangular array of numbers, got {type(values).__name__}."
        ) from error


def _as_numbers(values: Tensor | ArrayLike, name: str) -> Float[Tensor, ...]:
    """`values` in at least float32: a sum of errors soon leaves the range of half precision."""
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
        raise InputError(f"Expected one predicted label a node, got {len(guesses)} for {len(truth)} labels.")
    chosen = _as_mask(mask, truth)
    return guesses[chosen], truth[chosen]


def _as_labels(values: Labels, name: str) -> Shaped[np.ndarray, " nodes"]:
    tensor = _as_tensor(values, name)
    if tensor.dim() != 1 or tensor.is_floating_point() or tensor.is_complex():
        raise InputError(
            f"Expected {name} to hold one integer label a node, got {tensor.dtype} of shape {tuple(tensor.shape)}. "
            "Of scores, take the argmax over the classes."
        )
    return np.asarray(tensor.cpu())


def _as_mask(mask: Mask | None, labels: Shaped[np.ndarray, " nodes"]) -> Bool[np.ndarray, " nodes"]:
    chosen = np.ones(labels.shape, dtype=bool) if mask is None else np.asarray(_as_tensor(mask, "mask").cpu())
    if chosen.dtype != bool or chosen.shape != labels.shape:
        raise InputError(
            f"Expected a boolean mask of shape {labels.shape}, as the labels, got {chosen.dtype} of shape "
            f"{chosen.shape}."
        )
    if not chosen.any():
        raise InputError(f"Expected a mask with at least one node, got none of {len(labels)}.")
    return chosen
