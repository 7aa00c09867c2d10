"""Playing a program on the virtual clock, as it was or with phases that vary (D§9).

The clock is that of `odin.comm.virtual`: one collective at a time on the link, in order, from when all have joined; a
phase takes `slowdown` times as long while a transfer is in flight. tests/jitter shows that a program played without
jitter ends when its cell did.
"""

from __future__ import annotations

from math import nan

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import ndtri

from harness.jitter.program import JOIN, PHASE, Program


def jittered(program: Program, slowdown: float, sigma: float, draw: int) -> float:
    """Seconds until the last rank is done, NaN for a program in which ranks wait for one another.

    slowdown: of compute during a transfer
    sigma:    relative standard deviation of a phase (lognormal, mean 1, independent between phases); 0: none
    draw:     the same draw varies the same work alike in every arm, so that ratios of two arms vary by less
    """
    lengths = factors(program.key, sigma, draw) if sigma else np.ones(len(program.key))
    return float(_play(program.kind, program.value, lengths, program.first, program.transfer, slowdown))


def factors(key: NDArray[np.uint64], sigma: float, draw: int) -> NDArray[np.float64]:
    """What each phase takes ÷ what it costs, float64 [I], all above 0."""
    return np.exp(sigma * ndtri(_uniform(key, draw)) - 0.5 * sigma * sigma)


def _uniform(key: NDArray[np.uint64], draw: int) -> NDArray[np.float64]:
    """Numbers from 0 to 1, without these two, that depend on key and draw alone: the finalizer of splitmix64."""
    z = key + np.uint64((draw + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(12)).astype(np.float64) / 2.0**52 + 2.0**-53


@njit(cache=True, nogil=True)
def _play(kind: NDArray, value: NDArray, factor: NDArray, first: NDArray, transfer: NDArray, slowdown: float) -> float:
    ranks, collectives = first.shape[0] - 1, transfer.shape[0]
    at, now, launched = first[:-1].copy(), np.zeros(ranks), np.zeros(ranks, np.int64)
    joined, last = np.zeros(collectives, np.int64), np.zeros(collectives)
    start, finish = np.zeros(collectives), np.zeros(collectives)
    free, delivered, left = 0.0, 0, kind.shape[0]
    while left > 0:
        before = left
        for rank in range(ranks):
            while at[rank] < first[rank + 1]:
                i = at[rank]
                if kind[i] == PHASE:
                    seconds = value[i] * factor[i]
                    if slowdown == 1.0:
                        now[rank] += seconds
                    elif launched[rank] > delivered:
                        break  # the link's future is not known yet
                    else:
                        now[rank] = _stretched(start, finish, delivered, now[rank], seconds, slowdown)
                elif kind[i] == JOIN:
                    number = int(value[i])
                    joined[number] += 1
                    last[number] = max(last[number], now[rank])
                    launched[rank] += 1
                    while delivered < collectives and joined[delivered] == ranks:
                        start[delivered] = max(last[delivered], free)
                        free = finish[delivered] = start[delivered] + transfer[delivered]
                        delivered += 1
                else:
                    number = int(value[i])
                    if number >= delivered:
                        break
                    now[rank] = max(now[rank], finish[number])
                at[rank] += 1
                left -= 1
        if left == before:
            return nan
    return now.max()


@njit(cache=True, nogil=True, inline="always")
def _stretched(start: NDArray, finish: NDArray, delivered: int, now: float, seconds: float, slowdown: float) -> float:
    """End of `seconds` of compute from `now` on, beside transfers: `odin.comm.virtual.stretch_over`."""
    left = seconds
    for number in range(np.searchsorted(finish[:delivered], now, side="right"), delivered):
        alone = max(0.0, start[number] - now)
        if left <= alone:
            break
        now, left = now + alone, left - alone
        inside = (finish[number] - now) / slowdown
        if left <= inside:
            return now + left * slowdown
        now, left = finish[number], left - inside
    return now + left
