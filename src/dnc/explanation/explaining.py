"""From an image to the reasons for its class: features, similarities, cases, rules and maps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from dnc.centroids import normalised, similarities
from dnc.data import Preprocessing, prepared
from dnc.data.preparation import seen_part
from dnc.explanation.cases import Case, CaseBase
from dnc.explanation.evidence import Contender, Evidence, evidence
from dnc.explanation.maps import Seen, covering_map, seen_in
from dnc.explanation.rules import Rules, fulfilled
from dnc.models import Classifier

CaseReader = Callable[[Case], Image.Image | None]


@dataclass(frozen=True)
class PlaceMaps:
    """Where the similarity of a query to a case comes from.

    Attributes:
        on_query: what each place of the query contributes.
        on_case: what each place of the case's image contributes; None where there is no map of it.
        is_exact: whether the contributions add up to the cosine; else they are the approximation
            of `covering_map`.
        case_cosine: cosine of the query to the case's image, which `on_case` adds up to. Where
            sub-centroids are tied to images it is the similarity itself.
        case_square: what the network sees of the case's image.
    """

    on_query: Float[Tensor, "h w"]
    on_case: Float[Tensor, "h w"] | None
    is_exact: bool
    case_cosine: float | None
    case_square: Image.Image | None


@dataclass(frozen=True)
class Explained:
    """One image, the decision on it and the reasons.

    Attributes:
        source: its path, or its position where it came without one.
        square: what the network sees of it.
        evidence: the cases that speak for the decision.
        holding: which rules hold.
        maps: for each contender; empty if none were asked for.
    """

    source: str
    square: Image.Image
    evidence: Evidence
    holding: Bool[Tensor, "c k"]
    maps: tuple[PlaceMaps, ...]

    @property
    def winner(self) -> Contender:
        """The case that has decided."""
        return self.evidence.contenders[0]


class Explainer:
    """Explains the decisions of a classifier; the explanation is the decision itself.

    Args:
        model: a classifier of sub-centroids, in evaluation mode.
        classes: names of its classes.
        preprocessing: how images become its input.
        cases: the training image behind each sub-centroid, if it is known.
        read_case: the whole image of a case, or None if it is not there.

    """

    def __init__(
        self,
        model: Classifier,
        classes: Sequence[str],
        preprocessing: Preprocessing,
        *,
        cases: CaseBase | None,
        read_case: CaseReader,
    ) -> None:
        self.head = model.subcentroid_head
        self.model = model.eval()
        self.classes = tuple(classes)
        self.preprocessing = preprocessing
        self.cases = cases
        self.read_case = read_case
        self.rules = Rules.of(self.head, classes)
        self._seen_cases: dict[Case, tuple[Seen, Image.Image] | None] = {}

    @property
    def is_anchored(self) -> bool:
        """Whether the cases are known to be training images and not means of them."""
        return self.cases is not None and self.cases.is_anchored

    def name(self, label: int, subcentroid: int) -> str:
        """The name of a case."""
        return f"{self.classes[label]}#{subcentroid}"

    def told(self, explained: Explained) -> str:
        """A decision in one line."""
        winner = explained.winner
        case = self.name(winner.label, winner.subcentroid)
        label = self.classes[winner.label]
        return f"{explained.source}: {label}, by {case} ({winner.similarity:.3f})"

    def case_of(self, contender: Contender) -> Case | None:
        """The training image behind a contender, if it is known."""
        if self.cases is None:
            return None
        return self.cases.by_place.get((contender.label, contender.subcentroid))

    @torch.no_grad()
    def explained(
        self, images: Sequence[tuple[str, Image.Image]], *, with_maps: bool = True
    ) -> Iterator[Explained]:
        """The reasons for the class of each image; names and RGB images come in pairs."""
        inputs = prepared([image for _, image in images], self.preprocessing)
        inputs = inputs.to(self.head.centroids.device)
        if with_maps:
            seen = seen_in(self.model, inputs)
        else:
            seen = Seen(normalised(self.model.features(inputs)), None)
        similarity = similarities(seen.features, self.head.centroids)
        holding = fulfilled(similarity, self.head.occupied)
        reasons = evidence(similarity, self.head.occupied, temperature=self.head.temperature)
        for row, ((source, image), reason) in enumerate(zip(images, reasons, strict=True)):
            query = Seen(
                seen.features[row : row + 1],
                None if seen.shares is None else seen.shares[row : row + 1],
            )
            maps: tuple[PlaceMaps, ...] = ()
            if with_maps:
                maps = tuple(
                    self._maps(query, inputs[row], contender) for contender in reason.contenders
                )
            yield Explained(
                source, seen_part(image, self.preprocessing), reason, holding[row], maps
            )

    def rivals(self, explained: Explained) -> list[tuple[int, int]]:
        """All cases of other classes than the one given, the most similar to the image first."""
        others = self.head.occupied.clone()
        others[explained.winner.label] = False
        order = explained.evidence.similarity[others].argsort(descending=True, stable=True)
        return [(c, k) for c, k in others.nonzero()[order].tolist()]

    def rule(self, explained: Explained) -> str:
        """The rule that has decided, with the rivals that came nearest to it."""
        winner = explained.winner
        rule = self.rules.of_case(winner.label, winner.subcentroid)
        return rule.text(rivals=self.rivals(explained))

    def _maps(self, query: Seen, image: Float[Tensor, "3 h w"], contender: Contender) -> PlaceMaps:
        p = self.head.centroids[contender.label, contender.subcentroid]
        of_query = query.map_to(p)
        on_query = covering_map(self.model, image, p) if of_query is None else of_query[0]
        seen_case = self._seen_case(self.case_of(contender))
        if seen_case is None:
            return PlaceMaps(on_query, None, of_query is not None, None, None)
        seen, square = seen_case
        of_case = seen.map_to(query.features[0])
        return PlaceMaps(
            on_query=on_query,
            on_case=None if of_case is None else of_case[0],
            is_exact=of_query is not None,
            case_cosine=float(seen.features[0] @ query.features[0]),
            case_square=square,
        )

    def _seen_case(self, case: Case | None) -> tuple[Seen, Image.Image] | None:
        """What the network sees in the image of a case; each is looked at once."""
        if case is None:
            return None
        if case not in self._seen_cases:
            image = self.read_case(case)
            self._seen_cases[case] = None
            if image is not None:
                inputs = prepared([image], self.preprocessing)
                seen = seen_in(self.model, inputs.to(self.head.centroids.device))
                self._seen_cases[case] = seen, seen_part(image, self.preprocessing)
        return self._seen_cases[case]

    def described(self) -> dict[str, Any]:
        """The model and all its cases, for JSON."""
        cases = []
        for c, k in self.head.occupied.nonzero().tolist():
            case = None if self.cases is None else self.cases.by_place.get((c, k))
            cases.append(
                {
                    "case": self.name(c, k),
                    "class": self.classes[c],
                    "file": None if case is None else case.file,
                    "sha256": None if case is None else case.sha256,
                    "similarity_to_file": None if case is None else case.similarity,
                    "stands_for": None if case is None else case.stands_for,
                    "of_these_right": None if case is None else case.of_these_right,
                }
            )
        return {
            "classes": list(self.classes),
            "temperature": self.head.temperature,
            "cases_are_images": self.is_anchored,
            "cases": cases,
        }

    def to_dict(self, explained: Explained) -> dict[str, Any]:
        """Everything about one decision, for JSON; similarities are in the order of the cases."""
        winner, reason = explained.winner, explained.evidence
        rival = reason.contenders[1] if len(reason.contenders) > 1 else None
        eligible = self.head.occupied
        return {
            "image": explained.source,
            "class": self.classes[winner.label],
            "case": self.name(winner.label, winner.subcentroid),
            "similarity": winner.similarity,
            "probability": reason.probability,
            "margin": reason.margin,
            "rival": None if rival is None else self.name(rival.label, rival.subcentroid),
            "similarities": reason.similarity[eligible].tolist(),
            "evidence": [
                {
                    "class": self.classes[contender.label],
                    "case": self.name(contender.label, contender.subcentroid),
                    "similarity": contender.similarity,
                    "normalised_similarity": contender.share,
                }
                for contender in reason.contenders
            ],
            "rule": self.rule(explained),
            "rules_that_hold": [self.name(c, k) for c, k in explained.holding.nonzero().tolist()],
            "maps": [
                {
                    "case": self.name(contender.label, contender.subcentroid),
                    "adds_up_to_similarity": maps.is_exact,
                    "on_query": maps.on_query.tolist(),
                    "on_case": None if maps.on_case is None else maps.on_case.tolist(),
                    "similarity_to_file": maps.case_cosine,
                }
                for contender, maps in zip(reason.contenders, explained.maps, strict=False)
            ],
        }
