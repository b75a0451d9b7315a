"""Compile a whole integration and compare it with the plain one: `python -m tests.core.compile_check RULE DEVICE`."""

import copy
import sys

import torch
from torch import nn

from tdegnn import AttentionCoefficients, DiffusionOperator, DirectCoefficients, integrate
from tests.core.checkers import CHANNELS, random_history, small_graph

RULES = {"direct": lambda: DirectCoefficients(2), "attention": lambda: AttentionCoefficients(2, CHANNELS)}


class Network(nn.Module):
    def __init__(self, rule):
        super().__init__()
        self.rule, self.operator, self.graph = rule, DiffusionOperator(CHANNELS, 2, 0.1), small_graph()

    def forward(self, *history):
        return integrate(history, self.graph, self.rule, self.operator, num_layers=2, step_size=0.1).state


def main(rule, device):
    torch.manual_seed(0)
    plain = Network(RULES[rule]()).to(device)
    history = random_history(2, dtype=torch.float32, device=device)
    expected = plain(*history)
    expected.square().sum().backward()
    twin = copy.deepcopy(plain)
    twin.zero_grad()
    came = torch.compile(twin, fullgraph=True)(*history)
    came.square().sum().backward()
    torch.testing.assert_close(came, expected)
    for parameter, reference in zip(twin.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, reference.grad)


if __name__ == "__main__":
    main(*sys.argv[1:])
