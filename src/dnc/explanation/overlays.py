"""Similarity maps laid over pictures."""

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

# What speaks for a case, and what against it: hues that colour-blind people tell apart.
FOR, AGAINST = (230, 120, 0), (40, 90, 200)
SIDE = 224
SMALL = 64  # pixels of pictures up to this side are shown as squares


def overlay(
    picture: Image.Image, of_places: Float[Tensor, "h w"], *, side: int = SIDE
) -> Image.Image:
    """A picture in pale grey, coloured where it speaks for a case (orange) or against it (blue).

    Args:
        picture: the square that the network sees.
        of_places: what each place contributes; the largest is drawn in full colour.
        side: pixels of the result.
    """
    is_small = max(picture.size) <= SMALL
    resampling = Image.Resampling.NEAREST if is_small else Image.Resampling.BICUBIC
    base = np.asarray(picture.convert("L").resize((side, side), resampling), dtype=np.float64)
    pale = np.repeat((110 + 0.57 * base)[..., None], 3, axis=2)
    largest = float(of_places.abs().amax())
    strength = _enlarged(of_places, side) / (largest or 1.0)
    amount = np.clip(np.abs(strength), 0, 1)[..., None] * 0.75
    colour = np.where(strength[..., None] >= 0, np.array(FOR), np.array(AGAINST))
    mixed = (1 - amount) * pale + amount * colour
    return Image.fromarray(np.clip(np.round(mixed), 0, 255).astype(np.uint8))


def _enlarged(of_places: Float[Tensor, "h w"], side: int) -> NDArray[np.float64]:
    """Between the middles of the places linear, beyond the outermost as there."""
    small = Image.fromarray(of_places.float().cpu().numpy())  # mode F
    large = small.resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(large, dtype=np.float64)
