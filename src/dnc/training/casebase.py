"""Makes the case base of a model from its training images, and keeps it in the checkpoint."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from dnc.centroids import SubCentroidHead, normalised, similarity_to_own_class
from dnc.data import DataSplits, Images, Preprocessing, Scenes
from dnc.data.preparation import seen_part
from dnc.errors import InvalidCheckpoint, UnreadableImage
from dnc.explanation.anchors import anchors
from dnc.explanation.cases import Case, CaseBase, sha256_of, shown_name, thumbnail
from dnc.files import whole_file
from dnc.recognition import Recognizer
from dnc.scene_recognition import AnyRecognizer
from dnc.training.features import Features
from dnc.training.state import read_json

CASES = "cases.json"
PLACE = ("row", "column")


def with_cases(recognizer: Recognizer, splits: DataSplits, features: Features) -> Recognizer:
    """The recognizer with its case base.

    Args:
        recognizer: a model of sub-centroids.
        splits: the data that it was made from.
        features: of its training images, or of some if there are very many, as the head sees them.
    """
    assert splits.train is not None
    return replace(recognizer, cases=case_base(recognizer, splits.train, features, splits.kind))


@torch.no_grad()
def case_base(recognizer: Recognizer, images: Images, features: Features, kind: str) -> CaseBase:
    """The training image behind each sub-centroid, and what the sub-centroid does with the rest."""
    head = recognizer.model.head
    assert isinstance(head, SubCentroidHead)
    position = dict(zip(images.ids.tolist(), range(len(images)), strict=True))
    cases = []
    for found in found_cases(head, features):
        place = position[found.id]
        cases.append(
            found.case(
                image=found.id,
                file=shown_name(images.names[place]),
                sha256=digest_of(images, place),
                thumbnail=_thumbnail(images, place, recognizer.preprocessing),
            )
        )
    root = shown_name(str(images.root.absolute()))
    return CaseBase(head.is_anchored, root, kind, tuple(cases))


@dataclass(frozen=True)
class FoundCase:
    """A sub-centroid, the id of what stands for it, and what is known of it."""

    label: int
    subcentroid: int
    id: int
    similarity: float
    counts: dict[str, int]

    def case(
        self,
        *,
        image: int,
        file: str,
        sha256: str | None,
        thumbnail: str | None,
        at: tuple[int, int] | None = None,
    ) -> Case:
        """The case, with where it is to be found."""
        return Case(
            label=self.label,
            subcentroid=self.subcentroid,
            image=image,
            file=file,
            sha256=sha256,
            similarity=self.similarity,
            **self.counts,
            thumbnail=thumbnail,
            at=at,
        )


def found_cases(head: SubCentroidHead, features: Features) -> list[FoundCase]:
    """What stands for each sub-centroid: what it is tied to, or else the nearest row."""
    if head.is_anchored:
        ids, similarity = head.ties.ids.cpu(), head.ties.similarity.cpu()
    else:
        device = head.centroids.device
        nearest = anchors(head, features.rows.to(device), features.labels.to(device))
        ids = torch.where(nearest.row >= 0, features.ids[nearest.row.clamp(min=0)], -1)
        similarity = nearest.similarity
    counts = vars(Counts.of(head, features))
    return [
        FoundCase(
            c,
            k,
            int(ids[c, k]),
            round(float(similarity[c, k]), 6),
            {name: int(numbers[c, k]) for name, numbers in counts.items()},
        )
        for c, k in (head.occupied.cpu() & (ids >= 0)).nonzero().tolist()
    ]


@dataclass(frozen=True)
class Counts:
    """What each sub-centroid does with training images; the attributes are those of a `Case`."""

    stands_for: Int[Tensor, "c k"]
    of_these_right: Int[Tensor, "c k"]
    decides: Int[Tensor, "c k"]
    rightly: Int[Tensor, "c k"]

    @classmethod
    def of(cls, head: SubCentroidHead, features: Features) -> "Counts":
        """Counts over the images that these features are of."""
        device = head.centroids.device
        x, labels = normalised(features.rows.to(device)), features.labels.to(device)
        decision = head.decide(x)
        right = decision.label == labels
        own = similarity_to_own_class(x, labels, head.centroids)
        nearest = own.masked_fill(~head.occupied[labels], -torch.inf).argmax(dim=1)

        def counted(classes: Tensor, places: Tensor, chosen: Tensor) -> Tensor:
            counts = torch.zeros_like(head.held)
            return counts.index_put_((classes, places), chosen.long(), accumulate=True).cpu()

        has_case = head.occupied.any(dim=1)[labels]
        return cls(
            stands_for=counted(labels, nearest, has_case),
            of_these_right=counted(labels, nearest, right & has_case),
            decides=counted(decision.label, decision.subcentroid, torch.ones_like(right)),
            rightly=counted(decision.label, decision.subcentroid, right),
        )


def write_case_base(cases: CaseBase, folder: Path) -> None:
    """Writes it into the folder of a checkpoint."""
    (folder / CASES).write_text(cases.to_json() + "\n", encoding="utf-8")


def read_case_base(folder: Path, *, occupied: Bool[Tensor, "c k"] | None) -> CaseBase | None:
    """The case base of a checkpoint; None if it has none.

    Args:
        folder: of the checkpoint.
        occupied: which sub-centroids can win; None for a model that has none.
    """
    file = folder / CASES
    if not file.is_file():
        return None
    cases = CaseBase.from_tree(read_json(file), where=file)
    known = set() if occupied is None else set(map(tuple, occupied.nonzero().tolist()))
    strange = [place for place in cases.by_place if place not in known]
    if strange:
        raise InvalidCheckpoint(
            f"{file} has a case for sub-centroid {strange[0][1]} of class {strange[0][0]}, which "
            "the model has not. Do the files belong together?"
        )
    return cases


def write_case_table(recognizer: AnyRecognizer, path: Path) -> None:
    """Writes the case base as a table, without the pictures."""
    assert recognizer.cases is not None
    columns = ("similarity", "stands_for", "of_these_right", "decides", "rightly", "sha256")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        is_of_scenes = any(case.at is not None for case in recognizer.cases.cases)
        table.writerow(["case", "class", "file", *PLACE * is_of_scenes, *columns])
        for case in recognizer.cases.cases:
            name = recognizer.case_name(case.label, case.subcentroid)
            of_class = recognizer.classes[case.label]
            place = (case.at or ("", "")) if is_of_scenes else ()
            values = (getattr(case, column) for column in columns)
            table.writerow([name, of_class, case.file, *place, *values])


def digest_of(images: Images | Scenes, position: int) -> str | None:
    """The SHA-256 of an image's file; None if it cannot be read any more."""
    try:
        return sha256_of(images, position)
    except OSError:
        return None


def _thumbnail(images: Images, position: int, preprocessing: Preprocessing) -> str | None:
    """A small picture of what the network sees of an image."""
    try:
        image = images.read(position, shorter_side=preprocessing.resize)
        return thumbnail(seen_part(image, preprocessing))
    except UnreadableImage:
        return None
