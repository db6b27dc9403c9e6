"""Colours for the cases of a class: shades that can be told apart and still read as the class."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]

# From dark to light, and across that: shades differ more in lightness than in hue.
_LIGHTNESS = np.array([1, 1, 1]) / np.sqrt(3)
_HUES = np.array([[1, -1, 0] / np.sqrt(2), [1, 1, -2] / np.sqrt(6)])
FARTHEST, HUE = 75.0, 0.45
STEPS = 15


def shades(colours: Sequence[Colour], number: int, *, count: int) -> tuple[Colour, ...]:
    """Colours around one of several, each nearer to it than to any other of them.

    Each is the farthest from all before it, of those that differ from it by up to 75 of 255 in
    lightness and by less than half of that in hue.

    Args:
        colours: of all classes.
        number: the class whose shades are wanted.
        count: how many.

    """
    own = np.array(colours[number], dtype=np.float64)
    others = np.delete(np.array(colours, dtype=np.float64), number, axis=0)
    ways = np.linalg.norm(others - own, axis=1)
    # Short of half the way to the nearest other colour, that of the class is the nearest.
    reach = min([FARTHEST, *(0.45 * ways[ways > 0]).tolist()])
    candidates = own + reach * _unit_steps()
    inside = ((candidates >= 0) & (candidates <= 255)).all(axis=1)
    candidates = candidates[inside]
    distance = np.linalg.norm(candidates - own, axis=1)
    chosen = [own]
    while len(chosen) < count:
        farthest = candidates[int(distance.argmax())]
        chosen.append(farthest)
        distance = np.minimum(distance, np.linalg.norm(candidates - farthest, axis=1))
    return tuple(_rounded(colour) for colour in chosen[:count])


def _unit_steps() -> NDArray[np.float64]:
    """Steps away from a colour, none longer than 1."""
    along = np.linspace(-1, 1, STEPS)
    light, one, other = (part.ravel() for part in np.meshgrid(along, along, along, indexing="ij"))
    within = light**2 + one**2 + other**2 <= 1
    steps = np.stack([light, HUE * one, HUE * other], axis=1)[within]
    turned: NDArray[np.float64] = steps @ np.array([_LIGHTNESS, *_HUES])
    return turned


def _rounded(colour: NDArray[np.float64]) -> Colour:
    red, green, blue = (int(value) for value in np.round(colour))
    return red, green, blue
