"""What a padded rank runs first: its communication before its computation, and both before other work (Linux)."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

# Added to the priority that the run was started with, so that `nice -n -10 odin-bench …` stays ahead of other work.
COMPUTE_NICE = 5
_HOST = hasattr(os, "sched_setscheduler")
_REALTIME = (os.SCHED_RR, os.SCHED_FIFO) if _HOST else ()
# Of the process as it was started: the calling thread's own values change below.
_STARTED_AT_POLICY = os.sched_getscheduler(0) if _HOST else 0
_STARTED_AT_NICE = os.getpriority(os.PRIO_PROCESS, 0) if _HOST else 0
_STARTED_AT_PRIORITY = os.sched_getparam(0).sched_priority if _HOST else 0
ORDINARY = "ordinary"


def prefer_communication(*, realtime: bool) -> str:
    """Let every other thread of this process go before the calling one, which computes; returns what was taken, in
    words for the record.

    realtime: ask for a real-time policy; where that is not permitted, or not asked for, computing is made nicer

    Raw gloo communicates on the cores that compute. On a padded run its threads, and the one that sums in rank order,
    take the few milliseconds they need at once: computing has slack, but an urgent segment of a few kilobytes has to be
    there in nominal time. The real-time policy also keeps other work of the machine from making a phase late; a padded
    run sleeps enough to leave that work its share. A thread inherits the priority of its maker. A run that was started
    under a real-time policy (`chrt --rr 10 odin-bench …`) stays in it.
    """
    tasks, own = Path("/proc/self/task"), threading.get_native_id()
    if not _HOST or not tasks.is_dir():
        return ORDINARY
    policy, priority = _policy(realtime)
    for task in tasks.iterdir():
        with contextlib.suppress(OSError):  # the thread has just ended, or may not be raised
            _prefer(int(task.name), policy, priority, computes=int(task.name) == own)
    if policy in _REALTIME:
        return f"real-time {priority}, communication {priority + 1}"
    return f"nice {_STARTED_AT_NICE + COMPUTE_NICE}, communication {_STARTED_AT_NICE}"


def _policy(realtime: bool) -> tuple[int, int]:
    """The policy and its priority for what computes, tried on the calling thread."""
    if _STARTED_AT_POLICY in _REALTIME:
        return _STARTED_AT_POLICY, _STARTED_AT_PRIORITY
    if realtime:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            return os.SCHED_RR, 1
    return os.SCHED_OTHER, 0


def _prefer(task: int, policy: int, priority: int, *, computes: bool) -> None:
    if policy in _REALTIME:
        os.sched_setscheduler(task, policy, os.sched_param(priority + (0 if computes else 1)))
    else:
        os.setpriority(os.PRIO_PROCESS, task, _STARTED_AT_NICE + (COMPUTE_NICE if computes else 0))
