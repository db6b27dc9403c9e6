"""Pages: one HTML file each, complete in itself, everything in it escaped."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from dnc import __version__
from dnc.centroids import class_scores
from dnc.explanation.cases import SMALL, Case, encoded, thumbnail
from dnc.explanation.evidence import Contender
from dnc.explanation.explaining import Explained, Explainer, PlaceMaps
from dnc.explanation.overlays import overlay
from dnc.explanation.rules import NAMED_RIVALS

TEMPLATES = Path(__file__).with_name("templates")
SCORES_SHOWN = 10
QUERY_SIDE = 320


@dataclass(frozen=True)
class Shown:
    """A picture on a page: a data URI, or None where there is no picture."""

    uri: str | None
    width: int | None = None
    height: int | None = None
    is_small: bool = False

    @classmethod
    def of(cls, image: Image.Image | None, *, side: int) -> "Shown":
        """A picture of an image, scaled down to a side if it is larger."""
        if image is None:
            return cls(None)
        scale = min(1.0, side / max(image.size))
        width, height = (max(1, round(length * scale)) for length in image.size)
        return cls(thumbnail(image, side=side), width, height, max(image.size) <= SMALL)

    @classmethod
    def of_case(cls, case: Case | None) -> "Shown":
        """The thumbnail of a case."""
        if case is None or case.thumbnail is None:
            return cls(None)
        return cls(case.thumbnail, is_small=case.thumbnail.startswith("data:image/png"))


def explanation_page(explainer: Explainer, explained: Sequence[Explained]) -> str:
    """Decisions and their reasons as a page; no script, nothing that is loaded from elsewhere."""
    cases = explainer.cases
    return rendered(
        "explanation.html",
        styles=("base.css", "explanation.css"),
        images=[_image(explainer, one) for one in explained],
        cases=int(explainer.head.occupied.sum()),
        classes=int(explainer.head.occupied.any(dim=1).sum()),
        is_anchored=explainer.is_anchored,
        has_cases=cases is not None,
        temperature=f"{explainer.head.temperature:.4g}",
    )


def rendered(template: str, *, styles: Sequence[str], **context: Any) -> str:
    """A template filled in; whatever comes from outside is escaped."""
    page = environment()
    css = "\n".join(page.get_template(name).render() for name in styles)
    filled = page.get_template(template)
    return filled.render(styles=Markup(css), version=__version__, **context)


@functools.cache
def environment() -> Environment:
    """Templates in which every value is escaped and a missing one is an error."""
    return Environment(
        loader=FileSystemLoader([TEMPLATES, TEMPLATES.parents[1] / "report" / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _image(explainer: Explainer, one: Explained) -> dict[str, Any]:
    winner, reason = one.winner, one.evidence
    return {
        "source": one.source,
        "class_name": explainer.classes[winner.label],
        "query": Shown.of(one.square, side=QUERY_SIDE),
        "margin": reason.margin,
        "probability": reason.probability,
        "case": explainer.case_of(winner),
        "contenders": [_contender(explainer, contender) for contender in reason.contenders],
        "maps": [
            _map(explainer, one, contender, maps)
            for contender, maps in zip(reason.contenders, one.maps, strict=False)
        ],
        "rule": _rule(explainer, one),
        "scores": _scores(explainer, one),
    }


def _contender(explainer: Explainer, contender: Contender) -> dict[str, Any]:
    return {
        "case": explainer.name(contender.label, contender.subcentroid),
        "similarity": contender.similarity,
        "share": contender.share,
        "picture": Shown.of_case(explainer.case_of(contender)),
    }


def _map(
    explainer: Explainer, one: Explained, contender: Contender, maps: PlaceMaps
) -> dict[str, Any]:
    on_case = None
    if maps.on_case is not None and maps.case_square is not None:
        on_case = encoded(overlay(maps.case_square, maps.on_case), "JPEG")
    return {
        "case": explainer.name(contender.label, contender.subcentroid),
        "is_exact": maps.is_exact,
        "similarity": contender.similarity,
        "sum": float(maps.on_query.sum()),
        "case_sum": None if maps.on_case is None else float(maps.on_case.sum()),
        "largest": float(maps.on_query.abs().amax()),
        "on_query": Shown(encoded(overlay(one.square, maps.on_query), "JPEG")),
        "on_case": Shown(on_case),
    }


def _rule(explainer: Explainer, one: Explained) -> dict[str, Any]:
    winner = one.winner
    rivals = explainer.rivals(one)
    pictured = [
        {
            "case": explainer.name(c, k),
            "picture": Shown.of_case(
                None if explainer.cases is None else explainer.cases.by_place.get((c, k))
            ),
        }
        for c, k in rivals[:NAMED_RIVALS]
    ]
    holding = [(c, k) for c, k in one.holding.nonzero().tolist()]
    also = [
        explainer.name(c, k) for c, k in holding if (c, k) != (winner.label, winner.subcentroid)
    ]
    return {
        "text": explainer.rule(one),
        "rivals": pictured,
        "rest": len(rivals) - len(pictured),
        "also": also,
    }


def _scores(explainer: Explainer, one: Explained) -> list[dict[str, Any]]:
    similarity, eligible = one.evidence.similarity.cpu(), explainer.head.occupied.cpu()
    scores = class_scores(similarity[None], eligible)[0]
    probability = (scores / explainer.head.temperature).softmax(dim=0)
    order = scores.argsort(descending=True, stable=True)[:SCORES_SHOWN].tolist()
    return [
        {
            "class_name": explainer.classes[label],
            "score": float(scores[label]),
            "probability": float(probability[label]),
            "cosines": similarity[label][eligible[label]].tolist(),
        }
        for label in order
        if eligible[label].any()
    ]
