"""Two models side by side: which cases came, went and moved, and which decisions changed."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from dnc.errors import InvalidModel
from dnc.explanation.cases import Case
from dnc.recognition import Recognizer
from dnc.report.looking import Looked

# Of the images that two cases stand for, what they must share to be one case that moved.
LEAST_SHARED = 0.1


@dataclass(frozen=True)
class CasePair:
    """What became of a case.

    Attributes:
        before: class and number in the first model; None if it came.
        after: likewise in the second; None if it went.
        shared: of the images that either stands for, the share that both do.
        same_image: whether the same training image is behind both.
    """

    before: tuple[int, int] | None
    after: tuple[int, int] | None
    shared: float
    same_image: bool

    @property
    def what(self) -> str:
        """came, went, stayed or moved (another image in its place)."""
        if self.before is None:
            return "came"
        if self.after is None:
            return "went"
        return "stayed" if self.same_image else "moved"


@dataclass(frozen=True)
class Changes:
    """Decisions of which the class has changed; rows of images that both models have looked at.

    Attributes:
        mended: wrong before, right now.
        broken: right before, wrong now.
        otherwise: wrong before and now, but not in the same way.
        other_case: given the same class, by a case that is no longer the same image.
    """

    mended: list[int]
    broken: list[int]
    otherwise: list[int]
    other_case: int


def require_comparable(one: Recognizer, other: Recognizer) -> None:
    """Refuses models that do not have the same classes."""
    if one.classes != other.classes:
        gone = [name for name in one.classes if name not in other.classes]
        new = [name for name in other.classes if name not in one.classes]
        told = "; ".join(
            f"{what} {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}"
            for what, names in (("only the first has", gone), ("only the second has", new))
            if names
        )
        raise InvalidModel(
            f"The models do not have the same classes ({told or 'the order differs'}), so their "
            "decisions cannot be compared."
        )


def paired_cases(
    recognizers: tuple[Recognizer, Recognizer], looked: tuple[Looked, Looked]
) -> list[CasePair]:
    """Pairs cases of the same class that stand for the same images, as well as that can be done."""
    before, after = (_standing(one, of) for one, of in zip(recognizers, looked, strict=True))
    pairs = []
    for c in range(len(recognizers[0].classes)):
        olds, news = ([place for place in places if place[0] == c] for places in (before, after))
        shared = np.array(
            [[_shared(before[old], after[new]) for new in news] for old in olds]
        ).reshape(len(olds), len(news))
        same = np.array(
            [[_same_image(recognizers, old, new) for new in news] for old in olds], dtype=bool
        ).reshape(len(olds), len(news))
        # A case that is still the same image is the same case, whatever it stands for now.
        chosen = linear_sum_assignment(shared + 2 * same, maximize=True)
        left, right = set(olds), set(news)
        for i, j in zip(*chosen, strict=True):
            # Where neither stands for any of these images, nothing says that they are two.
            is_unseen = not (before[olds[i]] or after[news[j]])
            if same[i, j] or shared[i, j] >= LEAST_SHARED or is_unseen:
                pairs.append(CasePair(olds[i], news[j], float(shared[i, j]), bool(same[i, j])))
                left.discard(olds[i])
                right.discard(news[j])
        pairs += [CasePair(old, None, 0.0, False) for old in sorted(left)]
        pairs += [CasePair(None, new, 0.0, False) for new in sorted(right)]
    return pairs


def changed_decisions(before: Looked, after: Looked, pairs: list[CasePair]) -> Changes:
    """The decisions on images that both models could read."""
    rows, others = common_rows(before, after)
    truth = before.labels[rows]
    old, new = before.decision.label[rows], after.decision.label[others]
    stayed = {pair.before: pair.after for pair in pairs if pair.what == "stayed"}

    def chosen(which: Bool[Tensor, " n"]) -> list[int]:
        return [int(row) for row in rows[which]]

    same_class = (old == new).nonzero()[:, 0].tolist()
    other_case = 0
    for i in same_class:
        was = int(old[i]), int(before.decision.subcentroid[rows[i]])
        now = int(new[i]), int(after.decision.subcentroid[others[i]])
        other_case += stayed.get(was) != now
    return Changes(
        mended=chosen((old != truth) & (new == truth)),
        broken=chosen((old == truth) & (new != truth)),
        otherwise=chosen((old != new) & (old != truth) & (new != truth)),
        other_case=other_case,
    )


def common_rows(before: Looked, after: Looked) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Rows of the images that both models have looked at."""
    row_of = {int(position): row for row, position in enumerate(after.position)}
    both = [
        (row, row_of[int(position)])
        for row, position in enumerate(before.position)
        if int(position) in row_of
    ]
    rows = torch.tensor(both, dtype=torch.long).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def _standing(recognizer: Recognizer, looked: Looked) -> dict[tuple[int, int], set[int]]:
    """The images of its class that each case is nearest to, of those of the class."""
    occupied = recognizer.model.subcentroid_head.occupied.nonzero().tolist()
    places: dict[tuple[int, int], set[int]] = {(c, k): set() for c, k in occupied}
    for row, (c, k) in enumerate(
        zip(looked.labels.tolist(), looked.own_case.tolist(), strict=True)
    ):
        if (c, k) in places:
            places[c, k].add(int(looked.position[row]))
    return places


def _shared(one: set[int], other: set[int]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 0.0


def _same_image(
    recognizers: tuple[Recognizer, Recognizer], old: tuple[int, int], new: tuple[int, int]
) -> bool:
    one, other = (
        _known(recognizer, place) for recognizer, place in zip(recognizers, (old, new), strict=True)
    )
    if one is None or other is None:
        return False
    if one.sha256 is not None and other.sha256 is not None:
        return one.sha256 == other.sha256
    return one.file == other.file


def _known(recognizer: Recognizer, place: tuple[int, int]) -> Case | None:
    return None if recognizer.cases is None else recognizer.cases.by_place.get(place)
