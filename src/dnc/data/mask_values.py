"""What the file of a mask says of each pixel, before anything says what that means."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.io import loadmat, whosmat

from dnc.data.images import MAX_PIXELS, opened_image, require_regular, unreadable_if_it_fails
from dnc.errors import UnreadableImage

_MODES_TOLD = "pixels of Pillow's mode {}; masks must have one whole number, or a colour, each"
_MATLAB = ".mat"
_ARRAY = "S"  # COCO-Stuff's name for it


def mask_values(path: Path, *, by_colour: bool) -> NDArray[np.integer]:
    """What a file says of each pixel, `(h w)`: a number, or a colour packed into one."""
    if path.suffix.lower() == _MATLAB:
        values = _read_matlab(path)
        if by_colour:
            raise UnreadableImage(path, "numbers, where colours are wanted")
        return values
    with opened_image(path) as image:
        if image.format == "JPEG":
            raise UnreadableImage(path, "JPEG changes values; masks must be PNG or the like")
        return _packed_colours(image, path) if by_colour else _numbers(image, path)


def _numbers(image: Image.Image, path: Path) -> NDArray[np.integer]:
    if image.mode in ("1", "L", "P", "I") or image.mode.startswith("I;16"):
        return np.asarray(image)
    if image.mode in ("LA", "PA"):
        return np.asarray(image)[..., 0]
    if image.mode in ("RGB", "RGBA"):
        pixels = np.asarray(image)
        red = pixels[..., 0]
        if (red == pixels[..., 1]).all() and (red == pixels[..., 2]).all():
            return red
        raise UnreadableImage(
            path,
            "a coloured mask, where numbers are wanted; say in a classes.yaml what the colours "
            "mean (masks: colour, and a colour for each class)",
        )
    raise UnreadableImage(path, _MODES_TOLD.format(image.mode))


def _packed_colours(image: Image.Image, path: Path) -> NDArray[np.integer]:
    if image.mode in ("RGB", "RGBA"):
        pixels = np.asarray(image)
    elif image.mode in ("1", "L", "LA", "P", "PA"):
        pixels = np.asarray(image.convert("RGB"))
    else:
        raise UnreadableImage(path, _MODES_TOLD.format(image.mode))
    red, green, blue = (pixels[..., channel].astype(np.int32) for channel in range(3))
    return red << 16 | green << 8 | blue


def _read_matlab(path: Path) -> NDArray[np.integer]:
    _matlab_size(path)
    with unreadable_if_it_fails(path):
        values: NDArray[np.integer] = loadmat(path, variable_names=[_ARRAY])[_ARRAY]
    if not np.issubdtype(values.dtype, np.number) or (values != np.round(values)).any():
        raise UnreadableImage(path, f"labels of type {values.dtype}; they must be whole numbers")
    return values.astype(np.int64)


def _matlab_size(path: Path) -> tuple[int, int]:
    with unreadable_if_it_fails(path):
        require_regular(path)
        shapes = {name: shape for name, shape, _ in whosmat(path)}
    shape = shapes.get(_ARRAY, ())
    if len(shape) != 2 or not 0 < shape[0] * shape[1] <= MAX_PIXELS:
        raise UnreadableImage(
            path,
            f"an array {_ARRAY} of shape {tuple(shape)}; wanted is one of height and "
            f"width, with {MAX_PIXELS:,} pixels at most",
        )
    return int(shape[1]), int(shape[0])
