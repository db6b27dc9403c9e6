"""What the report of a segmenter is about, in figures."""

from dataclasses import dataclass
from typing import Any

from dnc.errors import InvalidModel
from dnc.evaluation.pixel_pictures import pixel_classes_figure, pixel_confusion_figure
from dnc.explanation.scene_pages import has_crop
from dnc.explanation.scenes import SceneExplainer, hexadecimal
from dnc.report.figures import percent
from dnc.report.pictures import chart
from dnc.report.scene_looking import LookedScenes

CONFUSION_CLASSES, NARROW_CLASSES = 60, 20


@dataclass(frozen=True, eq=False)
class SceneSubject:
    """A segmenter, its cases, and what it makes of scenes."""

    explainer: SceneExplainer
    looked: LookedScenes

    def __post_init__(self) -> None:
        """Refuses a model that cannot decide."""
        if not self.explainer.places:
            raise InvalidModel("This model has no case that can decide; it was never trained.")

    def link(self, number: int) -> dict[str, Any]:
        """What leads to a case of the gallery, and its picture."""
        return {
            "id": f"case-{number}",
            "name": self.explainer.name(number),
            "index": number,
            "crop": has_crop(self.explainer, number),
        }

    def decides(self, number: int) -> int:
        """Pixels with a label that a case has decided."""
        return int(self.looked.decided[number - 1].sum())

    def rightly(self, number: int) -> int:
        """How many of them are of its class."""
        label, _ = self.explainer.places[number - 1]
        return int(self.looked.decided[number - 1, label])


def about(subject: SceneSubject) -> str:
    """The model in a sentence."""
    explainer, looked = subject.explainer, subject.looked
    return (
        f"{len(explainer.places):,} cases of {len(explainer.recognizer.classes):,} classes; "
        f"measured on {len(looked.seen):,} {looked.part} scenes. A pixel goes to the class of the "
        "nearest case."
    )


def figures(subject: SceneSubject) -> list[dict[str, str]]:
    """The most important numbers."""
    evaluation = subject.looked.evaluation
    return [
        {"name": "mean IoU", "value": f"{100 * evaluation.miou:.2f} %"},
        {"name": "of pixels right", "value": f"{100 * evaluation.pixel_accuracy:.2f} %"},
        {"name": "mean accuracy of the classes", "value": percent(evaluation.mean_accuracy)},
        {"name": "scenes", "value": f"{evaluation.images:,}"},
        {"name": "pixels with a label", "value": f"{evaluation.pixels:,}"},
        {"name": "cases", "value": f"{len(subject.explainer.places):,}"},
    ]


def notes(subject: SceneSubject) -> list[str]:
    """What is to be kept in mind while one reads the numbers."""
    notes = []
    if subject.looked.part == "train":
        notes.append("These are training scenes, so that every figure here is too good.")
    unread = len(subject.looked.bad_files)
    if unread:
        notes.append(f"{unread:,} scenes could not be read and are not counted.")
    return notes


def charts(subject: SceneSubject) -> list[dict[str, Any]]:
    """IoU of each class, and confusion where there are few enough classes to see it."""
    evaluation = subject.looked.evaluation
    classes = len(evaluation.per_class)
    drawn = [chart(pixel_classes_figure(evaluation), "IoU and accuracy of the classes")]
    if classes <= CONFUSION_CLASSES:
        drawn.append(chart(pixel_confusion_figure(evaluation), "Confusion of the classes"))
    return [{**one, "is_wide": classes > NARROW_CLASSES} for one in drawn]


def per_class(subject: SceneSubject) -> list[dict[str, Any]]:
    """A row for each class."""
    evaluation, colours = subject.looked.evaluation, subject.explainer.recognizer.colours
    return [
        {
            "name": result.name,
            "colour": hexadecimal(colour),
            "iou": percent(result.iou),
            "accuracy": percent(result.accuracy),
            "precision": percent(result.precision),
            "share": percent(result.pixels / evaluation.pixels),
        }
        for result, colour in zip(evaluation.per_class, colours, strict=True)
    ]
