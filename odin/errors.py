"""Errors that a user can act on.

OdinError
├── InputError     what was given is wrong: a file, a key, a value (exit code 2)
└── RunError       a run could not be finished: a rank died, replicas differ (exit code 1)
"""


class OdinError(Exception):
    """An error whose message is one paragraph for the user: what, where, what to do."""

    exit_code = 1


class InputError(OdinError):
    """The input (a file, a key, a value) is wrong; nothing was started."""

    exit_code = 2


class RunError(OdinError):
    """A run that had started could not be finished; what was already written stays valid."""
