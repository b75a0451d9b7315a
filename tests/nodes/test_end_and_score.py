"""When a training ends, by what its step is chosen, and what it says about both."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tdegnn import InputError, NodeClassifier, NodeRegressor
from tdegnn.training.devices import single_thread

NODES = 60
SMALL = dict(hidden_channels=8, device="cpu")
CODES = np.arange(NODES) % 2
draw = np.random.default_rng(0)
FEATURES = (CODES[:, None] + 0.8 * draw.standard_normal((NODES, 3))).astype(np.float32)
EDGES = draw.integers(0, NODES, (2, 100))
TEST = np.arange(0, 12)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    with single_thread():
        yield


def fit(kind=NodeClassifier, y=CODES, **settings):
    return kind(**SMALL | settings).fit(FEATURES, y, graph=EDGES, test=TEST)


@pytest.mark.slow
def test_training_ends_by_itself_and_says_nothing_then():
    model = fit(patience=30)
    last = model.history_[-1]["step"]
    assert last < 3000
    assert last - model.summary_["best_step"] == 30
    assert not any("might still improve" in note for note in model.notes_)


@pytest.mark.slow
def test_a_training_that_was_still_improving_says_so(tmp_path):
    model = fit(num_steps=9)
    (note,) = (note for note in model.notes_ if "might still improve" in note)
    assert note.startswith("The training ended after 9 steps while it might still improve: its best step was ")
    assert "without improvement" not in note
    assert note.endswith("Pass num_steps= for more steps.")
    assert note.as_options().endswith("Pass --steps for more steps.")
    model.save(tmp_path / "run")
    assert NodeClassifier.load(tmp_path / "run").notes_ == model.notes_


@pytest.mark.slow
def test_a_training_that_was_not_patient_to_the_end_says_for_how_long_it_waits():
    still = dict.fromkeys(("embedding_learning_rate", "spatial_learning_rate", "temporal_learning_rate"), 0.0)
    (note,) = (note for note in fit(num_steps=12, operator="diffusion", **still).notes_ if "improve" in note)
    assert "its best step was 3, and it waits for 200 steps without improvement. Pass num_steps= for" in note


@pytest.mark.slow
def test_without_patience_all_steps_are_made_and_an_early_best_step_is_no_note():
    still = dict.fromkeys(("embedding_learning_rate", "spatial_learning_rate", "temporal_learning_rate"), 0.0)
    model = fit(num_steps=12, patience=None, operator="diffusion", **still)
    assert model.history_[-1]["step"] == 12
    assert (model.summary_["best_step"], len([note for note in model.notes_ if "improve" in note])) == (3, 0)


@pytest.mark.slow
def test_two_classes_are_judged_by_the_area_under_the_roc_curve(tmp_path):
    model = fit(num_steps=30)
    area = roc_auc_score(CODES[TEST], model.predict_proba()[TEST, 1])
    assert model.summary_["score"] == "roc-auc"
    assert model.summary_["test_score"] == pytest.approx(area)
    assert fit(num_steps=3, select_by="accuracy").summary_["score"] == "accuracy"
    assert fit(num_steps=3, select_by="loss").summary_["score"] == "roc-auc"
    assert fit(num_steps=3, y=np.arange(NODES) % 3).summary_["score"] == "accuracy"
    numbers = fit(NodeRegressor, FEATURES[:, 0], num_steps=3)
    assert numbers.summary_["score"] == "squared error"
    assert fit(NodeRegressor, FEATURES[:, 0], num_steps=3, select_by="accuracy").summary_["score"] == "squared error"


@pytest.mark.slow
def test_one_class_on_validation_leaves_the_accuracy():
    model = NodeClassifier(**SMALL, num_steps=3)
    model.fit(FEATURES, CODES, graph=EDGES, validation=np.arange(0, 10, 2), test=[1, 3])
    assert model.summary_["score"] == "accuracy"
    assert model.notes_[0] == (
        "All validation nodes are of class '0', so the score is the accuracy, not ROC-AUC. Choose validation nodes of "
        "both classes."
    )


@pytest.mark.slow
def test_test_nodes_of_one_class_have_no_area_and_a_note_says_so():
    model = NodeClassifier(**SMALL, num_steps=3)
    model.fit(FEATURES, CODES, graph=EDGES, validation=np.arange(10), test=[11, 13])
    assert (model.summary_["score"], model.summary_["test_score"]) == ("roc-auc", None)
    note = model.notes_[0]
    assert note == (
        "All test nodes are of class '1', so there is no ROC-AUC on them. Choose test nodes of both classes, or pass "
        "select_by='accuracy'."
    )
    assert note.as_options().endswith("or pass --select-by accuracy.")
    # Neither both classes, nor the accuracy, nor no test nodes at all are worth a note.
    for settings, test in (({}, [11, 12]), ({"select_by": "accuracy"}, [11, 13]), ({}, None)):
        model = NodeClassifier(**SMALL, **settings, num_steps=3)
        model.fit(FEATURES, CODES, graph=EDGES, validation=np.arange(10), test=test)
        assert not any("ROC-AUC" in note for note in model.notes_)


@pytest.mark.parametrize(
    ("kind", "y", "validation", "message"),
    [
        (NodeClassifier, np.arange(NODES) % 3, None, "two classes, both on validation, for ROC-AUC, got 3 classes"),
        (NodeClassifier, CODES, [0, 2], "for ROC-AUC, got one class on validation. Use select_by='accuracy'."),
        (NodeRegressor, FEATURES[:, 0], None, "'auto' or 'loss' for numbers, got 'roc-auc'"),
    ],
)
def test_an_area_that_cannot_be_is_one_line(kind, y, validation, message):
    with pytest.raises(InputError, match=message):
        kind(**SMALL, select_by="roc-auc").fit(FEATURES, y, graph=EDGES, validation=validation)
