import numpy as np
import pytest
import torch

from tdegnn.nets.dropout import DropoutStream


def mask(seed, step, place=1, size=20_000, rate=0.5):
    stream = DropoutStream(torch.tensor(seed), torch.tensor(step))
    for _ in range(place - 1):
        stream.drop(torch.ones(1), torch.tensor(0.5))
    return stream.drop(torch.ones(size), torch.tensor(rate)).numpy() > 0


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_the_rate_is_met_and_the_mean_stays(rate):
    kept = np.concatenate([mask(0, step, rate=rate) for step in range(50)])
    assert kept.mean() == pytest.approx(1 - rate, abs=4 * np.sqrt(0.25 / kept.size))
    values = torch.full((100_000,), 3.0)
    dropped = DropoutStream(torch.tensor(1), torch.tensor(1)).drop(values, torch.tensor(rate))
    assert dropped.mean().item() == pytest.approx(3.0, rel=0.05)


def test_masks_of_other_seeds_steps_and_places_have_nothing_to_do_with_each_other():
    masks = [mask(seed, step, place) for seed in (0, 1, 2**31) for step in range(4) for place in (1, 2)]
    correlation = np.corrcoef(np.array(masks, dtype=float))
    np.fill_diagonal(correlation, 0.0)
    # The correlation of independent masks has a standard deviation of 1 / sqrt(size).
    assert np.abs(correlation).max() < 5 / np.sqrt(len(masks[0]))


def test_neighboring_entries_have_nothing_to_do_with_each_other():
    kept = np.stack([mask(3, step) for step in range(40)]).astype(float)
    for lag in (1, 2, 64, 128):
        shifted = np.corrcoef(kept[:, lag:].ravel(), kept[:, :-lag].ravel())[0, 1]
        assert abs(shifted) < 5 / np.sqrt(kept.size)


def test_the_same_seed_step_and_place_give_the_same_mask_on_every_device(device):
    values = torch.ones(1000, device=device)
    stream = DropoutStream(torch.tensor(7, device=device), torch.tensor(3, device=device))
    first = stream.drop(values, torch.tensor(0.3, device=device)).cpu()
    np.testing.assert_array_equal(first.numpy() > 0, mask(7, 3, size=1000, rate=0.3))


def test_gradients_pass_through_what_was_kept():
    values = torch.ones(1000, requires_grad=True)
    dropped = DropoutStream(torch.tensor(0), torch.tensor(0)).drop(values, torch.tensor(0.25))
    dropped.sum().backward()
    torch.testing.assert_close(values.grad, dropped.detach())
