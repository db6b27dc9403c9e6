"""Draws images, folders of images and stand-ins of published data sets, on the spot."""

import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = ((200, 40, 40), (40, 160, 60), (50, 70, 200), (210, 170, 30), (140, 60, 170))


def drawing(label: int, number: int, *, size: int = 32, seed: int = 0) -> Image.Image:
    """A picture whose colour and stripes say its class, with noise of its own."""
    rng = np.random.default_rng((seed, label, number))
    y, x = np.mgrid[:size, :size] / size
    angle = np.pi * label / 7
    stripes = np.sin(2 * np.pi * (2 + label % 3) * (x * np.cos(angle) + y * np.sin(angle)))
    colour = np.array(COLOURS[label % len(COLOURS)], dtype=np.float64)
    pixels = colour * (0.75 + 0.25 * stripes[..., None]) + rng.normal(0, 12, (size, size, 3))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def draw_folder(root: Path, classes: Mapping[str, int], size: int = 32, seed: int = 0) -> None:
    """Writes `root/<class>/<number>.png`, so many images for each class."""
    for label, (name, count) in enumerate(classes.items()):
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            drawing(label, number, size=size, seed=seed).save(folder / f"{number:04}.png")


def draw_difficult_folder(root: Path) -> set[str]:
    """Writes a folder of three classes with everything that goes wrong in practice.

    Returns the paths, relative to the root, of the files that have to be set aside: most of them by
    their header, `truncated.jpg` only once it is decoded.
    """
    draw_folder(root, {"Äpfel": 6, "two only": 2, "犬 и кошки": 6}, size=40)
    apples, animals = root / "Äpfel", root / "犬 и кошки"
    image = drawing(0, 100, size=48)

    exif = Image.Exif()
    exif[0x0112] = 6
    rotated = Image.fromarray(np.asarray(image)[:, :36])
    rotated.save(apples / "rotiert größer.JPG", exif=exif, quality=95)
    image.convert("L").save(apples / "grey.png")
    image.quantize(16).save(apples / "palette.png")
    transparent = image.convert("RGBA")
    transparent.putalpha(Image.linear_gradient("L").resize(image.size))
    transparent.save(animals / "alpha.png")
    deep = np.asarray(image.convert("L")).astype(np.uint16) * 257
    Image.fromarray(deep).save(animals / "sixteen-bit.png")
    Image.new("RGB", (1, 1), (12, 34, 56)).save(animals / "one-pixel.png")
    frames = [drawing(2, number, size=40) for number in range(200, 203)]
    frames[0].save(animals / "animated.gif", save_all=True, append_images=frames[1:])

    os.symlink("..", apples / "loop")
    os.symlink(".", animals / "self")
    os.symlink("circle.jpg", animals / "circle.jpg")
    (apples / ".hidden.jpg").write_bytes(b"not seen")
    (apples / "notes.txt").write_text("not an image, and not called one")

    jpeg = apples / "whole.jpg"
    drawing(0, 101, size=96).save(jpeg, quality=95)
    (apples / "truncated.jpg").write_bytes(jpeg.read_bytes()[: jpeg.stat().st_size // 2])
    jpeg.unlink()
    (animals / "text.jpg").write_text("hello")
    (animals / "empty.png").write_bytes(b"")
    (animals / "bomb.png").write_bytes(bomb_png(50_000, 50_000))
    return {
        "Äpfel/truncated.jpg",
        "犬 и кошки/text.jpg",
        "犬 и кошки/empty.png",
        "犬 и кошки/bomb.png",
        "犬 и кошки/circle.jpg",
    }


def bomb_png(width: int, height: int) -> bytes:
    """A small PNG file whose header promises any number of pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 10_000)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )
