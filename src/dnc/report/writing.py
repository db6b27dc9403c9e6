"""`dnc report`: a model as a whole on one page."""

from dnc.explanation.pages import rendered
from dnc.recognition import Recognizer
from dnc.report import figures, sections
from dnc.report.layout import layout
from dnc.report.looking import Looked
from dnc.report.page import OPEN_CLASSES, Page, frame, with_size
from dnc.report.pictures import map_of
from dnc.report.subject import Subject


class Report(Page):
    """Everything about a model that is worth a look.

    Args:
        recognizer: the model.
        evaluated: the images that it is measured on.
        trained: the images that it was trained on, if they are there.
        title: what the model is called.

    """

    def __init__(
        self, recognizer: Recognizer, evaluated: Looked, trained: Looked | None, *, title: str
    ) -> None:
        self.subject = Subject(recognizer, evaluated, trained)
        self.title = title

    def html(self) -> str:
        """The page."""
        subject = self.subject
        evaluated = subject.evaluated
        contents = {
            "content": "In figures",
            "cases": "Cases",
            "mistakes": "Mix-ups",
            "map": "Map",
            "ambiguous": "Ambiguous",
            **({"suspects": "Labels", "leaks": "In both sets"} if subject.trained else {}),
            "health": "Health",
        }
        text = rendered(
            "report.html",
            styles=("base.css", "report.css"),
            **frame(self.title, contents),
            about=figures.about(subject),
            part=evaluated.part,
            images=len(evaluated),
            figures=figures.figures(subject),
            notes=figures.notes(subject),
            charts=figures.charts(subject),
            per_class=figures.per_class(subject),
            case_text=figures.case_text(subject),
            classes=sections.classes(subject),
            open_classes=len(subject.recognizer.classes) <= OPEN_CLASSES,
            **sections.mistakes(subject),
            map=map_of(
                layout(evaluated, subject.head.centroids.cpu(), subject.places),
                evaluated,
                subject.recognizer,
                subject.pictures,
            ),
            ambiguous=sections.ambiguous(subject),
            **sections.training(subject),
            health=sections.health(subject),
            dropped=subject.dropped,
        )
        return with_size(text)
