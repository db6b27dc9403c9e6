"""The decision as rules that can be read, evaluated and checked, one for each case."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dnc.centroids import SubCentroidHead, class_scores, normalised, similarities
from dnc.errors import InvalidFeatures, InvalidInput, NothingAbsorbed

NAMED_RIVALS = 3
ROWS_AT_A_TIME = 512


def fulfilled(
    similarity: Float[Tensor, "n c k"], eligible: Bool[Tensor, "c k"]
) -> Bool[Tensor, "n c k"]:
    """Which rules hold: a case is more similar than every case of every other class.

    Of equal similarities the class with the lower number has it, as in every decision; so exactly
    one class has rules that hold.
    """
    scores = class_scores(similarity, eligible)
    nothing = torch.full_like(scores[:, :1], -torch.inf)
    before = torch.cat([nothing, scores.cummax(dim=1).values[:, :-1]], dim=1)
    after = torch.cat([nothing, scores.flip(1).cummax(dim=1).values[:, :-1]], dim=1).flip(1)
    return eligible & (similarity > before[..., None]) & (similarity >= after[..., None])


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules of a model: *IF* nearer to a case than to every case of other classes *THEN* class.

    Attributes:
        centroids: the sub-centroids.
        eligible: those that can win.
        classes: names of the classes.
    """

    centroids: Float[Tensor, "c k d"]
    eligible: Bool[Tensor, "c k"]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, head: SubCentroidHead, classes: Sequence[str]) -> "Rules":
        """The rules of a head as it is now."""
        if not head.occupied.any():
            raise NothingAbsorbed("No row was absorbed yet, so there are no cases to have rules.")
        return cls(head.centroids.detach().clone(), head.occupied.clone(), tuple(classes))

    def holding(self, features: Float[Tensor, "n d"]) -> Bool[Tensor, "n c k"]:
        """Which of all rules hold for features of any length."""
        dim = self.centroids.shape[2]
        if features.ndim != 2 or features.shape[1] != dim:
            raise InvalidFeatures(
                f"Features have shape {tuple(features.shape)}; these rules are for rows (n, {dim})."
            )
        similarity = similarities(normalised(features.detach()), self.centroids)
        return fulfilled(similarity, self.eligible)

    def predicted(self, features: Float[Tensor, "n d"]) -> Int[Tensor, " n"]:
        """The class whose rule holds for each row."""
        return self.holding(features).any(dim=2).long().argmax(dim=1)

    def nearest_rivals(self, number: int) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Of every case the cases of other classes that are nearest to it, nearest first."""
        places = self.eligible.nonzero()
        p = self.centroids[self.eligible]
        found = {}
        for begin in range(0, len(p), ROWS_AT_A_TIME):
            some = places[begin : begin + ROWS_AT_A_TIME]
            cosine = p[begin : begin + ROWS_AT_A_TIME] @ p.T
            cosine.masked_fill_(some[:, :1] == places[:, 0], -torch.inf)
            nearest = cosine.topk(min(number, len(p)), dim=1)
            for case, which, values in zip(
                some.tolist(), nearest.indices, nearest.values, strict=True
            ):
                of_others = which[values > -torch.inf]
                found[case[0], case[1]] = [(c, k) for c, k in places[of_others].tolist()]
        return found

    def of_case(self, name_or_number: str | int, subcentroid: int) -> "CaseRule":
        """The rule of one case of a class."""
        label = self._number(name_or_number)
        if not (0 <= subcentroid < self.eligible.shape[1] and self.eligible[label, subcentroid]):
            numbers = ", ".join(map(str, self.eligible[label].nonzero()[:, 0].tolist()))
            raise InvalidInput(
                f"{self.classes[label]} has no case {subcentroid}; it has {numbers or 'none'}."
            )
        return CaseRule(self, label, subcentroid)

    def _number(self, name_or_number: str | int) -> int:
        if isinstance(name_or_number, str) and name_or_number in self.classes:
            return self.classes.index(name_or_number)
        if isinstance(name_or_number, int) and 0 <= name_or_number < len(self.classes):
            return name_or_number
        names = ", ".join(self.classes[:5]) + (", ..." if len(self.classes) > 5 else "")
        raise InvalidInput(
            f"There is no class {name_or_number!r}; use a number from 0 to "
            f"{len(self.classes) - 1}, or a name: {names}."
        )

    def of_class(self, name_or_number: str | int) -> "ClassRule":
        """The rule of a class: those of its cases, joined by OR."""
        label = self._number(name_or_number)
        places = self.eligible[label].nonzero()[:, 0].tolist()
        return ClassRule(label, self.classes[label], tuple(self.of_case(label, k) for k in places))


@dataclass(frozen=True, eq=False)
class CaseRule:
    """*IF* the query is more similar to a case than to every case of every other class *THEN*."""

    rules: Rules
    label: int
    subcentroid: int

    @property
    def case(self) -> str:
        """Name of the case."""
        return f"{self.rules.classes[self.label]}#{self.subcentroid}"

    def holds(self, features: Float[Tensor, "n d"]) -> Bool[Tensor, " n"]:
        """Whether it holds for each row of features of any length."""
        return self.rules.holding(features)[:, self.label, self.subcentroid]

    def rivals(self) -> list[tuple[int, int]]:
        """All cases of other classes, as class and number; those that are nearest to this first."""
        p, eligible = self.rules.centroids, self.rules.eligible.clone()
        eligible[self.label] = False
        cosine = torch.einsum("ckd,d->ck", p, p[self.label, self.subcentroid])
        places = eligible.nonzero()
        order = cosine[eligible].argsort(descending=True, stable=True)
        return [(c, k) for c, k in places[order].tolist()]

    def text(
        self, *, named: int = NAMED_RIVALS, rivals: Sequence[tuple[int, int]] | None = None
    ) -> str:
        """The rule as a sentence; of many rivals those that matter most, and how many more.

        Args:
            named: how many rivals are named.
            rivals: all of them in another order, say by their similarity to a query.
        """
        rivals = self.rivals() if rivals is None else rivals
        if not rivals:
            return f"IF anything is asked THEN {self.rules.classes[self.label]} (the only class)"
        shown = [f"{self.rules.classes[c]}#{k}" for c, k in rivals[:named]]
        rest = len(rivals) - len(shown)
        if rest:
            shown.append(f"{rest:,} other {'cases' if rest > 1 else 'case'} of other classes")
        return (
            f"IF the image is more similar to {self.case} than to {_joined(shown)} "
            f"THEN {self.rules.classes[self.label]}"
        )


@dataclass(frozen=True)
class ClassRule:
    """The rule of a class: one of the rules of its cases holds."""

    label: int
    name: str
    cases: tuple[CaseRule, ...]

    def holds(self, features: Float[Tensor, "n d"]) -> Bool[Tensor, " n"]:
        """Whether it holds for each row of features of any length."""
        if not self.cases:
            return torch.zeros(len(features), dtype=torch.bool, device=features.device)
        return self.cases[0].rules.holding(features)[:, self.label].any(dim=1)

    def text(self, *, named: int = NAMED_RIVALS) -> str:
        """All of its rules, one on a line."""
        if not self.cases:
            return f"{self.name} has no case and is never the answer"
        return "\nOR ".join(rule.text(named=named) for rule in self.cases)


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
