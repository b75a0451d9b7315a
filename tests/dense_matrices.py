"""The matrices of `tdegnn.adjacency`, and batch norm, dense and as written, for transcriptions of operators."""

import torch


def with_loops(received: torch.Tensor) -> torch.Tensor:
    """A' with a loop of weight one at each node that has none."""
    return received + torch.diag((received.diagonal() == 0).double())


def scaled(received: torch.Tensor, row_exponent: float = -0.5, column_exponent: float = -0.5) -> torch.Tensor:
    """`D_r^a A' D_c^b`; empty rows and columns stay empty."""
    rows, columns = (
        torch.where(sums > 0, sums, 1.0) ** exponent
        for sums, exponent in ((received.sum(dim=1), row_exponent), (received.sum(dim=0), column_exponent))
    )
    return rows[:, None] * received * columns[None, :]


def scaled_by_rows(received: torch.Tensor) -> torch.Tensor:
    """`D^-1/2 A' D^-1/2`, with the row sums on both sides; an empty row has D = 1."""
    sums = received.sum(dim=1)
    scales = torch.where(sums > 0, sums, 1.0) ** -0.5
    return scales[:, None] * received * scales[None, :]


def convolution(received: torch.Tensor) -> torch.Tensor:
    """`P = D^-1/2 (A' + I) D^-1/2`."""
    return scaled_by_rows(with_loops(received))


def batch_norm(norm: torch.nn.BatchNorm1d, values: torch.Tensor) -> torch.Tensor:
    """Each channel with the mean and variance of the nodes in training, and those that the norm keeps in use."""
    mean, variance = norm.running_mean, norm.running_var
    if norm.training:
        mean = values.mean(dim=0)
        variance = (values - mean).square().mean(dim=0)
    return (values - mean) / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias
