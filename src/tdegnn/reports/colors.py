"""Colors of the pictures. They are variables of `assets/page.css`, which has a light and a dark value for each."""

from __future__ import annotations


def _variable(name: str) -> str:
    return f"var({'-' * 2}{name})"


BLUE, ORANGE, SOFT_INK, PAPER = map(_variable, ("blue", "orange", "soft-ink", "paper"))
# From good to bad, and of classes.
SCALE = tuple(_variable(f"scale-{number}") for number in range(1, 6))
CLASSES = tuple(_variable(f"class-{number}") for number in range(1, 8))
# Opaque: parts of a shaded region overlap.
SHADED = f"color-mix(in srgb, {BLUE} 24%, {PAPER})"
