"""What a report is about: a model, and what it makes of images."""

from typing import Any

from dnc.errors import InvalidModel
from dnc.explanation.pages import Shown
from dnc.recognition import Recognizer
from dnc.report.findings import CaseRecord
from dnc.report.looking import Looked
from dnc.report.pictures import case_pictures


class Subject:
    """A model, its cases, and what it makes of the images that it is measured on.

    Args:
        recognizer: the model.
        evaluated: the images that it is measured on.
        trained: the images that it was trained on, if they are there.

    """

    def __init__(self, recognizer: Recognizer, evaluated: Looked, trained: Looked | None) -> None:
        self.recognizer = recognizer
        self.evaluated = evaluated
        self.trained = trained
        self.head = recognizer.model.subcentroid_head
        self.places = [(c, k) for c, k in self.head.occupied.nonzero().tolist()]
        if not self.places:
            raise InvalidModel("This model has no case that can decide; it was never trained.")
        self.record = CaseRecord.of(evaluated, self.head.occupied.shape)
        self.evaluation = evaluated.evaluation(self.head, recognizer.classes)
        self.pictures, self.dropped = case_pictures(recognizer)

    def link(self, label: int, subcentroid: int) -> dict[str, Any]:
        """What leads to a case of the gallery."""
        name = self.recognizer.case_name(label, subcentroid)
        return {"label": label, "subcentroid": subcentroid, "name": name}

    def case(self, label: int, subcentroid: int) -> dict[str, Any]:
        """What a page says of a case."""
        cases = self.recognizer.cases
        known = None if cases is None else cases.by_place.get((label, subcentroid))
        return {
            **self.link(label, subcentroid),
            "picture": self.pictures.get((label, subcentroid), Shown(None)),
            "decides": int(self.record.decides[label, subcentroid]),
            "rightly": int(self.record.rightly[label, subcentroid]),
            "stands_for": None if known is None else known.stands_for,
            "file": None if known is None else known.file,
        }
