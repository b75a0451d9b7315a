"""The two ways this library says no.

`InputError` is a mistake of the caller: its message says what was expected, what came and what to do.
`TrainingError` is a computation that went wrong on valid input. The command line prints both as one line.
"""


class TdegnnError(Exception):
    """Base of all errors this library raises on purpose."""


class InputError(TdegnnError, ValueError):
    """The input is not what the function expects."""


class TrainingError(TdegnnError, RuntimeError):
    """Training could not go on, for example because the loss is no longer finite."""
