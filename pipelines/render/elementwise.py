"""exp, log and sigmoid whose bits do not depend on where in a tensor an element lies.

torch computes the bulk of a CPU tensor with vector code and its tail with scalar code, and the two round their
transcendental functions differently: the same row would project differently in another superset of rows (D§5).
Sums, products, quotients and roots are correctly rounded by either code, so everything here is made of them, in
float64.
"""

from __future__ import annotations

import math
from typing import Any

import torch

_LN2 = math.log(2.0)
# Taylor of exp on |r| ≤ ln 2 / 2 up to r¹³ / 13!: below 1e-16 relative.
_EXP = [1.0 / math.factorial(k) for k in range(13, -1, -1)]
# log(m) = 2 artanh(s), s = (m - 1) / (m + 1), |s| ≤ 0.172 on [√½, √2]: s²¹ / 21 is below 1e-17.
_LOG = [2.0 / k for k in range(19, 0, -2)]
_MANTISSA = (1 << 52) - 1
_ONE = 1023 << 52


def _power_of_two(exponent: torch.Tensor) -> torch.Tensor:
    """2^exponent as float64, from int64 in -1022 … 1023."""
    return ((exponent + 1023) << 52).view(torch.float64)


def _exp64(x: torch.Tensor) -> torch.Tensor:
    x = x.clamp(-700.0, 700.0)
    n = torch.round(x / _LN2)
    r = x - n * _LN2
    y = torch.full_like(r, _EXP[0])
    for coefficient in _EXP[1:]:
        y = y * r + coefficient
    return y * _power_of_two(n.to(torch.int64))


class _Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = _exp64(x.double()).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return grads[0] * y


class _Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = (1.0 / (1.0 + _exp64(-x.double()))).to(x.dtype)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return grads[0] * y * (1.0 - y)


def exp(x: torch.Tensor) -> torch.Tensor:
    """exp of each element, differentiable; the argument is clamped to ±700."""
    result: torch.Tensor = _Exp.apply(x)
    return result


def sigmoid(x: torch.Tensor) -> torch.Tensor:
    """Logistic function of each element, differentiable."""
    result: torch.Tensor = _Sigmoid.apply(x)
    return result


def log(x: torch.Tensor) -> torch.Tensor:
    """Natural logarithm of each positive element as float64, not differentiable."""
    bits = x.detach().double().clamp_min(1e-300).view(torch.int64)
    exponent = (bits >> 52) - 1023
    m = ((bits & _MANTISSA) | _ONE).view(torch.float64)
    high = m > math.sqrt(2.0)
    m = torch.where(high, m * 0.5, m)
    exponent = torch.where(high, exponent + 1, exponent)
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    y = torch.full_like(s, _LOG[0])
    for coefficient in _LOG[1:]:
        y = y * s2 + coefficient
    return y * s + exponent.double() * _LN2
