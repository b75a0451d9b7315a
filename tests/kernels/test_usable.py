"""Kernels are for CUDA devices. Where they cannot be compiled, nobody misses them."""

import sys

import torch

from tdegnn.kernels import usable


def test_no_kernels_on_a_cpu():
    assert not usable.runs_kernels(torch.zeros(1))


def test_without_triton_there_are_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "tdegnn.kernels.row_product", raising=False)
    assert not usable._compiles.__wrapped__(torch.device("cpu"))
