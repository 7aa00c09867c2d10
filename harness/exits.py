"""How a command ends: an exit code, and one paragraph for the user where it is not 0.

0    done
1    a run that had started could not be finished (RunError)
2    the input is wrong and nothing was started (InputError, usage)
70   a defect of this program (EX_SOFTWARE); the traceback lies in a file that the message names
130  interrupted (128 + SIGINT)
141  whoever read the output has gone, as `| head` does (128 + SIGPIPE)
"""

from __future__ import annotations

import functools
import os
import platform
import select
import shutil
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec

import typer

from odin.errors import OdinError

P = ParamSpec("P")

DEFECT = 70
INTERRUPTED = 130
UNREAD = 141


def ends_in_exit(command: Callable[P, int]) -> Callable[P, None]:
    """The command as typer wants it: its return value, or what it raised, becomes the exit code.

    Errors are caught here, below click, because click would turn an EOFError of a broken pipe between ranks
    into the single word "Aborted!".
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        raise typer.Exit(code_of(lambda: command(*args, **kwargs), folder=_out(kwargs.get("words"))))

    return run


def code_of(action: Callable[[], int], *, folder: Path) -> int:
    """Run the action; say what went wrong on stderr. A traceback goes to a file in `folder`."""
    try:
        code = action()
        sys.stdout.flush()
        return code
    except OdinError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        say("Interrupted. Records that were finished stay valid; the same command does what is missing.")
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _unread():
            return UNREAD
        say(_defect(error, folder))
        return DEFECT


def _unread() -> bool:
    """Whether nobody reads standard output any more; what is still to be written to it then goes nowhere. A broken pipe
    between ranks looks the same otherwise."""
    try:
        output, watched = sys.stdout.fileno(), select.poll()
    except (OSError, ValueError):
        return False
    watched.register(output, 0)
    if not any(event & select.POLLERR for _, event in watched.poll(0)):
        return False
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, output)
    os.close(nowhere)
    return True


def exit_code(stop: SystemExit) -> int:
    """The code of a SystemExit, which may also hold nothing or a message."""
    if isinstance(stop.code, str):
        say(stop.code)
        return 1
    return stop.code or 0


def say(paragraph: str) -> None:
    """Print one paragraph to stderr: wrapped on a terminal, one line in a log, where grep has to find it."""
    if sys.stderr.isatty():
        width = min(100, shutil.get_terminal_size().columns)
        paragraph = textwrap.fill(paragraph, width, break_long_words=False, break_on_hyphens=False)
    else:
        paragraph = " ".join(paragraph.splitlines())
    print(paragraph, file=sys.stderr)


def _out(words: object) -> Path:
    """The folder that the words name, without checking them: what failed may be the check."""
    given = [str(word) for word in words if str(word).startswith("out=")] if isinstance(words, list) else []
    return Path(given[-1].removeprefix("out=") if given else "runs")


def _defect(error: Exception, folder: Path) -> str:
    summary = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
    written = _write_traceback(error, (folder, Path(tempfile.gettempdir())))
    if written is None:
        traceback.print_exception(error)
        return f"This is a defect of odin-bench, not of the input ({summary}). Its traceback is above."
    return (
        f"This is a defect of odin-bench, not of the input ({summary}). The traceback is in {written}; "
        "please report it with the command you ran. Records that were finished stay valid."
    )


def _write_traceback(error: Exception, folders: Sequence[Path]) -> Path | None:
    """Write the traceback to the first folder that takes it."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    text = "".join(
        [
            f"command: {sys.argv}\npython: {sys.version}\nplatform: {platform.platform()}\n\n",
            *traceback.format_exception(error),
        ]
    )
    for folder in folders:
        path = folder / f"crash-{stamp}-{os.getpid()}.txt"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue
        return path
    return None
