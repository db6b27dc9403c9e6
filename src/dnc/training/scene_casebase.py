"""Makes the case base of a segmenter: the place in a training scene behind each sub-centroid."""

from dataclasses import replace

import torch
from PIL import Image

from dnc.centroids import SubCentroidHead
from dnc.data import Scenes, SceneSplits
from dnc.data.scene_preparation import scaled_size
from dnc.errors import UnreadableImage
from dnc.explanation.cases import CaseBase, shown_name, thumbnail
from dnc.explanation.places import marked_crop
from dnc.scene_recognition import SceneRecognizer
from dnc.training.casebase import digest_of, found_cases
from dnc.training.features import Features
from dnc.training.scene_features import Place, middle_pixels

# Pixels of a side of the pictures of places.
PICTURE = 144
# A crop around a place shows so many positions of the feature map along each side, but at least so
# many pixels of the image, since the positions of some segmenters are close.
POSITIONS_SHOWN, LEAST_SIDE = 9, 96


def with_scene_cases(
    recognizer: SceneRecognizer, splits: SceneSplits, features: Features
) -> SceneRecognizer:
    """The recognizer with its case base.

    Args:
        recognizer: a segmenter of sub-centroids.
        splits: the data that it was made from.
        features: of places in its training scenes.
    """
    assert splits.train is not None
    cases = scene_case_base(recognizer, splits.train, features, splits.kind)
    return replace(recognizer, cases=cases)


@torch.no_grad()
def scene_case_base(
    recognizer: SceneRecognizer, scenes: Scenes, features: Features, kind: str
) -> CaseBase:
    """The place behind each sub-centroid, and what the sub-centroid does with other places."""
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    position = dict(zip(scenes.ids.tolist(), range(len(scenes)), strict=True))
    cases = []
    for found in found_cases(head, features):
        place = Place.of(found.id)
        of_scene = position[place.image]
        image = _image(scenes, of_scene)
        at = (0, 0) if image is None else pixel_of(recognizer, place, image.size)
        picture = None
        if image is not None:
            side = receptive_side(recognizer, image.size)
            picture = thumbnail(marked_crop(image, at, side=side), side=PICTURE)
        cases.append(
            found.case(
                image=place.image,
                file=shown_name(scenes.names[of_scene]),
                sha256=digest_of(scenes, of_scene),
                thumbnail=picture,
                at=at,
            )
        )
    root = shown_name(str(scenes.root.absolute()))
    return CaseBase(head.is_anchored, root, kind, tuple(cases))


def receptive_side(recognizer: SceneRecognizer, size: tuple[int, int]) -> int:
    """Pixels of an image that are shown around a place."""
    scale = size[0] / scaled_size(size, recognizer.preprocessing)[0]
    return round(max(POSITIONS_SHOWN * recognizer.model.stride, LEAST_SIDE) * scale)


def pixel_of(recognizer: SceneRecognizer, place: Place, size: tuple[int, int]) -> tuple[int, int]:
    """Row and column of the pixel in the middle of a place; `size` is the image's width, height."""
    seen = scaled_size(size, recognizer.preprocessing)
    stride = recognizer.model.stride
    row = middle_pixels(place.row + 1, size[1], seen=seen[1], stride=stride)[-1]
    column = middle_pixels(place.column + 1, size[0], seen=seen[0], stride=stride)[-1]
    return int(row), int(column)


def _image(scenes: Scenes, position: int) -> Image.Image | None:
    try:
        return scenes.read(position)
    except UnreadableImage:
        return None
