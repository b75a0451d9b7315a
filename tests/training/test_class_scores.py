"""The area under the ROC curve of members, and steps of equal scores."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from tdegnn.experiments.node_systems import train_members
from tdegnn.nodes.settings import NodeConfig
from tdegnn.training.loop import FitResult, Look, _start
from tdegnn.training.node_training import Classification, areas_under_roc
from tests.node_datasets import make_dataset

NODES = 50


@pytest.mark.parametrize("num_levels", [3, 1000])
def test_areas_are_those_of_scikit_learn_with_ties_and_masks(num_levels):
    draw = np.random.default_rng(0)
    scores = torch.as_tensor(draw.integers(0, num_levels, (4, NODES)) / num_levels)
    labels, masks = draw.integers(0, 2, NODES), draw.random((4, NODES)) < 0.6
    areas = areas_under_roc(scores, torch.as_tensor(labels == 1), torch.as_tensor(masks))
    expected = [roc_auc_score(labels[mask], row[mask]) for row, mask in zip(scores.numpy(), masks, strict=True)]
    np.testing.assert_allclose(areas.numpy(), expected)


def test_an_area_without_one_of_the_classes_is_not_a_number():
    areas = areas_under_roc(torch.rand(1, 5), torch.zeros(5, dtype=torch.bool), torch.ones(1, 5, dtype=torch.bool))
    assert areas.isnan().all()


def test_a_classification_has_the_score_that_it_is_given():
    labels = torch.tensor([0, 0, 1, 1])
    outputs = torch.tensor([[[0.0, -3.0], [0.0, -2.0], [0.0, -1.0], [0.0, -1.5]]])  # ordered, but on one side
    mask = torch.ones(1, 4, dtype=torch.bool)
    scores = [Classification(labels, score=name).scores(outputs, mask).item() for name in ("accuracy", "roc-auc")]
    assert scores == [0.5, 1.0]
    moved = Classification(labels, score="roc-auc").to(torch.device("cpu"), torch.float32)
    assert moved.scores(outputs, mask).item() == 1.0


@pytest.mark.slow
def test_members_of_a_recorded_training_are_chosen_by_the_area():
    dataset = make_dataset(num_classes=2)
    settings = NodeConfig(hidden_channels=4, num_layers=1, order=1, num_steps=12, select_by="roc-auc")
    _, runs = train_members(dataset, [(settings, split, split) for split in (0, 1)])
    training, alone = train_members(dataset, [(settings, 1, 1)])
    assert alone[0].validation_accuracy == pytest.approx(runs[1].validation_accuracy)
    with torch.no_grad():
        outputs = training.members.evaluate(*training._inputs)[0]
    mask = dataset.validation_masks[1]
    expected = roc_auc_score(dataset.labels[mask], (outputs[:, 1] - outputs[:, 0]).numpy()[mask])
    assert alone[0].validation_accuracy == pytest.approx(expected)


def test_of_equal_scores_the_lower_loss_wins_if_losses_are_given():
    def best_step(*tie_breaks):
        given = [None if each is None else torch.tensor([each]) for each in tie_breaks]
        looks = zip((0.5, 0.7, 0.7, 0.6, 0.7), given, strict=True)
        first, *others = (
            Look(step, torch.zeros(1), torch.tensor([score]), tie) for step, (score, tie) in enumerate(looks)
        )
        result = _start(first)
        for look in (first, *others):
            result.add(look)
        assert FitResult.from_state(result.state(), torch.device("cpu")).best_steps == result.best_steps
        return int(result.best_steps)

    assert best_step(None, None, None, None, None) == 1
    assert best_step(-1.0, -0.9, -0.2, -0.1, -0.4) == 2


def test_of_members_with_equal_scores_the_lower_loss_wins_if_losses_are_given():
    def best_member(scores, tie_breaks=None):
        look = Look(1, torch.zeros(3), torch.tensor(scores), None if tie_breaks is None else torch.tensor(tie_breaks))
        result = _start(look)
        result.add(look)
        return result.best_member

    assert best_member([0.6, 0.7, 0.7]) == 1
    assert best_member([0.6, 0.7, 0.7], [-0.1, -0.4, -0.2]) == 2
    assert best_member([float("nan"), 0.5, 0.4], [float("nan"), -0.4, -0.2]) == 1
    assert best_member([float("nan")] * 3, [float("nan")] * 3) == 0
