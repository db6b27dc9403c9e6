"""Draws scenes: images whose colours say the classes of their pixels, with masks, on the spot."""

from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = ((200, 40, 40), (40, 160, 60), (50, 70, 200), (210, 170, 30), (140, 60, 170))


def blocks(seed: int, *, size: tuple[int, int] = (48, 36), classes: int = 4) -> np.ndarray:
    """Rectangles of classes, `(h w)`, at least a dozen pixels wide."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, classes, (-(-size[1] // 12), -(-size[0] // 12)), dtype=np.uint8)
    return np.repeat(np.repeat(cells, 12, 0), 12, 1)[: size[1], : size[0]]


def coloured(mask: np.ndarray) -> Image.Image:
    """The image that a mask is the mask of."""
    return Image.fromarray(np.array(COLOURS, np.uint8)[np.minimum(mask, len(COLOURS) - 1)])


def draw_scene(image: Path, mask: Path, seed: int, **shape: object) -> np.ndarray:
    """Writes an image and its mask, and gives the mask."""
    drawn = blocks(seed, **shape)
    for path in (image, mask):
        path.parent.mkdir(parents=True, exist_ok=True)
    coloured(drawn).save(image)
    Image.fromarray(drawn).save(mask)
    return drawn


def draw_scenes(root: Path, count: int, *, part: str = "", seed: int = 0, **shape: object) -> None:
    """Writes `root/images/<part>/<number>.png` and the masks, so many of them."""
    for number in range(count):
        name = f"{number:03}.png"
        places = (root / folder / part / name for folder in ("images", "masks"))
        draw_scene(*places, seed=1000 * seed + number, **shape)


def draw_difficult_scenes(root: Path) -> set[str]:
    """Writes six good training scenes, and one with each thing that goes wrong in practice.

    Returns the names of the files that have to be set aside. Classes are 0 to 3; 255 is ignored.
    """
    draw_scenes(root, 6, part="train")
    images, masks = root / "images" / "train", root / "masks" / "train"

    def pair(name: str, mask_name: str | None = None) -> tuple[Path, Path]:
        image, mask = images / f"{name}.png", masks / (mask_name or f"{name}.png")
        draw_scene(image, mask, seed=77)
        return image, mask

    pair("no mask")[1].unlink()
    pair("no image")[0].unlink()
    pair("two masks")
    Image.fromarray(blocks(77)).save(masks / "two masks.bmp")
    pair("two images")
    coloured(blocks(77)).save(images / "two images.bmp")
    pair("smaller")
    Image.fromarray(blocks(77)[:30]).save(masks / "smaller.png")
    _, strange = pair("unknown label")
    labels = blocks(77)
    labels[5, 7:10] = 200
    Image.fromarray(labels).save(strange)
    _, cut = pair("cut mask")
    cut.write_bytes(cut.read_bytes()[:-40])
    pair("text")[1].write_text("hello")
    pair("empty image")[0].write_bytes(b"")
    pair("lossy", "lossy.jpg")
    coloured(blocks(77)).save(images / "turned.jpg", exif=_turned(), quality=95)
    Image.fromarray(blocks(77)).save(masks / "turned.png")
    pair("Ünïcödé")
    return {
        "images/train/no mask.png",
        "masks/train/no image.png",
        "images/train/two masks.png",
        "images/train/two images.png",
        "images/train/two images.bmp",
        "masks/train/smaller.png",
        "masks/train/unknown label.png",
        "masks/train/cut mask.png",
        "masks/train/text.png",
        "images/train/empty image.png",
        "masks/train/lossy.jpg",
        "masks/train/turned.png",
    }


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif
