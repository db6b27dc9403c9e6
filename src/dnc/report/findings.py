"""What is worth knowing of a model, found in the decisions it has made."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from dnc.centroids.health import pairwise_cosine
from dnc.data import Images
from dnc.explanation.cases import sha256_of
from dnc.report.looking import Looked


@dataclass(frozen=True)
class CaseRecord:
    """Decisions that each case has made, and how many of them were right."""

    decides: Int[Tensor, "c k"]
    rightly: Int[Tensor, "c k"]

    @classmethod
    def of(cls, looked: Looked, shape: torch.Size) -> "CaseRecord":
        """Counts over the images that were looked at."""
        places = looked.decision.label, looked.decision.subcentroid
        right = (looked.decision.label == looked.labels).long()
        nothing = torch.zeros(shape, dtype=torch.long)
        return cls(
            decides=nothing.index_put(places, torch.ones_like(right), accumulate=True),
            rightly=nothing.index_put(places, right, accumulate=True),
        )


@dataclass(frozen=True)
class MixUp:
    """Two classes of which images of one are taken for the other, and the two cases behind it.

    Attributes:
        true: the class that the images are of.
        given: the class that they were given.
        images: how many.
        of_true: all images of the true class.
        true_case: the case of their own class that is nearest to most of them.
        given_case: the case that most of them were decided by.
        by_these: images that were between just these two cases.
        example: the row that was furthest on the wrong side between these two.
    """

    true: int
    given: int
    images: int
    of_true: int
    true_case: int
    given_case: int
    by_these: int
    example: int


def mix_ups(looked: Looked, *, limit: int) -> list[MixUp]:
    """The most frequent mistakes, most frequent first."""
    given = looked.decision.label
    wrong = (given != looked.labels).nonzero()[:, 0]
    of_class = Counter(looked.labels.tolist())
    pairs = Counter(zip(looked.labels[wrong].tolist(), given[wrong].tolist(), strict=True))
    found = []
    for (true, other), images in sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[
        :limit
    ]:
        rows = wrong[(looked.labels[wrong] == true) & (given[wrong] == other)]
        own, won = looked.own_case[rows].tolist(), looked.decision.subcentroid[rows].tolist()
        cases = Counter(zip(own, won, strict=True))
        (true_case, given_case), by_these = min(cases.items(), key=lambda item: (-item[1], item[0]))
        between = torch.tensor(
            [pair == (true_case, given_case) for pair in zip(own, won, strict=True)]
        )
        gap = (looked.decision.similarity - looked.own_similarity)[rows[between]]
        example = int(rows[between][gap.argmax()])
        found.append(
            MixUp(
                true=true,
                given=other,
                images=images,
                of_true=of_class[true],
                true_case=true_case,
                given_case=given_case,
                by_these=by_these,
                example=example,
            )
        )
    return found


def most_ambiguous(looked: Looked, *, limit: int) -> list[int]:
    """Rows in which the best two classes are nearest to each other."""
    finite = looked.decision.margin.isfinite().nonzero()[:, 0]
    order = looked.decision.margin[finite].argsort(stable=True)
    return [int(row) for row in finite[order[:limit]]]


def label_suspects(looked: Looked) -> tuple[list[int], Float[Tensor, " n"]]:
    """Rows that are nearer to another class's cases than to their own, the furthest first.

    With them, for all rows, by how much the nearest case is nearer than the best of their class.
    """
    gap = looked.decision.similarity - looked.own_similarity
    suspected = (looked.decision.label != looked.labels).nonzero()[:, 0]
    order = gap[suspected].argsort(descending=True, stable=True)
    return [int(row) for row in suspected[order]], gap


@dataclass(frozen=True)
class Leak:
    """An image of the evaluated part that is in the training part too, byte by byte.

    Attributes:
        evaluated: its position there.
        trained: its position among the training images.
    """

    evaluated: int
    trained: int


def leaks(evaluated: Images, trained: Images) -> list[Leak]:
    """Images that are in both; only files of equal size are read."""
    sizes = _sizes(trained)
    by_size = defaultdict(list)
    for position, size in enumerate(sizes):
        by_size[size].append(position)
    digests: dict[int, dict[str, int]] = {}
    found = []
    for position, size in enumerate(_sizes(evaluated)):
        if size < 0 or size not in by_size:
            continue
        if size not in digests:
            known: dict[str, int] = {}
            for other in by_size[size]:
                known.setdefault(_digest(trained, other), other)
            digests[size] = known
        match = digests[size].get(_digest(evaluated, position))
        if match is not None:
            found.append(Leak(position, match))
    return found


def _sizes(images: Images) -> NDArray[np.int64]:
    """Bytes of each file; -1 if it is not there. Arrays are all alike."""
    if images.pixels is not None:
        return np.zeros(len(images), dtype=np.int64)
    sizes = np.full(len(images), -1, dtype=np.int64)
    for position in range(len(images)):
        path = images.path(position)
        assert path is not None
        try:
            sizes[position] = path.stat().st_size
        except OSError:
            continue
    return sizes


def _digest(images: Images, position: int) -> str:
    try:
        return sha256_of(images, position)
    except OSError:
        return f"unreadable {images.root} {images.names[position]}"


@dataclass(frozen=True)
class CaseHealth:
    """What is known of the state of the cases.

    Attributes:
        idle: cases that have decided nothing.
        mostly_wrong: cases that were wrong more often than right.
        sibling: mean cosine between the cases of a class; NaN for a class with fewer than two.
        twins: pairs of cases of one class that are nearly the same, as class and two numbers.
    """

    idle: list[tuple[int, int]]
    mostly_wrong: list[tuple[int, int]]
    sibling: Float[Tensor, " c"]
    twins: list[tuple[int, int, int]]


def case_health(
    p: Float[Tensor, "c k d"],
    occupied: Bool[Tensor, "c k"],
    record: CaseRecord,
    *,
    nearly: float = 0.98,
) -> CaseHealth:
    """The state of the cases, by the decisions they have made and by where they lie."""
    cosine = p @ p.mT
    pair = (occupied[:, :, None] & occupied[:, None, :]).triu(diagonal=1)
    idle = occupied & (record.decides == 0)
    wrong = occupied & (2 * record.rightly < record.decides)
    return CaseHealth(
        idle=[(c, k) for c, k in idle.nonzero().tolist()],
        mostly_wrong=[(c, k) for c, k in wrong.nonzero().tolist()],
        sibling=pairwise_cosine(p, occupied),
        twins=[(c, a, b) for c, a, b in (pair & (cosine > nearly)).nonzero().tolist()],
    )
