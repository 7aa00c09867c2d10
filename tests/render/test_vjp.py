"""Vector-Jacobian products are torch's to the bit."""

from __future__ import annotations

import pytest
import torch

from pipelines.render.vjp import pull_back


@pytest.mark.parametrize("retain", [False, True])
def test_the_bits_are_those_of_autograd(retain: bool) -> None:
    torch.manual_seed(0)
    x, unused = torch.randn(50, 3, requires_grad=True), torch.randn(2, requires_grad=True)
    a, b = (x.exp() * 3).sum(dim=1), x[:, :2].sin() @ torch.randn(2, 4)
    gradients = [torch.randn(50), torch.randn(50, 4).t().contiguous().t()]
    expected, nothing = torch.autograd.grad([a, b], [x, unused], gradients, retain_graph=True, allow_unused=True)
    found, none = pull_back([a, b], gradients, [x, unused], retain_graph=retain, allow_unused=True)
    assert found.numpy().tobytes() == expected.numpy().tobytes()
    assert nothing is none is None
    if retain:
        (again,) = pull_back([a, b], gradients, [x])
        assert torch.equal(again, expected)


def test_an_input_that_nothing_depends_on_is_refused() -> None:
    x, unused = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="unused"):
        pull_back([x * 2], [torch.ones(3)], [unused])
