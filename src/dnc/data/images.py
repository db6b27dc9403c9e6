"""Images of any kind as 8-bit RGB; whatever cannot be decoded is an `UnreadableImage`."""

import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from dnc.errors import InvalidData, UnreadableImage

MAX_PIXELS = 100_000_000
"""Images with more pixels than this are refused before they are decoded."""

EXTENSIONS = frozenset(
    {
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".bmp", ".dib", ".gif"),
        *(".tif", ".tiff", ".webp", ".avif", ".jp2", ".ppm", ".pgm", ".pbm", ".pnm"),
    }
)
"""Extensions, in lower case, by which a file counts as an image."""

# Only formats that hold pixels. Pillow would also open some that run a program to be drawn (EPS),
# and some that any file fits (TGA).
_FORMATS = ("JPEG", "PNG", "BMP", "DIB", "GIF", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM")

_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = (5, 6, 7, 8)


@dataclass(frozen=True)
class ImageHeader:
    """What the header of an image file says."""

    format: str
    width: int
    height: int


def read_image(
    path: str | Path, *, max_pixels: int = MAX_PIXELS, shorter_side: int | None = None
) -> Image.Image:
    """The image of a file, upright and as 8-bit RGB; of an animation the first frame.

    Transparent pixels are laid on white, 16-bit values are scaled to 8 bits. A file that is no
    image, is cut short or has too many pixels raises `UnreadableImage`.

    Args:
        path: the file.
        max_pixels: an image of more is refused by its header, before it is decoded. (Pillow's own
            limit, 179 megapixels unless changed, holds besides.)
        shorter_side: where only this many pixels are needed along the shorter side, a large JPEG
            is decoded at a reduced size, at least twice that; much faster, and hardly different
            after scaling down.

    """
    with opened_image(path, max_pixels=max_pixels) as image:
        if shorter_side is not None and min(image.size) > 0:
            scale = 2 * shorter_side / min(image.size)
            image.draft("RGB", (int(image.width * scale) + 1, int(image.height * scale) + 1))
        return as_rgb(image)


def decode_image(
    content: bytes, path: str | Path, *, max_pixels: int = MAX_PIXELS
) -> tuple[Image.Image, ImageHeader]:
    """The image in the bytes of a file, as `read_image` gives it, and what its header says."""
    with quiet_pillow(), unreadable_if_it_fails(path):
        if not content:
            raise UnreadableImage(path, "the file is empty")
        with _opened(BytesIO(content), path, max_pixels) as image:
            header = ImageHeader(image.format or "", *image.size)
            return as_rgb(image), header


def read_header(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> ImageHeader:
    """What the header of an image says; quick, and no promise that the rest can be decoded."""
    with opened_image(path, max_pixels=max_pixels) as image:
        return ImageHeader(image.format or "", *image.size)


def upright_size(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Width and height that `read_image` will give, by the header alone."""
    with opened_image(path, max_pixels=max_pixels) as image:
        # Pillow decodes the whole of a PNG to look for EXIF that comes after its pixels.
        early = image.format != "PNG" or "exif" in image.info
        turned = early and _orientation(image) in _SIDEWAYS
        return (image.height, image.width) if turned else (image.width, image.height)


@contextmanager
def opened_image(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> Iterator[Image.Image]:
    """The image of a file before it is decoded; whatever fails meanwhile is `UnreadableImage`."""
    with quiet_pillow(), unreadable_if_it_fails(path):
        require_regular(path)
        with _opened(path, path, max_pixels) as image:
            yield image


def image_from_array(array: NDArray[np.generic] | Tensor) -> Image.Image:
    """The RGB image that an array or a tensor holds.

    Args:
        array: an array `(h w)`, `(h w 1)`, `(h w 3)` or `(h w 4)`, or a tensor `(h w)` or
            channel-first `(1 h w)`, `(3 h w)`, `(4 h w)`; uint8, uint16, bool, or floating point
            in 0..1.

    """
    if isinstance(array, Tensor):
        tensor = array.detach().cpu()
        tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        pixels = (tensor.movedim(0, -1) if tensor.ndim == 3 else tensor).numpy()
    else:
        pixels = np.asarray(array)
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[-1] not in (1, 3, 4) or 0 in pixels.shape:
        raise InvalidData(
            f"An image of shape {tuple(array.shape)} came; allowed are arrays (h w) and (h w c) "
            "and tensors (h w) and (c h w), with 1, 3 or 4 channels and at least one pixel."
        )
    eight_bit = _eight_bit(pixels)
    if eight_bit.shape[-1] == 4:
        return as_rgb(Image.fromarray(eight_bit, "RGBA"))
    return Image.fromarray(np.ascontiguousarray(np.broadcast_to(eight_bit, (*pixels.shape[:2], 3))))


def as_rgb(image: Image.Image) -> Image.Image:
    """An image of any of Pillow's modes, upright and as 8-bit RGB, on white where transparent."""
    turn = _UPRIGHT.get(_orientation(image))
    if image.mode in ("F", "I") or image.mode.startswith("I;16"):
        image = Image.fromarray(_eight_bit(_wide_pixels(image)))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, coloured)
    rgb = image.convert("RGB")
    rgb.info = {}  # its orientation is applied here, and must not be a second time
    return rgb if turn is None else rgb.transpose(turn)


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Keeps Pillow's warnings to itself: what they warn of is checked here, or does not matter.

    The filters of warnings belong to the whole process. The first of several threads sets them
    and the last restores them, so that they cannot restore each other's.
    """
    _QUIET.enter()
    try:
        yield
    finally:
        _QUIET.leave()


@contextmanager
def unreadable_if_it_fails(path: str | Path) -> Iterator[None]:
    """Makes one `UnreadableImage` of all that can go wrong while a file is decoded."""
    try:
        yield
    except (UnreadableImage, MemoryError):
        raise
    except UnidentifiedImageError as error:
        raise UnreadableImage(path, "not an image of a known format") from error
    except Image.DecompressionBombError as error:
        raise UnreadableImage(path, "more pixels than Pillow allows") from error
    except FileNotFoundError as error:
        raise UnreadableImage(path, "there is no such file") from error
    except Exception as error:  # Pillow's plugins let all sorts through when a file is damaged
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:120]
        raise UnreadableImage(path, reason or type(error).__name__) from error


class _Quiet:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._filters = ExitStack()

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._filters.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL(\.|$)")

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.close()


_QUIET = _Quiet()


@contextmanager
def _opened(file: str | Path | BytesIO, path: str | Path, max_pixels: int) -> Iterator[Image.Image]:
    with Image.open(file, formats=_known_formats()) as image:
        if image.width * image.height > max_pixels:
            raise UnreadableImage(
                path,
                f"{image.width} x {image.height} pixels are more than the {max_pixels:,} allowed",
            )
        yield image


@cache
def _known_formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def require_regular(path: str | Path) -> None:
    """Raises unless a path is that of a file with content."""
    found = Path(path).stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for without end
        raise UnreadableImage(path, "not a regular file")
    if not found.st_size:
        raise UnreadableImage(path, "the file is empty")


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged metadata beside pixels that may well be sound
        return 1


def _wide_pixels(image: Image.Image) -> NDArray[np.generic]:
    """Pixels of more than 8 bits, as 16-bit integers or as floating-point numbers in 0..1."""
    pixels = np.asarray(image)
    if image.mode == "F":
        return pixels
    if pixels.size and (pixels.min() < 0 or pixels.max() > 65535):
        raise InvalidData("32-bit integers outside 0..65535 have no agreed scale")
    return pixels.astype(np.uint16)


def _eight_bit(pixels: NDArray[np.generic]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint8, copy=False)
    if pixels.dtype == np.uint16:
        scaled: NDArray[np.float32] = pixels.astype(np.float32) / np.float32(257)
        return np.round(scaled).astype(np.uint8)
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * np.uint8(255)
    if np.issubdtype(pixels.dtype, np.floating):
        lowest, highest = float(np.min(pixels)), float(np.max(pixels))
        if not (lowest >= -1e-6 and highest <= 1 + 1e-6):  # NaN fails too
            raise InvalidData(
                f"floating-point pixels must lie in 0..1; these lie in {lowest:g}..{highest:g}"
            )
        return np.round(np.clip(pixels.astype(np.float32), 0, 1) * 255).astype(np.uint8)
    raise InvalidData(
        f"Pixels of type {pixels.dtype} came; allowed are uint8, uint16, bool and floating point."
    )
