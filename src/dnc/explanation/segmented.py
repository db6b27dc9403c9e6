"""What an explanation needs of a segmenter and of its decision on an image.

A recognizer knows its explanations, so these cannot know recognizers; they name what they take.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dnc.explanation.cases import CaseBase
from dnc.explanation.shades import Colour
from dnc.models import Segmenter, Views


class Segmented(Protocol):
    """What a segmenter says of an image, as `dnc.scene_recognition.Segmentation` has it."""

    @property
    def source(self) -> str:
        """Where the image is from."""

    @property
    def image(self) -> Image.Image:
        """The image."""

    @property
    def labels(self) -> NDArray[np.int16]:
        """The class of each pixel."""

    @property
    def subcentroids(self) -> NDArray[np.int16] | None:
        """Which sub-centroid of the class has decided."""

    @property
    def similarity(self) -> NDArray[np.float32] | None:
        """Cosine of the pixel to it."""


class SceneModel(Protocol):
    """What of a segmenter is needed to explain it, as a `SceneRecognizer` has it."""

    @property
    def model(self) -> Segmenter:
        """The segmenter."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of its classes."""

    @property
    def colours(self) -> tuple[Colour, ...]:
        """Colours of its classes."""

    @property
    def cases(self) -> CaseBase | None:
        """The place behind each sub-centroid, if it is known."""

    def case_name(self, label: int, subcentroid: int) -> str:
        """The name of a sub-centroid."""

    def segmented(
        self, source: str, image: Image.Image, *, views: Views | None = None
    ) -> Segmented:
        """What an RGB image shows, pixel by pixel."""
