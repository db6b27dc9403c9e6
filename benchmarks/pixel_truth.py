"""Recomputes by brute force, pixel by pixel, whether explanations of scenes are the decisions.

`python -m benchmarks.pixel_truth CHECKPOINT DATA [--part test] [--limit N]`

The explanation of a scene is read back from the PNG that `dnc explain` writes. Beside it, features
are mixed for every pixel by `torch.nn.functional.interpolate` in 64 bits, and their cosines to all
cases are computed: no bound, no band, nothing of the fast way of `dnc.centroids.between`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from dnc.data import Scenes, whole_scenes
from dnc.explanation.scenes import ExplainedScene, SceneExplainer, case_picture
from dnc.scene_recognition import SceneRecognizer
from dnc.training.checkpoint import load_segmenter
from dnc.training.results import part_to_evaluate, split_of_training

TIE = 1e-6
CHANNELS = 16  # of the features that are there for every pixel at once


@dataclass(frozen=True)
class PixelTruth:
    """How many explanations of how many pixels are true.

    Attributes:
        scenes: scenes that were looked at.
        pixels: all of their pixels.
        nearest: pixels whose case in the explanation is the nearest of all by brute force.
        tied: of the others, those whose case is less than 1e-6 of cosine farther than the nearest.
        same_class: pixels to which evaluation and prediction give the class of the case.
        largest_gap: of cosine, between the case of a pixel and the nearest.
    """

    scenes: int = 0
    pixels: int = 0
    nearest: int = 0
    tied: int = 0
    same_class: int = 0
    largest_gap: float = 0.0

    def __add__(self, other: "PixelTruth") -> "PixelTruth":
        """Both together."""
        return PixelTruth(
            self.scenes + other.scenes,
            self.pixels + other.pixels,
            self.nearest + other.nearest,
            self.tied + other.tied,
            self.same_class + other.same_class,
            max(self.largest_gap, other.largest_gap),
        )


def truth_of_scenes(recognizer: SceneRecognizer, scenes: Scenes) -> PixelTruth:
    """Looks at every pixel of every scene, one scene at a time."""
    explainer, total = SceneExplainer(recognizer), PixelTruth()
    for scene in whole_scenes(scenes, workers=0):
        total += truth_of_image(recognizer, explainer, scene.image)
    return total


def truth_of_image(
    recognizer: SceneRecognizer, explainer: SceneExplainer, image: Image.Image
) -> PixelTruth:
    """Looks at every pixel of an image, as slowly and obviously as can be."""
    shown = shown_cases(explainer.explained(recognizer.segmented("", image)))
    cosine = brute_force_cosines(recognizer, explainer, image)
    highest = cosine.max(dim=0)
    told = torch.from_numpy(shown.astype(np.int64)) - 1
    gap = highest.values - cosine.gather(0, told[None])[0]
    is_nearest = highest.indices == told
    classes = np.array([label for label, _ in explainer.places])[shown.astype(np.int64) - 1]
    return PixelTruth(
        scenes=1,
        pixels=shown.size,
        nearest=int(is_nearest.sum()),
        tied=int((~is_nearest & (gap < TIE)).sum()),
        same_class=int((classes == recognizer.labels(image)).sum()),
        largest_gap=float(gap.max()),
    )


def shown_cases(one: ExplainedScene) -> NDArray[np.uint16]:
    """The number of the case of each pixel, as whoever opens the PNG finds it."""
    file = BytesIO()
    case_picture(one).save(file, "PNG")
    return np.array(Image.open(file)).astype(np.uint16)


def brute_force_cosines(
    recognizer: SceneRecognizer, explainer: SceneExplainer, image: Image.Image
) -> Tensor:
    """The cosine of every pixel to every case, `(n h w)` in 64 bits.

    A few channels of the features at a time: all of them at every pixel may not fit into memory.
    """
    features, seen = recognizer.features(image)
    features = features.cpu().double()
    if not explainer.head.keep_length:
        features = functional.normalize(features, dim=0)
    cases = explainer.head.centroids[explainer.head.occupied].cpu().double()
    cases = functional.normalize(cases, dim=1)
    height, width = image.height, image.width
    # Positions lie so many pixels of the image apart; beyond the image there is only padding.
    stride = recognizer.model.stride
    steps = [stride * height / seen[0], stride * width / seen[1]]
    dot = torch.zeros(len(cases), height, width, dtype=torch.float64)
    square = torch.zeros(height, width, dtype=torch.float64)
    for begin in range(0, len(features), CHANNELS):
        some = slice(begin, begin + CHANNELS)
        mixed = functional.interpolate(
            features[None, some], scale_factor=steps, mode="bilinear", recompute_scale_factor=False
        )[0, :, :height, :width]
        dot += torch.einsum("nd,dhw->nhw", cases[:, some], mixed)
        square += mixed.square().sum(dim=0)
    return dot / square.sqrt()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the truth of the explanations of a part of a data set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--part", choices=("train", "validation", "test"))
    parser.add_argument("--limit", type=int, help="so many scenes, evenly over the part")
    given = parser.parse_args(arguments)
    recognizer = load_segmenter(given.checkpoint)
    splits = split_of_training(recognizer, given.data, kind=None, wanted=given.part)
    part, scenes = part_to_evaluate(splits, given.data, wanted=given.part, recognizer=recognizer)
    if given.limit is not None and given.limit < len(scenes):
        chosen = np.linspace(0, len(scenes) - 1, given.limit).round().astype(int)
        scenes = scenes.subset(chosen)
    truth = truth_of_scenes(recognizer, scenes)
    print(
        f"{truth.pixels:,} pixels of {truth.scenes:,} {part} scenes: the case in the explanation "
        f"is the nearest by brute force in {truth.nearest:,}, within {TIE:g} of it in "
        f"{truth.tied:,} (at most {truth.largest_gap:.1e} of cosine farther), neither in "
        f"{truth.pixels - truth.nearest - truth.tied:,}; evaluation and prediction give the class "
        f"of the case in {truth.same_class:,}"
    )


if __name__ == "__main__":
    main()
