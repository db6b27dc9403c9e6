"""A report in figures: what is measured of a model as a whole."""

import math
from typing import Any

from dnc.evaluation.pictures import confusion_figure, reliability_figure
from dnc.report.pictures import chart
from dnc.report.subject import Subject

CONFUSION_CLASSES, NARROW_CLASSES = 60, 12


def about(subject: Subject) -> str:
    """The model in a sentence."""
    network = subject.recognizer.network
    name = "A network" if network is None else f"{network.name} at {network.size} pixels"
    return (
        f"{name}, {len(subject.places):,} cases of {len(subject.recognizer.classes):,} classes; "
        f"measured on {len(subject.evaluated):,} {subject.evaluated.part} images. A query goes to "
        "the class of the nearest case."
    )


def case_text(subject: Subject) -> str:
    """What a case is."""
    cases = subject.recognizer.cases
    if cases is None:
        return "The training images behind the cases are not known to this model."
    if cases.is_anchored:
        return "Each case is a training image, as the network sees it."
    return (
        "Each case is a mean of training images; the picture is the training image that is "
        "nearest to it."
    )


def figures(subject: Subject) -> list[dict[str, str]]:
    """The most important numbers."""
    evaluation = subject.evaluation
    figures = [
        {"name": "of images right (top 1)", "value": f"{100 * evaluation.top1:.2f} %"},
        {"name": "mean recall of the classes", "value": percent(evaluation.mean_recall)},
        {"name": "calibration error", "value": percent(evaluation.calibration.error)},
        {"name": "images", "value": f"{evaluation.images:,}"},
        {"name": "cases", "value": f"{len(subject.places):,}"},
    ]
    if evaluation.top5 is not None:
        figures.insert(1, {"name": "within the best five", "value": percent(evaluation.top5)})
    return figures


def notes(subject: Subject) -> list[str]:
    """What is to be kept in mind while one reads the numbers."""
    notes = []
    if subject.evaluated.part == "train":
        notes.append("These are training images, so that every figure here is too good.")
    if subject.trained is None:
        notes.append(
            "The training images are not part of these data; what can only be said of them is "
            "left out."
        )
    unread = len(subject.evaluated.images) - len(subject.evaluated)
    if unread:
        notes.append(f"{unread:,} images could not be read and are not counted.")
    return notes


def charts(subject: Subject) -> list[dict[str, Any]]:
    """Calibration, and confusion where there are few enough classes to see it."""
    charts = [chart(reliability_figure(subject.evaluation), "Confidence against accuracy")]
    classes = len(subject.recognizer.classes)
    if classes <= CONFUSION_CLASSES:
        drawn = chart(confusion_figure(subject.evaluation), "Confusion of the classes")
        charts.append({**drawn, "is_wide": classes > NARROW_CLASSES})
    return charts


def per_class(subject: Subject) -> list[dict[str, Any]]:
    """A row for each class."""
    return [
        {
            "name": result.name,
            "images": result.images,
            "recall": percent(result.recall),
            "precision": percent(result.precision),
        }
        for result in subject.evaluation.per_class
    ]


def percent(share: float) -> str:
    """A share as a page shows it."""
    return f"{100 * share:.1f} %" if math.isfinite(share) else "–"  # noqa: RUF001
