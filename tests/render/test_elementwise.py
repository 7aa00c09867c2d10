"""Accuracy of exp, log and sigmoid, and that an element's bits do not depend on its place."""

from __future__ import annotations

import torch

from pipelines.render import vectors
from pipelines.render.elementwise import exp, log, sigmoid


def samples() -> torch.Tensor:
    return torch.linspace(-80.0, 80.0, 4001)


def test_accuracy() -> None:
    x = samples()
    assert torch.allclose(exp(x), torch.exp(x.double()).float(), rtol=1.2e-7, atol=0.0)
    assert torch.allclose(exp(x.double()), torch.exp(x.double()), rtol=1e-13, atol=0.0)
    assert torch.allclose(sigmoid(x), torch.sigmoid(x.double()).float(), rtol=1.2e-7, atol=0.0)
    positive = torch.exp(x.double())
    assert torch.allclose(log(positive), x.double(), rtol=1e-14, atol=1e-15)


def test_gradients() -> None:
    x = (samples() / 8.0).double().requires_grad_()
    (exp(x).log() + sigmoid(x)).sum().backward()
    s = torch.sigmoid(x.detach())
    assert x.grad is not None and torch.allclose(x.grad, 1.0 + s * (1.0 - s), rtol=1e-12)


def test_bits_do_not_depend_on_the_place() -> None:
    x = samples()
    for function in (exp, log, sigmoid):
        whole = function(x.abs() + 0.1)
        parts = torch.cat([function(part) for part in (x.abs() + 0.1).split(7)])
        assert torch.equal(whole, parts)


def test_scalar_kernels_agree() -> None:
    for x in samples()[::50].double():
        assert abs(vectors.exp.py_func(float(x)) / float(torch.exp(x)) - 1.0) < 5e-10
        assert abs(vectors.log.py_func(float(torch.exp(x))) - float(x)) < 1e-9
