"""The error of a model that is used before it was fitted.

Not in `errors.py`: scikit-learn takes a moment to import, and `tdegnn --help` must not wait for it.
"""

from __future__ import annotations

from typing import Self

import sklearn.exceptions

from tdegnn.errors import InputError


class NotFittedError(InputError, sklearn.exceptions.NotFittedError):  # type: ignore[misc] # scikit-learn has no types
    """A model was used before it was fitted.

    It is scikit-learn's error of the same name. So it is also an `AttributeError`, and `hasattr` returns False.
    """

    @classmethod
    def of(cls, model: object) -> Self:
        """Return the error for a model."""
        name = type(model).__name__
        return cls(f"Expected a {name} that has been trained, got one that has not. Call fit, or load one.")
