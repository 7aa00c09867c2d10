"""`harness.progress`: lines in a log, one line on a terminal, and the estimate."""

from __future__ import annotations

import io

import pytest

from harness.progress import Progress, duration


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def log(total: int, steps: list[tuple[float, int, str]], fails: bool = False) -> list[str]:
    """Lines of a log after updates (seconds since the one before, done, note)."""
    clock, stream = Clock(), io.StringIO()
    try:
        with Progress(total, "barrier", stream=stream, clock=clock) as progress:
            for seconds, done, note in steps:
                clock.now += seconds
                progress.update(done, note)
            if fails:
                raise ValueError
    except ValueError:
        pass
    return stream.getvalue().splitlines()


def test_a_quick_run_says_only_that_it_is_done() -> None:
    assert log(20, [(0.1, done, "loss 0.2") for done in range(1, 21)]) == ["barrier: 20/20 (100 %), done, loss 0.2"]


def test_lines_are_at_least_ten_seconds_and_a_tenth_apart() -> None:
    lines = log(100, [(4.0, done, "") for done in range(1, 101)])
    # A tenth is 40 s here: lines at 10, 20, … 100.
    assert [line.split()[1] for line in lines] == [f"{done}/100" for done in range(10, 101, 10)] + ["100/100"]
    assert lines[0] == "barrier: 10/100 (10 %), 6 min 00 s left"


def test_a_slow_run_gives_a_sign_of_life_every_minute() -> None:
    lines = log(100_000, [(1.0, done, "") for done in range(1, 181)], fails=True)
    assert [line.split()[1] for line in lines] == ["60/100000", "120/100000", "180/100000", "180/100000"]


def test_the_first_step_and_resumed_steps_do_not_count_in_the_estimate() -> None:
    clock = Clock()
    progress = Progress(100, "x", stream=io.StringIO(), clock=clock)
    assert progress.remaining_s() is None
    clock.now += 50  # compilation
    progress.update(60)  # resumed
    assert progress.remaining_s() is None
    clock.now += 2
    progress.update(61)
    assert progress.remaining_s() == pytest.approx(2 * 39)


def test_a_run_that_fails_does_not_say_done() -> None:
    assert log(10, [(0.1, 4, "loss 1")], fails=True) == ["barrier: 4/10 (40 %), stopped, loss 1"]


def test_odd_totals() -> None:
    assert log(0, []) == ["barrier: 0/0 (100 %), done"]
    assert log(3, [(1.0, 9, "")]) == ["barrier: 3/3 (100 %), done"]


def test_a_terminal_shows_label_and_note_literally() -> None:
    clock, stream = Clock(), Terminal()
    with Progress(4, "[red]arm", stream=stream, clock=clock) as progress:
        for done in range(1, 5):
            clock.now += 1
            progress.update(done, "loss [b]")
    text = stream.getvalue()
    assert "[red]arm" in text
    assert "4/4" in text
    assert "done, loss [b]" in text


def test_the_label_may_change_on_the_way() -> None:
    for stream in (io.StringIO(), Terminal()):
        with Progress(4, "warm-up", stream=stream) as progress:
            progress.label = "quality #2"
            progress.update(1)
        assert "quality #2" in stream.getvalue()


def test_nothing_is_drawn_between_two_redraws() -> None:
    clock, stream = Clock(), Terminal()
    with Progress(1000, "x", stream=stream, clock=clock) as progress:
        clock.now += 1
        progress.update(1)
        before = stream.getvalue()
        clock.now += 0.01
        progress.update(2)
        assert stream.getvalue() == before


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
