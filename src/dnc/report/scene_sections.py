"""The sections of a report of a segmenter: figures, cases, confusions, scenes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dnc.errors import UnreadableImage
from dnc.evaluation.pixel_pictures import pixel_classes_figure, pixel_confusion_figure
from dnc.explanation.cases import encoded, shown_name
from dnc.explanation.pages import Shown
from dnc.explanation.scene_pages import case_card, class_picture, has_crop, plain_picture, pointing
from dnc.explanation.scene_pictures import with_classes, with_mistakes
from dnc.explanation.scenes import ExplainedScene, SceneExplainer, hexadecimal
from dnc.report.figures import percent
from dnc.report.pictures import chart
from dnc.report.scene_looking import LookedScenes, SeenScene

CONFUSION_CLASSES, NARROW_CLASSES = 60, 14
MOST_CONFUSIONS, MOST_NAMED = 12, 200


@dataclass(frozen=True, eq=False)
class SceneSubject:
    """What a report is about: a segmenter, and what it makes of scenes."""

    explainer: SceneExplainer
    looked: LookedScenes

    def link(self, number: int) -> dict[str, Any]:
        """What leads to a case of the gallery."""
        return {"id": f"case-{number}", "name": self.explainer.name(number)}

    def decides(self, number: int) -> int:
        """Pixels that count and that a case has decided."""
        return int(self.looked.decided[number - 1].sum())

    def rightly(self, number: int) -> int:
        """How many of them are of its class."""
        label, _ = self.explainer.places[number - 1]
        return int(self.looked.decided[number - 1, label])


def figures(subject: SceneSubject) -> list[dict[str, str]]:
    """The most important numbers."""
    evaluation = subject.looked.evaluation
    return [
        {"name": "mean IoU", "value": f"{100 * evaluation.miou:.2f} %"},
        {"name": "of pixels right", "value": percent(evaluation.pixel_accuracy)},
        {"name": "mean accuracy of the classes", "value": percent(evaluation.mean_accuracy)},
        {"name": "scenes", "value": f"{evaluation.images:,}"},
        {"name": "pixels with a label", "value": f"{evaluation.pixels / 1e6:,.1f} M"},
        {"name": "cases", "value": f"{len(subject.explainer.places):,}"},
    ]


def notes(subject: SceneSubject) -> list[str]:
    """What is to be kept in mind while one reads the numbers."""
    notes = []
    if subject.looked.part == "train":
        notes.append("These are training scenes, so that every figure here is too good.")
    if subject.looked.bad_files:
        told = f"{len(subject.looked.bad_files):,} files could not be read and are not counted."
        notes.append(told)
    return notes


def charts(subject: SceneSubject) -> list[dict[str, Any]]:
    """IoU by class, and confusion where there are few enough classes to see it."""
    evaluation = subject.looked.evaluation
    classes = len(evaluation.per_class)
    drawn = [chart(pixel_classes_figure(evaluation), "IoU and accuracy of the classes")]
    if classes <= CONFUSION_CLASSES:
        drawn.append(chart(pixel_confusion_figure(evaluation), "Confusion of the classes"))
    return [{**one, "is_wide": classes > NARROW_CLASSES} for one in drawn]


def per_class(subject: SceneSubject) -> list[dict[str, Any]]:
    """A row for each class."""
    evaluation = subject.looked.evaluation
    return [
        {
            "name": result.name,
            "colour": hexadecimal(colour),
            "iou": percent(result.iou),
            "accuracy": percent(result.accuracy),
            "precision": percent(result.precision),
            "share": percent(result.pixels / evaluation.pixels),
        }
        for result, colour in zip(
            evaluation.per_class, subject.explainer.recognizer.colours, strict=True
        )
    ]


def classes(subject: SceneSubject) -> list[dict[str, Any]]:
    """The gallery: the cases of each class, those that decide most first."""
    given = subject.looked.evaluation.confusion.sum(dim=0).tolist()
    rows = per_class(subject)
    by_class: dict[int, list[dict[str, Any]]] = {}
    for number, (c, _) in enumerate(subject.explainer.places, start=1):
        by_class.setdefault(c, []).append(_gallery_case(subject, number, given[c]))
    return [
        {
            **row,
            "told": _told_of_class(len(by_class.get(c, [])), row),
            "cases": sorted(by_class.get(c, []), key=lambda case: -case["decides"]),
        }
        for c, row in enumerate(rows)
    ]


def confusions(subject: SceneSubject) -> list[dict[str, Any]]:
    """The most frequent mistakes, each with the case that has made most of them."""
    evaluation, explainer = subject.looked.evaluation, subject.explainer
    label_of = torch.tensor([label for label, _ in explainer.places])
    order = {result.name: label for label, result in enumerate(evaluation.per_class)}
    found = []
    for mistake in evaluation.most_confused(MOST_CONFUSIONS):
        true, given = order[mistake.true], order[mistake.predicted]
        by_case = subject.looked.decided[:, true].masked_fill(label_of != given, -1)
        number = int(by_case.argmax()) + 1
        found.append(
            {
                "true": mistake.true,
                "given": mistake.predicted,
                "of_true": percent(mistake.pixels / evaluation.per_class[true].pixels),
                "of_all": percent(mistake.pixels / evaluation.pixels),
                "case": {**subject.link(number), **_crop(subject, number)},
                "by_case": percent(int(by_case[number - 1]) / mistake.pixels),
            }
        )
    return found


def scenes(subject: SceneSubject) -> list[dict[str, Any]]:
    """Some scenes with truth and decision, whose regions can be pointed at."""
    return [
        shown
        for kind, seen in chosen_scenes(subject.looked.seen)
        if (shown := _scene(subject, kind, seen)) is not None
    ]


def chosen_scenes(seen: tuple[SeenScene, ...]) -> list[tuple[str, SeenScene]]:
    """The two worst, the two in the middle and the two best, by the share of pixels right."""
    order = sorted(
        (one for one in seen if math.isfinite(one.accuracy)),
        key=lambda one: (one.accuracy, one.position),
    )
    if len(order) <= 6:
        return [("one of few", one) for one in order]
    middle = len(order) // 2
    kinds = {"worst": order[:2], "median": order[middle - 1 : middle + 1], "best": order[-2:]}
    return [(kind, one) for kind, some in kinds.items() for one in some]


def health(subject: SceneSubject) -> list[dict[str, Any]]:
    """Cases that decide mostly wrongly, and cases that never decide."""
    names = subject.explainer.recognizer.classes
    wrong, idle = [], []
    for number, (label, _) in enumerate(subject.explainer.places, start=1):
        decides, rightly = subject.decides(number), subject.rightly(number)
        if not decides:
            idle.append({**subject.link(number), "note": ""})
        elif 2 * rightly < decides:
            others = subject.looked.decided[number - 1].clone()
            others[label] = -1
            other = int(others.argmax())
            told = f"{percent(rightly / decides)} right; {percent(int(others[other]) / decides)} is"
            entry = {**subject.link(number), "note": f"{told} {names[other]}", "pixels": decides}
            wrong.append(entry)
    wrong.sort(key=lambda case: -case["pixels"])
    return [
        {"name": f"{name}: {len(cases):,}", "cases": cases[:MOST_NAMED], "more": len(cases)}
        for name, cases in (
            ("Cases that decide mostly wrongly, those with most pixels first", wrong),
            ("Cases that have decided no pixel with a label", idle),
        )
        if cases
    ]


def _gallery_case(subject: SceneSubject, number: int, given: int) -> dict[str, Any]:
    decides, rightly = subject.decides(number), subject.rightly(number)
    known = subject.explainer.case_of(number)
    return {
        **subject.link(number),
        **_crop(subject, number),
        "colour": hexadecimal(subject.explainer.colours[number - 1]),
        "decides": decides,
        "share": percent(decides / given) if given else percent(math.nan),
        "rightly": percent(rightly / decides) if decides else None,
        "mostly_wrong": 2 * rightly < decides,
        "file": None if known is None else known.file,
        "at": None if known is None else known.at,
    }


def _crop(subject: SceneSubject, number: int) -> dict[str, Any]:
    return {"index": number, "crop": has_crop(subject.explainer, number)}


def _scene(subject: SceneSubject, kind: str, seen: SeenScene) -> dict[str, Any] | None:
    looked, explainer = subject.looked, subject.explainer
    name = looked.scenes.names[seen.position]
    try:
        image, truth = looked.scenes.read(seen.position), looked.truth(seen.position)
    except UnreadableImage:  # it could be read a moment ago
        return None
    one = explainer.explained(explainer.recognizer.segmented(shown_name(name), image))
    links = {case.number: f"case-{case.number}" for case in one.cases}
    labels, colours = one.segmentation.labels, explainer.recognizer.colours
    return {
        **pointing(explainer, one, links=links),
        "beside": _cards(explainer, one, truth),
        "kind": kind,
        "accuracy": percent(seen.accuracy),
        "miou": percent(seen.miou),
        "pictures": [
            {"title": "the picture", "picture": plain_picture(one)},
            {"title": "the truth", "picture": _shown(with_classes(image, truth, colours))},
            {"title": "the decision", "picture": class_picture(explainer, one)},
            {"title": "what is wrong", "picture": _shown(with_mistakes(image, labels, truth))},
        ],
    }
