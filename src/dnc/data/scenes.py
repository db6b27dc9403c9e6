"""Scenes: images with a class for every pixel."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dnc.data.collection import Splits, chosen_positions, size_in_bytes
from dnc.data.images import read_image, upright_size
from dnc.data.masks import Colour, MaskCoding, read_mask
from dnc.errors import InvalidData, UnreadableImage

# From sRGB without its gamma to the cones of the eye, and from their cube roots to Oklab.
_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


@dataclass(frozen=True, eq=False)
class Scenes:
    """Images with a class for every pixel, in a fixed order.

    Attributes:
        root: the folder that the names are relative to.
        names: POSIX paths of the images.
        masks: POSIX paths of their masks.
        ids: the position of each in the whole listing of its source, `(n)`. Parts of a data set
            keep it, so an id always leads to the same name.
        classes: names of the classes.
        colours: a colour for each class, for pictures.
        coding: how masks say the classes.

    """

    root: Path
    names: tuple[str, ...]
    masks: tuple[str, ...]
    ids: NDArray[np.int64]
    classes: tuple[str, ...]
    colours: tuple[Colour, ...]
    coding: MaskCoding

    def __post_init__(self) -> None:
        """Raises unless all parts fit together."""
        n = len(self.names)
        if len(self.masks) != n or self.ids.shape != (n,):
            raise InvalidData(
                f"{n} names came with {len(self.masks)} masks and ids of shape {self.ids.shape}; "
                "each image needs one of each."
            )
        if len(self.colours) != len(self.classes):
            raise InvalidData(
                f"{len(self.colours)} colours came for {len(self.classes)} classes; each needs one."
            )
        highest = max(number for _, number in (*self.coding.numbers, *self.coding.colours))
        if highest >= len(self.classes):
            raise InvalidData(
                f"The masks have classes up to {highest}; there are {len(self.classes)} classes, "
                "counted from 0."
            )

    def __len__(self) -> int:
        """How many scenes there are."""
        return len(self.names)

    def subset(self, positions: Sequence[int] | NDArray[np.integer]) -> "Scenes":
        """The scenes at these positions, in this order; ids and classes stay what they are."""
        chosen = chosen_positions(positions, len(self))
        return replace(
            self,
            names=tuple(self.names[i] for i in chosen),
            masks=tuple(self.masks[i] for i in chosen),
            ids=self.ids[chosen],
        )

    def path(self, position: int) -> Path:
        """The file of an image."""
        return self.root / self.names[position]

    def mask_path(self, position: int) -> Path:
        """The file of a mask."""
        return self.root / self.masks[position]

    def read(self, position: int) -> Image.Image:
        """The RGB image at a position, upright, as `read_image` gives it."""
        return read_image(self.path(position))

    def read_mask(self, position: int, size: tuple[int, int] | None = None) -> NDArray[np.int16]:
        """The class of each pixel of an image, `(h w)`; `IGNORED` where it has none.

        Args:
            position: of the scene.
            size: width and height of its image, which the mask must have; None looks them up.

        """
        wanted = upright_size(self.path(position)) if size is None else size
        path = self.mask_path(position)
        mask = read_mask(path, self.coding)
        if mask.shape != (wanted[1], wanted[0]):
            raise UnreadableImage(
                path,
                f"{mask.shape[1]} x {mask.shape[0]} pixels, but its image {self.names[position]} "
                f"has {wanted[0]} x {wanted[1]} as it is shown; both must have the same",
            )
        return mask

    def fingerprint(self) -> str:
        """The SHA-256 of ids, names, classes, coding, and the sizes of all files in bytes."""
        digest = hashlib.sha256()
        for position, names in enumerate(zip(self.names, self.masks, strict=True)):
            paths = (self.path(position), self.mask_path(position))
            for name, path in zip(names, paths, strict=True):
                record = f"{len(name)}:{name}\0{size_in_bytes(path)}\0"
                # File names need not be text: surrogates stand for bytes that are not UTF-8.
                digest.update(record.encode("utf-8", "surrogatepass"))
        digest.update(repr((self.classes, self.coding)).encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(self.ids).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class SceneSplits(Splits[Scenes]):
    """The parts of a data set of scenes."""


@lru_cache(maxsize=8)
def default_colours(count: int) -> tuple[Colour, ...]:
    """Colours that are told apart easily, black and white apart; more of them begin alike.

    Each is the one that is farthest from black, white and all before it, as the eye sees it
    (in Oklab), among those that are neither very dark nor very light nor glaring.
    """
    levels = np.arange(4, 256, 8)
    candidates = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), -1).reshape(-1, 3)
    seen = _oklab(candidates)
    lightness, chroma = seen[:, 0], np.hypot(seen[:, 1], seen[:, 2])
    allowed = (lightness > 0.38) & (lightness < 0.92) & (chroma < 0.2)
    candidates, seen = candidates[allowed], seen[allowed]
    if not 0 <= count <= len(candidates):
        raise InvalidData(f"{count} colours were asked for; there are {len(candidates):,}.")
    extremes = _oklab(np.array([[0, 0, 0], [255, 255, 255]]))
    nearest = ((seen[:, None] - extremes) ** 2).sum(-1).min(-1)
    chosen = []
    for _ in range(count):
        best = int(nearest.argmax())
        chosen.append(best)
        nearest = np.minimum(nearest, ((seen - seen[best]) ** 2).sum(-1))
    return tuple((int(r), int(g), int(b)) for r, g, b in candidates[chosen])


def _oklab(colours: NDArray[np.int64]) -> NDArray[np.float64]:
    shares = colours / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    cones: NDArray[np.float64] = np.cbrt(linear @ _TO_CONES.T)
    lab: NDArray[np.float64] = cones @ _TO_OKLAB.T
    return lab
