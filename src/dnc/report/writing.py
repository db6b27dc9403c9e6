"""`dnc report`: a model as a whole on one page."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from dnc.explanation.pages import rendered
from dnc.files import whole_file
from dnc.recognition import Recognizer
from dnc.report import figures, sections
from dnc.report.layout import layout
from dnc.report.looking import Looked
from dnc.report.pictures import map_of
from dnc.report.subject import Subject

TEMPLATES = Path(__file__).with_name("templates")
OPEN_CLASSES = 50
SIZE_HERE = Markup("<size>")  # names cannot hold it, since whatever they hold is escaped


@dataclass(frozen=True)
class Written:
    """A report that was written."""

    path: Path
    size: int


class Report:
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

    def write(self, path: Path) -> Written:
        """Writes the page, whole or not at all."""
        text = self.html()
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        return Written(path, path.stat().st_size)

    def html(self) -> str:
        """The page."""
        script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
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
            script=Markup(script),
            script_hash=f"sha256-{digest}",
            title=self.title,
            about=figures.about(subject),
            sections=[{"id": key, "name": name} for key, name in contents.items()],
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
            size_here=SIZE_HERE,
        )
        size = len(text.encode("utf-8", "backslashreplace"))
        return text.replace(SIZE_HERE, f"{size / 1e6:.1f} MB")
