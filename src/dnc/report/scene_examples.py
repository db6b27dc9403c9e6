"""Scenes of a report: truth beside decision, and regions that can be pointed at."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dnc.errors import UnreadableImage
from dnc.explanation.cases import shown_name
from dnc.explanation.scene_pages import (
    case_card,
    class_picture,
    page_picture,
    plain_picture,
    pointing,
)
from dnc.explanation.scene_pictures import with_classes, with_mistakes
from dnc.explanation.scenes import ExplainedScene
from dnc.report.figures import percent
from dnc.report.scene_looking import SeenScene
from dnc.report.scene_subject import SceneSubject

OF_EACH = 2


def examples(subject: SceneSubject) -> list[dict[str, Any]]:
    """The worst scenes, those in the middle and the best."""
    shown = (_example(subject, kind, seen) for kind, seen in chosen_scenes(subject.looked.seen))
    return [one for one in shown if one is not None]


def chosen_scenes(seen: Sequence[SeenScene]) -> list[tuple[str, SeenScene]]:
    """Two each of the worst, the middle and the best by the share of pixels right, or all."""
    order = sorted(
        (one for one in seen if math.isfinite(one.accuracy)),
        key=lambda one: (one.accuracy, one.position),
    )
    if len(order) <= 3 * OF_EACH:
        return [(f"{rank} of {len(order)}", one) for rank, one in enumerate(order, start=1)]
    middle = (len(order) - OF_EACH) // 2
    kinds = {
        "one of the worst": order[:OF_EACH],
        "in the middle": order[middle : middle + OF_EACH],
        "one of the best": order[-OF_EACH:],
    }
    return [(kind, one) for kind, of_kind in kinds.items() for one in of_kind]


def _example(subject: SceneSubject, kind: str, seen: SeenScene) -> dict[str, Any] | None:
    looked, explainer = subject.looked, subject.explainer
    name = shown_name(looked.scenes.names[seen.position])
    try:
        image, truth = looked.scenes.read(seen.position), looked.truth(seen.position)
    except UnreadableImage:  # though it could be read before
        return None
    one = explainer.explained(explainer.recognizer.segmented(name, image))
    labels, colours = one.segmentation.labels, explainer.recognizer.colours
    links = {case.number: f"case-{case.number}" for case in one.cases}
    return {
        **pointing(explainer, one, links=links),
        "beside": _cards(subject, one, truth),
        "kind": kind,
        "accuracy": percent(seen.accuracy),
        "miou": percent(seen.miou),
        "pictures": [
            {"title": "the picture", "picture": plain_picture(one)},
            {"title": "the truth", "picture": page_picture(with_classes(image, truth, colours))},
            {"title": "the decision", "picture": class_picture(explainer, one)},
            {
                "title": "what is wrong, in red",
                "picture": page_picture(with_mistakes(image, labels, truth)),
            },
        ],
    }


def _cards(
    subject: SceneSubject, one: ExplainedScene, truth: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """The cards of the cases, with the share of their pixels here that are of their class."""
    counts = truth >= 0
    most = len(subject.explainer.places) + 1
    labelled = np.bincount(one.numbers[counts], minlength=most)
    right = np.bincount(one.numbers[counts & (one.segmentation.labels == truth)], minlength=most)
    return [
        {
            **case_card(subject.explainer, case),
            "right": right[case.number] / labelled[case.number] if labelled[case.number] else None,
        }
        for case in one.cases
    ]
