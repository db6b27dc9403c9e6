"""A trained segmenter with all that it takes to look at a scene: `dnc.load` gives one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dnc.data import ScenePreprocessing, scene_input
from dnc.errors import InvalidInput, UnreadableImage
from dnc.explanation.cases import CaseBase
from dnc.explanation.scene_explanation import SceneExplanation
from dnc.models import WHOLE, Segmenter, Views, viewed_features
from dnc.recognition import ImageLike, Network, Recognizer, picture_of, several

Colour = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """What a segmenter says of every pixel of an image, and the cases that made it say so.

    Attributes:
        source: the path, or the position of an image that came without one.
        image: the image.
        labels: number of the class of each pixel.
        subcentroids: which sub-centroid of that class has decided; None for a softmax segmenter.
        similarity: cosine of the pixel to it; None likewise.
    """

    source: str
    image: Image.Image
    labels: NDArray[np.int16]
    subcentroids: NDArray[np.int16] | None
    similarity: NDArray[np.float32] | None


@dataclass(frozen=True)
class SceneRecognizer:
    """A segmenter, the names and colours of its classes, and how images become its input.

    Attributes:
        model: the segmenter, in evaluation mode.
        network: how its network was built; None for one that dnc has no name for.
        output_stride: of the network, if it was dilated.
        classes: names, in the order of the scores.
        colours: of the classes, for pictures.
        preprocessing: scaling of the images.
        notes: what else is known: recipe, provenance of the data, versions, results.
        cases: the place in a training image behind each sub-centroid, if it is known.
        views: how it looks at an image, unless it is told otherwise.
    """

    model: Segmenter
    network: Network | None
    output_stride: int | None
    classes: tuple[str, ...]
    colours: tuple[Colour, ...]
    preprocessing: ScenePreprocessing
    notes: dict[str, Any]
    cases: CaseBase | None = None
    views: Views = WHOLE

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def to(self, device: torch.device | str) -> Self:
        """The same recognizer with its model on a device."""
        self.model.to(device)
        return self

    def with_model(self, model: Segmenter) -> "SceneRecognizer":
        """The same with another model."""
        return replace(self, model=model)

    def case_name(self, label: int, subcentroid: int) -> str:
        """The name of a sub-centroid."""
        return f"{self.classes[label]}#{subcentroid}"

    def features(
        self, image: Image.Image, *, views: Views | None = None
    ) -> tuple[Float[Tensor, "d h w"], tuple[int, int]]:
        """Features of the positions of an RGB image, and the height and width that were seen."""
        seen = scene_input(image, self.preprocessing).to(self.device)
        features = viewed_features(self.model.eval(), seen, views or self.views)
        return features, (seen.shape[2], seen.shape[3])

    def labels(self, image: Image.Image, *, views: Views | None = None) -> NDArray[np.int16]:
        """The class of each pixel of an RGB image."""
        features, seen = self.features(image, views=views)
        found = self.model.labels(features, (image.height, image.width), seen=seen)
        return found.cpu().numpy().astype(np.int16)

    def segment(
        self, images: ImageLike | Iterable[ImageLike], *, views: Views | None = None
    ) -> list[Segmentation]:
        """What each image shows, pixel by pixel: paths, Pillow images, arrays, tensors.

        An image that cannot be read raises `UnreadableImage`; `segmentations` goes on instead.

        Args:
            images: one or several.
            views: in windows, mirrored, at several scales; None looks as in evaluation.
        """
        made = []
        for one in self.segmentations(several(images), views=views):
            if isinstance(one, UnreadableImage):
                raise one
            made.append(one)
        return made

    def segmentations(
        self, images: Iterable[ImageLike], *, views: Views | None = None
    ) -> Iterator[Segmentation | UnreadableImage]:
        """Segmentations one by one, in order; for an image that cannot be read, the error."""
        for number, image in enumerate(images):
            source = str(image) if isinstance(image, str | Path) else str(number)
            try:
                picture = picture_of(image, source)
            except UnreadableImage as error:
                yield error
            else:
                yield self.segmented(source, picture, views=views)

    def explain(
        self, images: ImageLike | Iterable[ImageLike], *, views: Views | None = None
    ) -> SceneExplanation:
        """Which case has decided each pixel, and the place in a training scene behind it.

        In a notebook the explanation shows itself; `save` writes it as HTML, JSON and PNG.
        """
        named = [
            (str(image) if isinstance(image, str | Path) else str(number), image)
            for number, image in enumerate(several(images))
        ]
        if not named:
            raise InvalidInput("No image came; give one, or several in a list.")
        pictures = [(source, picture_of(image, source)) for source, image in named]
        return SceneExplanation.of(self, pictures, views=views)

    def segmented(
        self, source: str, image: Image.Image, *, views: Views | None = None
    ) -> Segmentation:
        """What an RGB image shows, pixel by pixel."""
        features, seen = self.features(image, views=views)
        size = (image.height, image.width)
        if not self.model.is_dnc:
            labels = self.model.labels(features, size, seen=seen)
            return Segmentation(source, image, _numbers(labels), None, None)
        decision = self.model.decide(features, size, seen=seen)
        return Segmentation(
            source,
            image,
            _numbers(decision.label),
            _numbers(decision.subcentroid),
            decision.similarity.cpu().numpy(),
        )


AnyRecognizer = Recognizer | SceneRecognizer


def _numbers(values: Tensor) -> NDArray[np.int16]:
    return values.cpu().numpy().astype(np.int16)
