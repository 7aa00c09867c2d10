"""Errors that a user can act on.

OdinError
├── InputError     what was given is wrong: a file, a key, a value (exit code 2)
└── RunError       a run could not be finished: a rank died, replicas differ (exit code 1)
"""


def one_paragraph(message: str) -> str:
    """The message with every line break, control character and lone surrogate escaped, as in `"a\\nb"`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in message)


class OdinError(Exception):
    """An error whose message is one paragraph for the user: what, where, what to do.

    Names in it may come from anywhere. What would break the paragraph or move a terminal's cursor is shown escaped.
    """

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(one_paragraph(message))


class InputError(OdinError):
    """The input (a file, a key, a value) is wrong; nothing was started."""

    exit_code = 2


class RunError(OdinError):
    """A run that had started could not be finished; what was already written stays valid."""
