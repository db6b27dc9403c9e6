"""Scenes that are drawn on the spot: something to segment for those who have no masks yet.

Masks say house, tree, boat. Nobody tells a model that a house is roof, wall and windows, that
there are firs and oaks, or that it is evening: whether sub-centroids find that is there to see.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import yaml
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFilter

from dnc.data.masks import Colour
from dnc.errors import InvalidData, InvalidSetting
from dnc.files import whole_folder

CLASSES: dict[str, Colour] = {
    "sky": (130, 180, 230),
    "meadow": (120, 190, 90),
    "water": (40, 90, 170),
    "house": (200, 70, 60),
    "tree": (20, 110, 60),
    "boat": (240, 190, 50),
}
SKY, MEADOW, WATER, HOUSE, TREE, BOAT = range(len(CLASSES))

SIZE = (192, 144)
"""Width and height."""

_DAYLIGHT = ((96, 150, 216), (196, 216, 236))
_OVERCAST = ((140, 146, 154), (186, 190, 194))
_EVENING = ((88, 84, 140), (242, 166, 108))
_WALLS = ((226, 214, 188), (178, 92, 74), (200, 200, 204), (232, 196, 120))
_ROOFS = ((120, 52, 44), (74, 70, 76))
_HULLS = ((184, 40, 44), (36, 60, 110), (238, 236, 230))
_OAK, _FIR, _TRUNK = (70, 120, 44), (28, 74, 56), (84, 62, 44)
_GRASS = ((104, 148, 64), (146, 150, 72))
_GRAIN, _HILLS = 7.0, 5

Point = tuple[float, float]
Choice = TypeVar("Choice")


def draw_scenes(
    folder: str | Path,
    *,
    training: int = 120,
    test: int = 30,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> None:
    """Writes scenes with their masks, `images/train/000.png` and so on, and `classes.yaml`.

    Raises `InvalidData` if there is something at that place already.
    """
    folder = Path(folder)
    for name, count in (("training", training), ("test", test)):
        if not 1 <= count <= 100_000:
            raise InvalidSetting(f"{name} is {count}; it must be a number of scenes, 1 to 100,000.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidData(f"There is something at {folder} already; name a new folder.")
    numbered = [("train", number) for number in range(training)]
    numbered += [("test", number) for number in range(test)]
    palette = [part for colour in CLASSES.values() for part in colour]
    with whole_folder(folder) as unfinished:
        for kind in ("images", "masks"):
            for part in ("train", "test"):
                (unfinished / kind / part).mkdir(parents=True)
        for done, (part, number) in enumerate(numbered, start=1):
            image, mask = drawn_scene(np.random.default_rng((seed, part == "test", number)))
            mask.putpalette(palette)
            image.save(unfinished / "images" / part / f"{number:03}.png")
            mask.save(unfinished / "masks" / part / f"{number:03}.png")
            if on_progress is not None:
                on_progress(done, len(numbered))
        classes = [{"name": name, "colour": list(colour)} for name, colour in CLASSES.items()]
        text = yaml.safe_dump({"classes": classes}, sort_keys=False, default_flow_style=None)
        (unfinished / "classes.yaml").write_text(text, encoding="utf-8")


def drawn_scene(rng: Generator) -> tuple[Image.Image, Image.Image]:
    """A lakeside under a sky, and the number of the class of each of its pixels."""
    scene = _Scene(rng)
    width, height = SIZE
    horizon = height * rng.uniform(0.3, 0.5)
    shore = height * rng.uniform(0.66, 0.85)
    scene.add_sky(horizon)
    scene.add_meadow(horizon)
    # What is further away first, so that the nearer hides it.
    for foot in np.sort(rng.uniform(horizon + 8, shore - 2, rng.integers(3, 7))):
        size = 0.55 + 0.6 * (foot - horizon) / (shore - horizon)
        place = (rng.uniform(0, width), float(foot))
        [scene.add_house, scene.add_oak, scene.add_fir][rng.integers(3)](place, size)
    scene.add_water(shore)
    for _ in range(rng.integers(0, 3)):
        scene.add_boat((rng.uniform(10, width - 10), rng.uniform(shore + 6, height - 2)))
    return scene.photographed()


class _Scene:
    """An image and its mask, on which the same shapes are drawn."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng
        self.image, self.mask = Image.new("RGB", SIZE), Image.new("P", SIZE)
        self._on_image, self._on_mask = ImageDraw.Draw(self.image), ImageDraw.Draw(self.mask)

    def add_sky(self, horizon: float) -> None:
        top, bottom = self._one_of((_DAYLIGHT, _OVERCAST, _EVENING))
        for y in range(int(horizon) + _HILLS + 1):
            colour = _between(top, bottom, min(y / horizon, 1))
            self._polygon([(0, y), (SIZE[0], y), (SIZE[0], y + 1), (0, y + 1)], colour, SKY)
        for _ in range(self.rng.integers(0, 4)):
            x, high = self.rng.uniform(0, SIZE[0]), self.rng.uniform(4, horizon * 0.7)
            for shift in (-9, 0, 10):
                white = _between(bottom, (255, 255, 255), 0.5)
                self._ellipse((x + shift, high), (11, 5), white, SKY)

    def add_meadow(self, horizon: float) -> None:
        width, height = SIZE
        hills = [horizon + self.rng.uniform(-_HILLS, _HILLS) for _ in range(5)]
        top = [(width * number / 4, y) for number, y in enumerate(hills)]
        self._polygon([*top, (width, height), (0, height)], self._one_of(_GRASS), MEADOW)

    def add_water(self, shore: float) -> None:
        width, height = SIZE
        bank = [(width * number / 4, shore + self.rng.uniform(-3, 3)) for number in range(5)]
        # A lake has the colour of the sky above it, darker: colour alone does not tell them apart.
        sky = self.image.getpixel((width // 2, 2))
        colour = _between(sky, (20, 50, 80), 0.45)  # type: ignore[arg-type]
        self._polygon([*bank, (width, height), (0, height)], colour, WATER)
        for _ in range(9):
            x, y = self.rng.uniform(0, width), self.rng.uniform(shore + 4, height)
            wave = [(x, y), (x + 14, y), (x + 14, y + 1)]
            self._polygon(wave, _between(colour, (255, 255, 255), 0.2), WATER)

    def add_house(self, place: Point, size: float) -> None:
        x, foot = place
        half, high, wall = 17 * size, 20 * size, self._one_of(_WALLS)
        corners = [(x - half, foot), (x - half, foot - high), (x + half, foot - high)]
        self._polygon([*corners, (x + half, foot)], wall, HOUSE)
        eaves = half + 3 * size
        roof = [(x - eaves, foot - high), (x, foot - high - 15 * size), (x + eaves, foot - high)]
        self._polygon(roof, self._one_of(_ROOFS), HOUSE)
        for left in (-11, -3, 5):
            low, top = foot - 8 * size, foot - 15 * size
            pane = [(x + left * size, low), (x + left * size, top)]
            pane += [(x + (left + 5) * size, top), (x + (left + 5) * size, low)]
            self._polygon(pane, (48, 56, 72), HOUSE)

    def add_oak(self, place: Point, size: float) -> None:
        x, foot = place
        self._trunk(place, size, 14)
        green = _between(_OAK, (190, 120, 40), self.rng.choice([0.0, 0.1, 0.8]))  # or in autumn
        for dx, dy in ((-7, -20), (7, -20), (0, -28), (0, -18)):
            self._ellipse((x + dx * size, foot + dy * size), (10 * size, 9 * size), green, TREE)

    def add_fir(self, place: Point, size: float) -> None:
        x, foot = place
        self._trunk(place, size, 6)
        for low, half in ((-5, 12), (-15, 10), (-25, 7)):
            y = foot + low * size
            tier = [(x - half * size, y), (x, y - 16 * size), (x + half * size, y)]
            self._polygon(tier, _FIR, TREE)

    def add_boat(self, place: Point) -> None:
        x, y = place
        hull = [(x - 14, y - 6), (x + 14, y - 6), (x + 9, y), (x - 9, y)]
        self._polygon(hull, self._one_of(_HULLS), BOAT)
        if self.rng.random() < 0.6:
            self._polygon([(x, y - 7), (x, y - 30), (x + 12, y - 9)], (244, 242, 234), BOAT)

    def photographed(self) -> tuple[Image.Image, Image.Image]:
        """The image in some light, a little out of focus and with grain; and the mask."""
        pixels = np.asarray(self.image.filter(ImageFilter.GaussianBlur(0.6)), np.float64)
        pixels = pixels * self.rng.uniform(0.8, 1.1) * self.rng.uniform(0.95, 1.05, 3)
        pixels += self.rng.normal(0, _GRAIN, pixels.shape)
        return Image.fromarray(pixels.clip(0, 255).astype(np.uint8)), self.mask

    def _trunk(self, place: Point, size: float, high: float) -> None:
        x, foot = place
        half, top = 2 * size, foot - high * size
        corners = [(x - half, foot), (x - half, top), (x + half, top), (x + half, foot)]
        self._polygon(corners, _TRUNK, TREE)

    def _polygon(self, points: Sequence[Point], colour: Colour, label: int) -> None:
        self._on_image.polygon(points, fill=colour)
        self._on_mask.polygon(points, fill=label)

    def _ellipse(self, middle: Point, radii: Point, colour: Colour, label: int) -> None:
        (x, y), (across, down) = middle, radii
        box = (x - across, y - down, x + across, y + down)
        self._on_image.ellipse(box, fill=colour)
        self._on_mask.ellipse(box, fill=label)

    def _one_of(self, choices: Sequence[Choice]) -> Choice:
        return choices[int(self.rng.integers(len(choices)))]


def _between(one: Colour, other: Colour, share: float) -> Colour:
    """The colour that has this share of the other one."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(one, other, strict=True))
    return red, green, blue
