import pytest
import torch
from torch import nn

from tdegnn import InputError, TrainingError
from tdegnn.training.devices import choose_device
from tdegnn.training.loop import ClosureTrainee, fit
from tdegnn.training.optimizers import CosineAdam, QuasiNewton

INPUTS = torch.linspace(-1, 1, 32)[:, None]
TARGETS = 3 * INPUTS + 1


def line_fit(descent, num_steps, validation=None, **options):
    model = nn.Linear(1, 1)
    optimizer, scheduler = descent.build(model.parameters(), num_steps)

    def loss():
        return (model(INPUTS) - TARGETS).square().mean()

    trainee = ClosureTrainee(model, loss, validation or loss, optimizer, scheduler)
    result = fit(trainee, num_steps=num_steps, **options)
    return model, result


@pytest.mark.parametrize(("descent", "num_steps"), [(CosineAdam(0.1), 300), (QuasiNewton(), 3)])
def test_every_way_to_descend_finds_a_line(descent, num_steps):
    model, result = line_fit(descent, num_steps)
    assert result.best_scores.item() > -1e-6
    torch.testing.assert_close(model.weight.item(), 3.0, atol=1e-2, rtol=0)


def test_weights_of_the_best_validation_are_kept():
    losses = iter([3.0, 1.0, 2.0, 5.0])
    seen = []
    model = nn.Linear(1, 1)
    optimizer, _ = CosineAdam(0.1).build(model.parameters(), 4)

    def validation():
        seen.append(model.weight.item())
        return torch.tensor(next(losses))

    trainee = ClosureTrainee(model, lambda: model(INPUTS).square().mean(), validation, optimizer)
    result = fit(trainee, num_steps=4, validate_every=1)
    assert (result.best_steps.item(), result.best_scores.item()) == (2, -1.0)
    assert [score.item() for score in result.scores] == [-3.0, -1.0, -2.0, -5.0]
    assert model.weight.item() == seen[1]


def test_progress_is_told_after_every_step():
    ticks = []
    line_fit(CosineAdam(0.1), 5, on_step=ticks.append)
    assert ticks == [1, 2, 3, 4, 5]


def test_divergence_is_noticed_and_a_remedy_named():
    model = nn.Linear(1, 1)
    optimizer, _ = CosineAdam(0.1).build(model.parameters(), 10)
    never = ClosureTrainee(model, lambda: model(INPUTS).mean() * float("nan"), lambda: torch.tensor(0.0), optimizer)
    with pytest.raises(TrainingError, match=r"finite training loss, got nan after step 10. Lower the learning rate"):
        fit(never, num_steps=10)


def test_no_steps_are_refused():
    with pytest.raises(InputError, match="num_steps to be at least 1, got 0"):
        line_fit(CosineAdam(0.1), 0)


def test_device_is_chosen_or_refused():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="Expected a CUDA device"):
            choose_device("cuda")


def test_validation_that_is_no_number_is_noticed():
    with pytest.raises(TrainingError, match="finite validation loss, got nan after step 10"):
        line_fit(CosineAdam(0.1), 20, validation=lambda: torch.tensor(float("nan")))
