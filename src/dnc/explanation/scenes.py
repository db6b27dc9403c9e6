"""From a segmentation to its reasons: which case has decided which pixels."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from dnc.errors import InvalidModel
from dnc.explanation.cases import Case
from dnc.explanation.scene_pictures import numbered
from dnc.explanation.segmented import SceneModel, Segmented
from dnc.explanation.shades import Colour, shades

MOST_CASES = 65_535  # numbers that a picture of 16 bits can hold


@dataclass(frozen=True)
class DecidingCase:
    """A case that has decided pixels of an image.

    Attributes:
        number: of the case among all of the model, from 1.
        label: its class.
        subcentroid: which sub-centroid of the class.
        pixels: how many it has decided.
        share: of the pixels of the image.
        similarity: mean cosine of these pixels to it.
        middle: row and column of a pixel deep in its largest region.
    """

    number: int
    label: int
    subcentroid: int
    pixels: int
    share: float
    similarity: float
    middle: tuple[int, int]


@dataclass(frozen=True, eq=False)
class ExplainedScene:
    """An image, the decision on every pixel, and the cases that have made it.

    Attributes:
        segmentation: the decision.
        numbers: the number of the case that has decided each pixel, `(h w)`.
        cases: those that have decided any, the one with most pixels first.
    """

    segmentation: Segmented
    numbers: NDArray[np.uint16]
    cases: tuple[DecidingCase, ...]

    @property
    def marks(self) -> list[tuple[int, DecidingCase]]:
        """Cases that carry a number in pictures, with that number: 1 for the largest case."""
        middles, shares = [case.middle for case in self.cases], [case.share for case in self.cases]
        ranks = numbered(middles, shares, self.segmentation.image.size)
        return [(rank + 1, self.cases[rank]) for rank in ranks]


class SceneExplainer:
    """Explains the decisions of a segmenter; the explanation is the decision itself.

    Args:
        recognizer: a segmenter of sub-centroids.

    """

    def __init__(self, recognizer: SceneModel) -> None:
        self.recognizer = recognizer
        self.head = recognizer.model.subcentroid_head
        self.places = [(c, k) for c, k in self.head.occupied.nonzero().tolist()]
        if len(self.places) > MOST_CASES:
            raise InvalidModel(
                f"This model has {len(self.places):,} cases; a picture of cases has numbers for "
                f"{MOST_CASES:,}. Train one with fewer sub-centroids."
            )
        self._table = np.zeros(self.head.occupied.shape, dtype=np.uint16)
        for number, place in enumerate(self.places, start=1):
            self._table[place] = number

    @cached_property
    def colours(self) -> tuple[Colour, ...]:
        """A colour for each case, in the order of their numbers."""
        return case_colours(self.recognizer)

    @property
    def is_anchored(self) -> bool:
        """Whether the cases are known to be places of training images and not means of many."""
        return self.recognizer.cases is not None and self.recognizer.cases.is_anchored

    def name(self, number: int) -> str:
        """The name of a case."""
        return self.recognizer.case_name(*self.places[number - 1])

    def case_of(self, number: int) -> Case | None:
        """The place in a training image behind a case, if it is known."""
        cases = self.recognizer.cases
        return None if cases is None else cases.by_place.get(self.places[number - 1])

    def numbers(self, segmentation: Segmented) -> NDArray[np.uint16]:
        """The number of the case that has decided each pixel."""
        assert segmentation.subcentroids is not None
        return self._table[segmentation.labels, segmentation.subcentroids]

    def explained(self, segmentation: Segmented) -> ExplainedScene:
        """Which case has decided which pixels."""
        numbers, similarity = self.numbers(segmentation), segmentation.similarity
        assert similarity is not None
        pixels = np.bincount(numbers.ravel(), minlength=len(self.places) + 1)
        cosines = np.bincount(
            numbers.ravel(), weights=similarity.ravel().astype(np.float64), minlength=len(pixels)
        )
        boxes = ndimage.find_objects(numbers)
        found = [
            DecidingCase(
                number,
                *self.places[number - 1],
                pixels=int(pixels[number]),
                share=float(pixels[number] / numbers.size),
                similarity=float(cosines[number] / pixels[number]),
                middle=_middle(numbers, number, boxes[number - 1]),
            )
            for number in np.flatnonzero(pixels).tolist()
        ]
        found.sort(key=lambda case: (-case.pixels, case.number))
        return ExplainedScene(segmentation, numbers, tuple(found))

    def told(self, one: ExplainedScene) -> str:
        """A decision in one line."""
        largest = one.cases[0]
        many = "1 case" if len(one.cases) == 1 else f"{len(one.cases)} cases"
        return (
            f"{one.segmentation.source}: decided by {many}, most of it by "
            f"{self.name(largest.number)} ({100 * largest.share:.1f} %, cosine "
            f"{largest.similarity:.3f})"
        )

    def described(self) -> dict[str, Any]:
        """The model and all its cases, for JSON; a case is at its number, less one."""
        cases = []
        for number, (c, _) in enumerate(self.places, start=1):
            case = self.case_of(number)
            cases.append(
                {
                    "index": number,
                    "case": self.name(number),
                    "class": self.recognizer.classes[c],
                    "colour": hexadecimal(self.colours[number - 1]),
                    "file": None if case is None else case.file,
                    "sha256": None if case is None else case.sha256,
                    "at": None if case is None or case.at is None else list(case.at),
                    "similarity_to_place": None if case is None else case.similarity,
                    "stands_for": None if case is None else case.stands_for,
                    "of_these_right": None if case is None else case.of_these_right,
                }
            )
        return {
            "classes": list(self.recognizer.classes),
            "cases_are_places": self.is_anchored,
            "cases": cases,
        }

    def to_dict(self, one: ExplainedScene, *, cases_png: str | None) -> dict[str, Any]:
        """Everything about one image, for JSON; `cases_png` says the case of every pixel."""
        height, width = one.numbers.shape
        return {
            "image": one.segmentation.source,
            "width": width,
            "height": height,
            "cases_png": cases_png,
            "cases": [
                {
                    "index": case.number,
                    "case": self.name(case.number),
                    "class": self.recognizer.classes[case.label],
                    "pixels": case.pixels,
                    "share": case.share,
                    "mean_similarity": case.similarity,
                    "middle": list(case.middle),
                }
                for case in one.cases
            ],
        }


def case_colours(recognizer: SceneModel) -> tuple[Colour, ...]:
    """A colour for each case that can decide, in their order: shades of the class's colour."""
    counts = recognizer.model.subcentroid_head.occupied.sum(dim=1).tolist()
    by_class = (
        shades(recognizer.colours, label, count=count) for label, count in enumerate(counts)
    )
    return tuple(colour for of_class in by_class for colour in of_class)


def class_shares(one: ExplainedScene) -> list[tuple[int, float]]:
    """The classes of an image with their shares of it, the largest first."""
    labels, pixels = np.unique(one.segmentation.labels, return_counts=True)
    order = np.argsort(-pixels, kind="stable")
    return [(int(labels[i]), float(pixels[i] / one.numbers.size)) for i in order]


def case_picture(one: ExplainedScene) -> Image.Image:
    """The number of the case that has decided each pixel, as a picture of 16 bits."""
    return Image.fromarray(one.numbers)


def hexadecimal(colour: Colour) -> str:
    """A colour as a page writes it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _middle(numbers: NDArray[np.uint16], number: int, box: tuple[slice, slice]) -> tuple[int, int]:
    """Of the pixels of a case's largest region that lie deepest in it, the most central one."""
    regions, _ = ndimage.label(numbers[box] == number)
    sizes = np.bincount(regions.ravel())
    largest = int(sizes[1:].argmax()) + 1
    part = ndimage.find_objects(regions, max_label=largest)[-1]
    inside = np.pad(regions[part] == largest, 1)
    depth = ndimage.distance_transform_cdt(inside)
    deepest = np.argwhere(depth == depth.max())
    off_centre = np.abs(deepest - np.argwhere(inside).mean(axis=0)).sum(axis=1)
    row, column = (int(place) - 1 for place in deepest[int(off_centre.argmin())])
    return row + part[0].start + box[0].start, column + part[1].start + box[1].start
