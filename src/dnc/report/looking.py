"""What a model makes of labelled images: every decision, with the cases that made it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from dnc.centroids import (
    Decision,
    SubCentroidHead,
    class_scores,
    normalised,
    similarities,
    similarity_to_own_class,
)
from dnc.centroids.similarity import query_blocks
from dnc.data import Images
from dnc.errors import UnreadableImage
from dnc.evaluation import Evaluation, Tally
from dnc.explanation.pages import Shown
from dnc.recognition import Recognizer, class_map
from dnc.training.features import Features, features_of


@dataclass(frozen=True, eq=False)
class Looked:
    """Images of one part of a data set, and what a model makes of them.

    Attributes:
        part: train, validation or test.
        images: the images themselves.
        position: of each row in `images`; those that cannot be read have no row.
        x: features of length 1.
        labels: the true class of each, by the model's numbers.
        decision: the model's.
        own_case: the nearest case of the true class.
        own_similarity: cosine to it; -inf if the class has no case.
    """

    part: str
    images: Images
    position: NDArray[np.int64]
    x: Float[Tensor, "n d"]
    labels: Int[Tensor, " n"]
    decision: Decision
    own_case: Int[Tensor, " n"]
    own_similarity: Float[Tensor, " n"]

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        head: SubCentroidHead,
        part: str,
        images: Images,
        features: Features,
        numbers: Int[Tensor, " c"],
    ) -> "Looked":
        """Decides on features; `numbers` are the model's, of the classes that the images have."""
        places = dict(zip(images.ids.tolist(), range(len(images)), strict=True))
        x, labels = normalised(features.rows), numbers[features.labels]
        p, occupied = head.centroids.cpu(), head.occupied.cpu()
        device = head.centroids.device
        decision = Decision(
            **{name: value.cpu() for name, value in vars(head.decide(x.to(device))).items()}
        )
        own = similarity_to_own_class(x, labels, p)
        nearest = own.masked_fill(~occupied[labels], -torch.inf).max(dim=1)
        return cls(
            part=part,
            images=images,
            position=np.array([places[number] for number in features.ids.tolist()], dtype=np.int64),
            x=x,
            labels=labels,
            decision=decision,
            own_case=nearest.indices,
            own_similarity=nearest.values,
        )

    def __len__(self) -> int:
        """How many images could be looked at."""
        return len(self.labels)

    def name(self, row: int) -> str:
        """The name of an image."""
        return self.images.names[int(self.position[row])]

    def picture(self, row: int, *, side: int = 112) -> Shown:
        """The image, small."""
        try:
            image = self.images.read(int(self.position[row]), shorter_side=side)
        except UnreadableImage:
            return Shown(None)
        return Shown.of(image, side=side)

    def evaluation(self, head: SubCentroidHead, classes: tuple[str, ...]) -> Evaluation:
        """Accuracy, calibration and confusion."""
        tally = Tally(len(classes))
        p, occupied = head.centroids.cpu(), head.occupied.cpu()
        rows = query_blocks(self.x, p)
        for x, labels in zip(rows, self.labels.split(len(rows[0])), strict=True):
            tally.add(class_scores(similarities(x, p), occupied) / head.temperature, labels)
        return tally.result(classes)


def looked_at(
    recognizer: Recognizer,
    part: str,
    images: Images,
    *,
    workers: int | None = None,
    cache: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Looked:
    """Lets a model look at images."""
    head = recognizer.model.subcentroid_head
    features = features_of(
        recognizer.model,
        images,
        recognizer.preprocessing,
        cache=cache,
        workers=workers,
        on_progress=on_progress,
    )
    numbers = torch.tensor(class_map(recognizer.classes, images.classes))
    return Looked.of(head, part, images, features, numbers)
