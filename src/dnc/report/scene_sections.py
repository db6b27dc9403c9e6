"""The sections of a report of a segmenter: its cases, and what gets mixed up by them."""

from typing import Any

import torch

from dnc.report.figures import percent
from dnc.report.scene_subject import SceneSubject, per_class

MOST_CONFUSIONS, MOST_NAMED = 12, 200


def classes(subject: SceneSubject) -> list[dict[str, Any]]:
    """The gallery: the cases of each class, those that decide most first."""
    given = subject.looked.evaluation.confusion.sum(dim=0).tolist()
    by_class: dict[int, list[dict[str, Any]]] = {}
    for number, (label, _) in enumerate(subject.explainer.places, start=1):
        by_class.setdefault(label, []).append(_gallery_case(subject, number, given[label]))
    return [
        {
            **row,
            "told": _told_of_class(len(by_class.get(label, [])), row["iou"]),
            "cases": sorted(by_class.get(label, []), key=lambda case: -case["decides"]),
        }
        for label, row in enumerate(per_class(subject))
    ]


def mistakes(subject: SceneSubject) -> list[dict[str, Any]]:
    """The most frequent mistakes, each with the case that has made most of them."""
    evaluation, confusion = subject.looked.evaluation, subject.looked.evaluation.confusion
    names = subject.explainer.recognizer.classes
    label_of = torch.tensor([label for label, _ in subject.explainer.places])
    wrong = confusion.masked_fill(torch.eye(len(confusion), dtype=torch.bool), 0)
    order = wrong.flatten().argsort(descending=True, stable=True)[:MOST_CONFUSIONS]
    found = []
    for true, given in zip(*(part.tolist() for part in _cells(order, len(wrong))), strict=True):
        pixels = int(wrong[true, given])
        if not pixels:
            break
        by_case = subject.looked.decided[:, true].masked_fill(label_of != given, -1)
        number = int(by_case.argmax()) + 1
        found.append(
            {
                "true": names[true],
                "given": names[given],
                "of_true": percent(pixels / evaluation.per_class[true].pixels),
                "of_all": percent(pixels / evaluation.pixels),
                "case": subject.link(number),
                "by_case": percent(int(by_case[number - 1]) / pixels),
            }
        )
    return found


def health(subject: SceneSubject) -> list[dict[str, Any]]:
    """Cases that decide mostly wrongly, and cases that decide nothing."""
    numbers = range(1, len(subject.explainer.places) + 1)
    wrong = [n for n in numbers if 2 * subject.rightly(n) < subject.decides(n)]
    wrong.sort(key=lambda number: -subject.decides(number))
    idle = [number for number in numbers if not subject.decides(number)]
    return [
        {
            "name": f"{name}: {len(cases):,}",
            "cases": [told(subject, number) for number in cases[:MOST_NAMED]],
            "more": max(0, len(cases) - MOST_NAMED),
        }
        for name, cases, told in (
            ("Cases that decide mostly wrongly, those with most pixels first", wrong, _told_wrong),
            ("Cases that have decided no pixel with a label", idle, SceneSubject.link),
        )
        if cases
    ]


def _cells(order: torch.Tensor, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    return order // columns, order % columns


def _gallery_case(subject: SceneSubject, number: int, given: int) -> dict[str, Any]:
    decides, rightly = subject.decides(number), subject.rightly(number)
    known = subject.explainer.case_of(number)
    return {
        **subject.link(number),
        "decides": decides,
        "share": percent(decides / given) if given else None,
        "right": percent(rightly / decides) if decides else None,
        "is_mostly_wrong": 2 * rightly < decides,
        "file": None if known is None else known.file,
        "at": None if known is None else known.at,
    }


def _told_wrong(subject: SceneSubject, number: int) -> dict[str, Any]:
    """A case that decides mostly wrongly, and what most of its pixels are instead."""
    decides, rightly = subject.decides(number), subject.rightly(number)
    others = subject.looked.decided[number - 1].clone()
    others[subject.explainer.places[number - 1][0]] = -1
    other = int(others.argmax())
    return {
        **subject.link(number),
        "right": percent(rightly / decides),
        "other": subject.explainer.recognizer.classes[other],
        "of_other": percent(int(others[other]) / decides),
        "pixels": decides,
    }


def _told_of_class(cases: int, iou: str) -> str:
    return f"{cases} {'case' if cases == 1 else 'cases'}, IoU {iou}"
