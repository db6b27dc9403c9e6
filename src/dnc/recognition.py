"""A trained classifier with all that it takes to look at an image: `dnc.load` gives one."""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from dnc.centroids import SubCentroidHead
from dnc.data import Preprocessing, image_from_array, prepared, read_image
from dnc.data.images import as_rgb, quiet_pillow
from dnc.errors import InvalidInput, UnreadableImage
from dnc.explanation.cases import CaseBase, case_reader
from dnc.explanation.explaining import Explainer
from dnc.explanation.explanation import Explanation
from dnc.models import Centring, Classifier

ImageLike = str | Path | Image.Image | NDArray[Any] | Tensor


@dataclass(frozen=True)
class Prediction:
    """What a classifier says of one image, and the case that made it say so.

    Attributes:
        source: the path, or the position of an image that came without one.
        label: name of the class; None if the image could not be read.
        probability: softmax of the scores at that class.
        case: the sub-centroid that decided, as `class#number`; None for a softmax classifier.
        similarity: cosine of the image to that case.
        margin: how much less similar the best case of another class is.
        rival: that other case.
        error: why the image could not be read.
    """

    source: str
    label: str | None = None
    probability: float | None = None
    case: str | None = None
    similarity: float | None = None
    margin: float | None = None
    rival: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Network:
    """How a network is built again: its name and the settings that shape its parameters."""

    name: str
    size: int
    projection: int | None = None
    centring: Centring = "none"


@dataclass(frozen=True)
class Recognizer:
    """A classifier, the names of its classes, and how images become its input.

    Attributes:
        model: the classifier, in evaluation mode.
        network: how it was built; None for a model that dnc has no name for.
        classes: names, in the order of the scores.
        preprocessing: size, crop and scaling of the images.
        notes: what else is known: recipe, provenance of the data, versions, results.
        cases: the training image behind each sub-centroid, if it is known.
    """

    model: Classifier
    network: Network | None
    classes: tuple[str, ...]
    preprocessing: Preprocessing
    notes: dict[str, Any]
    cases: CaseBase | None = None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def to(self, device: torch.device | str) -> Self:
        """The same recognizer with its model on a device."""
        self.model.to(device)
        return self

    def case_name(self, label: int, subcentroid: int) -> str:
        """The name of a sub-centroid."""
        return f"{self.classes[label]}#{subcentroid}"

    def predict(
        self, images: ImageLike | Iterable[ImageLike], *, batch_size: int = 32
    ) -> list[Prediction]:
        """A prediction for each image: paths, Pillow images, arrays `(h w)` or `(h w 3)`, tensors.

        An image that cannot be read raises `UnreadableImage`; `predictions` goes on instead.
        """
        made = []
        for prediction in self.predictions(several(images), batch_size=batch_size):
            if prediction.error is not None:
                raise UnreadableImage(prediction.source, prediction.error)
            made.append(prediction)
        return made

    def predictions(
        self, images: Iterable[ImageLike], *, batch_size: int = 32
    ) -> Iterator[Prediction]:
        """Predictions one by one, in order; images that cannot be read get an `error`."""
        if batch_size < 1:
            raise InvalidInput(f"batch_size is {batch_size}; it must be at least 1.")
        numbered = enumerate(images)
        with ThreadPoolExecutor(max_workers=4) as readers:
            while batch := list(islice(numbered, batch_size)):
                loaded = list(readers.map(self._load, batch))
                readable = [image for _, image, _ in loaded if image is not None]
                results = iter(self._decided(torch.cat(readable)) if readable else [])
                for source, image, error in loaded:
                    if image is None:
                        yield Prediction(source, error=error)
                    else:
                        yield Prediction(source, **next(results))

    def explain(
        self,
        images: ImageLike | Iterable[ImageLike],
        *,
        data: Path | str | None = None,
        with_maps: bool = True,
    ) -> Explanation:
        """Why each image is given its class: the cases, the rule, and where similarity comes from.

        In a notebook the explanation shows itself; `save` writes it as HTML, JSON and PNG.

        Args:
            images: as for `predict`.
            data: where the training images are now, for maps on the cases; None looks where they
                were when the model was made.
            with_maps: draw similarity maps.
        """
        given = [self._named(number, image) for number, image in enumerate(several(images))]
        if not given:
            raise InvalidInput("No image came; give one, or several in a list.")
        return Explanation.of(self.explainer(data=data), given, with_maps=with_maps)

    def explainer(self, *, data: Path | str | None = None) -> Explainer:
        """What explains the decisions of this model."""
        return Explainer(
            self.model,
            self.classes,
            self.preprocessing,
            cases=self.cases,
            read_case=case_reader(self.cases, None if data is None else Path(data)),
        )

    def _named(self, number: int, image: ImageLike) -> tuple[str, Image.Image]:
        source = str(image) if isinstance(image, str | Path) else str(number)
        return source, picture_of(image, source)

    def _load(self, numbered: tuple[int, ImageLike]) -> tuple[str, Tensor | None, str | None]:
        number, image = numbered
        source = str(image) if isinstance(image, str | Path) else str(number)
        try:
            picture = picture_of(image, source)
            return source, prepared([picture], self.preprocessing), None
        except UnreadableImage as error:
            return source, None, error.reason

    @torch.no_grad()
    def _decided(self, images: Tensor) -> list[dict[str, Any]]:
        model = self.model.eval()
        features = model.features(images.to(self.device, memory_format=torch.channels_last))
        scores = model.head(features).float()
        probability = scores.softmax(dim=1)
        if not isinstance(model.head, SubCentroidHead):
            best = probability.max(dim=1)
            return [
                {"label": self.classes[label], "probability": share}
                for label, share in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
        decision = model.head.decide(features)
        chosen = probability.gather(1, decision.label[:, None])[:, 0]
        columns = [column.tolist() for column in (*vars(decision).values(), chosen)]
        names = [*vars(decision), "probability"]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return [
            {
                "label": self.classes[row["label"]],
                "probability": row["probability"],
                "case": self.case_name(row["label"], row["subcentroid"]),
                "similarity": row["similarity"],
                "margin": row["margin"],
                "rival": self.case_name(row["rival_label"], row["rival_subcentroid"])
                if row["rival_subcentroid"] >= 0
                else None,
            }
            for row in rows
        ]


def several(images: ImageLike | Iterable[ImageLike]) -> Iterable[ImageLike]:
    """One image, a batch of them in a tensor, or several, as several."""
    single = isinstance(images, str | Path | Image.Image) or hasattr(images, "shape")
    if not single and not isinstance(images, Iterable):
        raise InvalidInput(f"{type(images).__name__} came; give an image, or several in a list.")
    if single and getattr(images, "ndim", 3) != 4:
        return [images]  # type: ignore[list-item]
    return list(images) if single else images  # type: ignore[arg-type, return-value]


def picture_of(image: ImageLike, source: str) -> Image.Image:
    """The image as 8-bit RGB, the same whether it comes from its file or from Pillow."""
    if isinstance(image, str | Path):
        return read_image(Path(image))
    if isinstance(image, Image.Image):
        if not (image.width and image.height):
            raise UnreadableImage(source, "it has no pixels")
        try:
            with quiet_pillow():
                return as_rgb(image)
        except Exception as error:  # Pillow decodes late, and lets all sorts through then
            raise UnreadableImage(source, str(error) or type(error).__name__) from error
    if not hasattr(image, "shape"):
        raise InvalidInput(
            f"{type(image).__name__} came as an image; give a path, a Pillow image, an array or a "
            "tensor."
        )
    return image_from_array(image)


def class_map(known_classes: Sequence[str], classes: Sequence[str]) -> list[int]:
    """Number in a recognizer, whose classes are known, of each class of a data set, by name.

    ImageNetV2 numbers its classes in the order of ImageNet's WordNet ids, and is matched so.
    """
    known = {name: number for number, name in enumerate(known_classes)}
    numbered = [str(number) for number in range(len(classes))]
    are_wordnet_ids = all(re.fullmatch(r"n\d{8}", name) for name in known)
    if list(classes) == numbered and len(classes) == len(known) and are_wordnet_ids:
        return list(range(len(classes)))
    unknown = [name for name in classes if name not in known]
    if unknown:
        raise InvalidInput(
            f"The data has {len(unknown)} classes that the model does not know: "
            f"{', '.join(unknown[:5])}{', ...' if len(unknown) > 5 else ''}. It knows "
            f"{', '.join(known_classes[:5])}{', ...' if len(known) > 5 else ''}."
        )
    return [known[name] for name in classes]
