"""`dnc report` of a segmenter: the model as a whole on one page."""

import base64
import hashlib
from pathlib import Path

from markupsafe import Markup

from dnc.explanation.scene_pages import crops, nature_of_cases, rendered_scenes
from dnc.explanation.scenes import SceneExplainer
from dnc.files import whole_file
from dnc.report import scene_examples, scene_sections, scene_subject
from dnc.report.scene_looking import LookedScenes
from dnc.report.scene_subject import SceneSubject
from dnc.report.writing import OPEN_CLASSES, SIZE_HERE, TEMPLATES, Written


class SceneReport:
    """Everything about a segmenter that is worth a look.

    Args:
        explainer: of the model.
        looked: the scenes that it is measured on.
        title: what the model is called.

    """

    def __init__(self, explainer: SceneExplainer, looked: LookedScenes, *, title: str) -> None:
        self.subject = SceneSubject(explainer, looked)
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
        explainer, looked = subject.explainer, subject.looked
        contents = {
            "content": "In figures",
            "cases": "Cases",
            "mistakes": "Mix-ups",
            "scenes": "Scenes",
            "health": "Health",
        }
        examples = scene_examples.examples(subject)
        text = rendered_scenes(
            "scene_report.html",
            styles=("base.css", "report.css", "scenes.css"),
            most_regions=max((one["deciding"] for one in examples), default=0),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
            title=self.title,
            about=scene_subject.about(subject),
            sections=[{"id": key, "name": name} for key, name in contents.items()],
            part=looked.part,
            total=len(looked.seen),
            figures=scene_subject.figures(subject),
            notes=scene_subject.notes(subject),
            charts=scene_subject.charts(subject),
            per_class=scene_subject.per_class(subject),
            nature=nature_of_cases(explainer),
            crops=crops(explainer, range(1, len(explainer.places) + 1)),
            classes=scene_sections.classes(subject),
            open_classes=len(explainer.recognizer.classes) <= OPEN_CLASSES,
            mistakes=scene_sections.mistakes(subject),
            scenes=examples,
            health=scene_sections.health(subject),
            size_here=SIZE_HERE,
        )
        size = len(text.encode("utf-8", "backslashreplace"))
        return text.replace(SIZE_HERE, f"{size / 1e6:.1f} MB")
