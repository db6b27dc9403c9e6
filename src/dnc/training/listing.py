"""Which files a model was made of, and which were set aside, as tables beside it."""

import csv
from pathlib import Path
from typing import TextIO

import torch
from jaxtyping import Int
from torch import Tensor

from dnc.centroids import SubCentroidHead, normalised
from dnc.centroids.update import nearest_rows
from dnc.data import BadFile, DataSplits
from dnc.files import whole_file
from dnc.recognition import Recognizer
from dnc.training.features import Features


def write_listing(splits: DataSplits, path: Path) -> None:
    """Writes which image has which id, label and part: an id leads back to its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished, _table(unfinished) as file:
        table = csv.writer(file)
        table.writerow(["id", "file", "label", "part"])
        for part, images in splits.parts().items():
            for number, name, label in zip(
                images.ids.tolist(), images.names, images.labels.tolist(), strict=True
            ):
                table.writerow([number, name, images.classes[label], part])


def write_set_aside(files: tuple[BadFile, ...], path: Path) -> None:
    """Writes the files that could not be read and why; no file if there are none."""
    if not files:
        return
    with whole_file(path) as unfinished, _table(unfinished) as file:
        table = csv.writer(file)
        table.writerow(["file", "reason"])
        table.writerows((bad.path, bad.reason) for bad in files)


def write_cases(
    recognizer: Recognizer,
    splits: DataSplits,
    features: Features,
    held: Int[Tensor, "c k"],
    path: Path,
) -> None:
    """Writes the training image nearest to each case, and what the case does on training images.

    That is how many it stands for (`held`), how many it decides, and how many of these rightly.
    The features are those that the head sees, centred.
    """
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    decision = head.decide(features.rows.to(head.centroids.device))
    labels = features.labels.to(decision.label)
    won = torch.zeros_like(held, device=labels.device)
    right = torch.zeros_like(won)
    cases, one = (decision.label, decision.subcentroid), torch.ones_like(labels)
    won.index_put_(cases, one, accumulate=True)
    right.index_put_(cases, one * (decision.label == labels), accumulate=True)
    nearest, similarity = nearest_rows(
        head.centroids.cpu(), normalised(features.rows), features.labels
    )
    with whole_file(path) as unfinished, _table(unfinished) as file:
        table = csv.writer(file)
        table.writerow(["case", "file", "similarity", "images", "decides", "rightly"])
        for label, subcentroid in head.occupied.nonzero().tolist():
            row = int(nearest[label, subcentroid])
            table.writerow(
                [
                    recognizer.case_name(label, subcentroid),
                    splits.listing[int(features.ids[row])],
                    round(float(similarity[label, subcentroid]), 6),
                    *(int(counts[label, subcentroid]) for counts in (held, won, right)),
                ]
            )


def read_set_aside(path: Path) -> tuple[BadFile, ...]:
    """What `write_set_aside` wrote; nothing if there is no such file."""
    if not path.is_file():
        return ()
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(BadFile(row["file"], row["reason"]) for row in csv.DictReader(file))


def _table(path: Path) -> TextIO:
    # Names of files need not be text.
    return path.open("w", newline="", encoding="utf-8", errors="backslashreplace")
