"""Messages of a rank to its supervisor: a line of JSON each, on what was its standard output when it began."""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO

_channel: TextIO | None = None


def open_channel() -> None:
    """Keep standard output for messages, and send what anything else prints, native libraries too, to the log: half a
    line of theirs before a message of ours, and the message would be lost."""
    global _channel
    sys.stdout.flush()
    _channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)


def tell(**message: object) -> None:
    """Send a message."""
    print(json.dumps(message), file=_channel or sys.stdout, flush=True)
