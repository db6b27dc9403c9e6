"""What a model that was trained on coarse classes has found of the finer ones."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from matplotlib.figure import Figure
from torch import Tensor

from dnc.centroids import SubCentroidHead, normalised, similarity_to_own_class
from dnc.data import Images
from dnc.data.pictures import Strip, strips_figure
from dnc.errors import InvalidData
from dnc.evaluation.discovery import Match, induction_accuracy, match
from dnc.evaluation.writing import write_folder
from dnc.recognition import Recognizer, class_map
from dnc.training.features import Features, features_of

MOST_STRIPS, COLUMNS, MOST_NAMES = 48, 8, 3


@dataclass(frozen=True)
class Discovery:
    """What of the finer classes was found.

    Attributes:
        classes: how many finer classes the images have.
        induction: share of images that have the finer class of their nearest training image.
        match: of the sub-centroids with the finer classes; None for a model without them.
    """

    classes: int
    induction: float
    match: Match | None

    def figures(self) -> dict[str, float | None]:
        """The figures, by name."""
        return {"induction": self.induction, **({} if self.match is None else asdict(self.match))}


@dataclass(frozen=True)
class Discovered:
    """A discovery and the images that it is of, to be drawn; labels are those of the model."""

    discovery: Discovery
    recognizer: Recognizer
    images: Images
    features: Features
    subcentroid: Int[Tensor, " n"] | None

    def write(self, folder: Path) -> None:
        """Writes the figures, the finer classes of each case, and a picture of them."""
        tables, pictures = {}, {}
        if self.subcentroid is not None:
            header = ("case", "finer class", "images")
            tables["finer-classes.csv"] = [header, *self._counts()]
            pictures["finer-classes.png"] = self.figure()
        figures = {"classes": self.discovery.classes, **self.discovery.figures()}
        write_folder(folder, figures=figures, tables=tables, pictures=pictures)

    def figure(self) -> Figure:
        """Images that each case holds, the nearest first, with the finer classes among them."""
        head = self.recognizer.model.head
        assert isinstance(head, SubCentroidHead)
        places = [(c, k) for c, k in head.occupied.nonzero().tolist() if len(self._held(c, k))]
        shown = places[:: max(1, -(-len(places) // MOST_STRIPS))]
        title = "What each case holds, the nearest first, and the finer classes of all of it"
        if len(shown) < len(places):
            title += f"; {len(shown)} of {len(places):,} cases"
        place_of = {number: i for i, number in enumerate(self.images.ids.tolist())}
        strips = []
        for c, k in shown:
            held = self._held(c, k)
            rows = normalised(self.features.rows[held])
            order = (rows @ head.centroids[c, k].cpu()).argsort(descending=True)[:COLUMNS]
            positions = [place_of[number] for number in self.features.ids[held[order]].tolist()]
            strips.append(Strip(self.recognizer.case_name(c, k), self._told(held), positions))
        return strips_figure(self.images, strips, title)

    def _held(self, label: int, k: int) -> Int[Tensor, " m"]:
        assert self.subcentroid is not None
        return ((self.features.labels == label) & (self.subcentroid == k)).nonzero()[:, 0]

    def _finer(self, rows: Int[Tensor, " m"]) -> list[tuple[str, int]]:
        """The finer classes among some of the images, the most frequent first."""
        found = fine_labels(self.images, self.features)[rows]
        counts = torch.bincount(found, minlength=len(self.images.fine_classes))
        order = counts.argsort(descending=True, stable=True).tolist()
        return [(self.images.fine_classes[i], int(counts[i])) for i in order if counts[i]]

    def _told(self, rows: Int[Tensor, " m"]) -> str:
        finer = self._finer(rows)
        parts = [
            f"{name.rpartition('/')[2]} ({100 * count / len(rows):.0f} %)"
            for name, count in finer[:MOST_NAMES]
        ]
        more = f", {len(finer) - MOST_NAMES} more" if len(finer) > MOST_NAMES else ""
        return f"{len(rows):,} images: {', '.join(parts)}{more}"

    def _counts(self) -> list[tuple[str, str, int]]:
        head = self.recognizer.model.head
        assert isinstance(head, SubCentroidHead)
        return [
            (self.recognizer.case_name(c, k), name, count)
            for c, k in head.valid.nonzero().tolist()
            for name, count in self._finer(self._held(c, k))
        ]


def discovered(
    recognizer: Recognizer,
    bank: Images,
    images: Images,
    *,
    bank_features: Features | None = None,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Discovered:
    """What a model has found of the finer classes of images.

    Args:
        recognizer: trained on coarse classes.
        bank: training images, among which the nearest is looked for.
        images: to be recognised; they need not have all of the classes.
        bank_features: of the training images, where they are there already.
        workers: processes that read images.
        on_progress: is told how many images are done, of how many.

    """
    for part in (bank, images):
        if part.fine_labels is None:
            raise InvalidData(
                f"{part.root} has no classes finer than those of the model. A model of coarse "
                "classes is made by `dnc train --set data.coarse=...` or `dnc fit --coarse ...`; "
                "its images are labelled with the finer ones."
            )

    def seen(part: Images) -> Features:
        found = features_of(
            recognizer.model,
            part,
            recognizer.preprocessing,
            cache=None,
            workers=workers,
            on_progress=on_progress,
        )
        numbers = torch.tensor(class_map(recognizer.classes, part.classes))
        return replace(found, labels=numbers[found.labels])

    known, queries = bank_features or seen(bank), seen(images)
    fine = fine_labels(images, queries)
    induction = induction_accuracy(
        queries.rows, _numbers_in(bank, images)[fine], known.rows, fine_labels(bank, known)
    )
    head = recognizer.model.head
    found, subcentroid = None, None
    if isinstance(head, SubCentroidHead):
        p, eligible = head.centroids.cpu(), head.occupied.cpu()[queries.labels]
        own = similarity_to_own_class(normalised(queries.rows), queries.labels, p)
        subcentroid = own.masked_fill(~eligible, -torch.inf).argmax(dim=1)
        found = match(queries.labels, fine, subcentroid)
    discovery = Discovery(len(set(fine.tolist())), induction, found)
    return Discovered(discovery, recognizer, images, queries, subcentroid)


def _numbers_in(bank: Images, images: Images) -> Int[Tensor, " f"]:
    """Number in the bank of each finer class of the images; -1, which none has, if it has no such.

    Parts of one data set number them alike, and others need not.
    """
    number = {name: i for i, name in enumerate(bank.fine_classes)}
    return torch.tensor([number.get(name, -1) for name in images.fine_classes])


def fine_labels(images: Images, features: Features) -> Int[Tensor, " n"]:
    """The finer class of each row; images that could not be read have none."""
    assert images.fine_labels is not None
    order = np.argsort(images.ids)
    places = order[np.searchsorted(images.ids[order], features.ids.numpy())]
    return torch.from_numpy(images.fine_labels[places])
