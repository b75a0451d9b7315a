"""One kernel drops as seven operations of torch do, to the last bit, for members and for gradients too."""

import pytest
import torch
from torch.func import vmap

from tdegnn.nets import dropout
from tdegnn.nets.dropout import DropoutStream

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
CUDA = torch.device("cuda")


def both_ways(monkeypatch, function):
    """Results with the kernel and without."""
    ours = function()
    with monkeypatch.context() as patch:
        patch.setattr(dropout, "runs_kernels", lambda tensor: False)
        return zip(ours, function(), strict=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(7,), (300, 31), (3, 500, 64)])
def test_masks_and_gradients_are_those_of_torch(monkeypatch, dtype, shape):
    values = torch.randn(shape, dtype=dtype, device=CUDA, requires_grad=True)
    rates = [torch.tensor(rate, dtype=torch.float64, device=CUDA) for rate in (0.0, 0.3, 0.9)]

    def results():
        stream = DropoutStream(torch.tensor(3, device=CUDA), torch.tensor(5, device=CUDA))
        dropped = [stream.drop(values, rate) for rate in rates]
        return (*dropped, *torch.autograd.grad(sum(each.pow(3).sum() for each in dropped), values))

    for one, other in both_ways(monkeypatch, results):
        assert torch.equal(one, other)


def test_members_have_masks_and_rates_of_their_own(monkeypatch):
    values = torch.randn(4, 600, 31, device=CUDA, requires_grad=True)
    seeds, rates = torch.arange(4, device=CUDA), torch.linspace(0.1, 0.8, 4, dtype=torch.float64, device=CUDA)

    def drop_twice(seed, rate, values):
        stream = DropoutStream(seed, torch.tensor(2, device=CUDA))
        return stream.drop(2 * stream.drop(values, rate), rate)

    def results():
        own = vmap(drop_twice)(seeds, rates, values)
        shared = vmap(drop_twice, in_dims=(0, 0, None))(seeds, rates, values[0])
        return own, shared, *torch.autograd.grad(own.square().sum() + shared.square().sum(), values)

    for one, other in both_ways(monkeypatch, results):
        assert torch.equal(one, other)


def test_second_derivatives_pass_through_what_was_kept(monkeypatch):
    values = torch.randn(1000, device=CUDA, requires_grad=True)

    def results():
        stream = DropoutStream(torch.tensor(0, device=CUDA), torch.tensor(0, device=CUDA))
        cubes = stream.drop(values, torch.tensor(0.5, device=CUDA)).pow(3).sum()
        (slope,) = torch.autograd.grad(cubes, values, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), values)

    for one, other in both_ways(monkeypatch, results):
        torch.testing.assert_close(one, other)
