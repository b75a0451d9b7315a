"""Report the analysis of one vector c: as text, as JSON, and in one sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike

from tdegnn.analysis.stencil import (
    as_coefficients,
    characteristic_roots,
    derivative_coefficients,
    expand_in_stencils,
    real_limit,
    root_multiplicity,
    satisfies_root_condition,
    sine_consistency,
    taylor_weights,
)
from tdegnn.analysis.tolerances import DEFAULT_TOLERANCE

Character = Literal["pure", "nearly pure", "Euler", "nearly Euler", "mixed"]
# Older states hardly count if their absolute weights sum to no more than this.
NEARLY_NOTHING = 0.1
ORDINALS = (
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)


# Meaning of a learned c, by the kind of states that it weighs.
MEANINGS = {
    "latent": "c weighs states of the network (mean over its layers), not the data themselves",
    "physical": "c weighs what was observed: it shows which differential equation the data follow, as far as the fit "
    "explains them (see tdegnn order)",
}
# What an unstable c means for latent states.
ON_LAYERS = "It describes the states over the few layers of the network, not the forecasts or classes that it gives."


def ordinal(order: int) -> str:
    """Return the ordinal number of an order in words, for example "second" for 2."""
    return ORDINALS[order] if order < len(ORDINALS) else f"{order}th"


@dataclass(frozen=True)
class CoefficientReport:
    """The analysis of a vector c.

    Attributes:
        coefficients: c, newest state first.
        tolerance: Tolerance with which roots and derivative coefficients were judged.
        history_length: o, the number of states that c weighs.
        root_multiplicity: Multiplicity of the root 1. It is the order of the recursion if lower derivatives vanish.
        is_stable: Whether the root condition holds.
        max_root_modulus: Largest modulus of a root.
        roots: Roots of the characteristic polynomial, largest modulus first.
        real_limit: Smallest `h lambda` below zero down to which `s = lambda F` is stable: see `regions.real_limit`.
        derivative_coefficients: `D_1, ..., D_o` of `D_1 h F' + D_2 h^2 F'' + ... = h s`.
        stencil_weights: c as a combination of the backward-difference stencils of orders 1, ..., o.
        taylor_weights: How much of each derivative the recursion measures on a smooth signal.
        second_derivative_share: Share of the second derivative when c is applied to a sine (64 points per period).
        states: Kind of states that c weighs, `"latent"` or `"physical"`. `None` if not known.
    """

    coefficients: tuple[float, ...]
    tolerance: float
    history_length: int
    root_multiplicity: int
    is_stable: bool
    max_root_modulus: float
    roots: tuple[complex, ...]
    real_limit: float
    derivative_coefficients: tuple[float, ...]
    stencil_weights: tuple[float, ...]
    taylor_weights: tuple[float, ...]
    second_derivative_share: float
    states: str | None = None

    @property
    def verdict(self) -> str:
        """Stability and order in one sentence, and in a second one what it means if latent states are unstable."""
        if self.is_stable:
            stability = "Stable"
        elif self.max_root_modulus > 1 + self.tolerance:
            stability = f"Unstable (largest root modulus {self.max_root_modulus:.4g})"
        else:
            stability = "Unstable (a repeated root on the unit circle)"
        is_on_layers = self.states == "latent" and not self.is_stable
        return f"{stability}: {self._order_in_words()}{f' {ON_LAYERS}' if is_on_layers else ''}"

    @property
    def character(self) -> Character:
        """What kind of recursion c makes. `verdict` puts it into words."""
        multiplicity = self.root_multiplicity
        # The roots that form an m-fold root up to the tolerance lie within the m-th root of the tolerance.
        reach = max(self.tolerance, DEFAULT_TOLERANCE) ** (1 / multiplicity)
        if multiplicity > 1:
            return "pure" if sum(abs(root - 1) <= reach for root in self.roots) >= multiplicity else "nearly pure"
        if not any(self.coefficients[1:]):
            return "Euler"
        return "nearly Euler" if sum(map(abs, self.coefficients[1:])) <= NEARLY_NOTHING else "mixed"

    @property
    def leading_order(self) -> int:
        """The order whose stencil has the largest weight in c."""
        # Compare stencil weights and not the D_j: padding c with zeros changes the D_j, but not the recursion.
        stencils = self.stencil_weights
        return 1 + max(range(len(stencils)), key=lambda place: abs(stencils[place]))

    def _order_in_words(self) -> str:
        multiplicity, weights, leading = self.root_multiplicity, self.derivative_coefficients, self.leading_order - 1
        if self.character == "nearly pure":
            small = "D_1 is" if multiplicity == 2 else f"D_1 to D_{multiplicity - 1} are"
            return f"{small} below the tolerance, although 1 is not a {multiplicity}-fold root."
        if self.character == "pure":
            return f"a pure {ordinal(multiplicity)}-order recursion, 1 is a {multiplicity}-fold root."
        if self.character == "Euler":
            return "forward Euler, first order."
        if self.character == "nearly Euler":
            return "first order, close to forward Euler; 1 is a simple root."
        first = "does not vanish" if leading == 0 else f"is {weights[0] / weights[leading]:.3g} D_{leading + 1}"
        largest = "" if leading == 0 else f": {ordinal(leading + 1)} order with lower derivatives"
        return f"1 is a simple root, so the first derivative takes part (D_1 {first}{largest})."

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and the verdict in types that JSON supports. A root becomes a pair (real, imaginary)."""
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return {**fields, "roots": [[root.real, root.imag] for root in self.roots], "verdict": self.verdict}

    def to_json(self) -> str:
        """Return `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def _repr_html_(self) -> str:
        from tdegnn.analysis.notebook import show_coefficients

        return show_coefficients(self)

    def __str__(self) -> str:
        roots = ", ".join(f"{tidy_root(root)} (|.| = {abs(root):.4g})" for root in self.roots)
        equation = " ".join(
            f"{'+' if weight >= 0 else '-'} {abs(weight):.4g} h{_power(j)} F{primes(j)}"
            for j, weight in enumerate(self.derivative_coefficients, start=1)
        )
        lines = {
            "c": ", ".join(f"{value:.6g}" for value in self.coefficients),
            "history length": str(self.history_length),
            "roots": roots,
            "with s = λF": f"stable for real hλ from {self.real_limit:.4g} to 0"
            if self.real_limit
            else "no decay is stable",
            "multiplicity of 1": f"{self.root_multiplicity} (at tolerance {self.tolerance:g})",
            "equation": f"{equation.removeprefix('+ ')} = h s",
            "as differences": _combination(self.stencil_weights),
            "on a sine": f"{self.second_derivative_share:.1%} second derivative",
            "verdict": self.verdict,
        }
        if self.states is not None:
            lines[self.states] = MEANINGS[self.states]
        return "\n".join(f"{name:<18} {text}" for name, text in lines.items())


def explain(coefficients: ArrayLike, tolerance: float = DEFAULT_TOLERANCE) -> CoefficientReport:
    """Analyze a coefficient vector.

    Args:
        coefficients: c, newest state first. Must sum to one.
        tolerance: How far outside the unit disc a root may lie, and how small a `D_j` must be to count as zero.

    Example:
        >>> explain([2, -1]).verdict
        'Stable: a pure second-order recursion, 1 is a 2-fold root.'
    """
    vector = as_coefficients(coefficients)
    roots = characteristic_roots(vector)
    return CoefficientReport(
        coefficients=tuple(vector.tolist()),
        tolerance=tolerance,
        history_length=len(vector),
        root_multiplicity=root_multiplicity(vector, tolerance),
        is_stable=satisfies_root_condition(vector, tolerance),
        max_root_modulus=float(abs(roots).max()),
        roots=tuple(roots.tolist()),
        real_limit=real_limit(vector, tolerance),
        derivative_coefficients=tuple(derivative_coefficients(vector).tolist()),
        stencil_weights=tuple(expand_in_stencils(vector).tolist()),
        taylor_weights=tuple(taylor_weights(vector).tolist()),
        second_derivative_share=sine_consistency(vector).second_derivative_share,
    )


def tidy_root(root: complex) -> str:
    """Return a root as text, without an imaginary part that is a rounding error."""
    return f"{root.real:.4g}" if abs(root.imag) < 1e-9 else f"{root.real:.4g}{root.imag:+.4g}i"


def _power(exponent: int) -> str:
    return "" if exponent == 1 else f"^{exponent}"


def primes(order: int) -> str:
    """Return the mark of a derivative: up to three primes, else its order in parentheses."""
    return "'" * order if order <= 3 else f"^({order})"


def _combination(weights: tuple[float, ...]) -> str:
    # Show zeros without their rounding error.
    shown = (weight if abs(weight) > 1e-12 else 0.0 for weight in weights)
    return " ".join(f"{weight:+.4g} [order {j}]" for j, weight in enumerate(shown, start=1)).removeprefix("+")
