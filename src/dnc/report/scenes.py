"""`dnc report` of a segmenter: the model as a whole on one page."""

from dnc.explanation.scene_pages import crops, nature_of_cases, rendered_scenes
from dnc.explanation.scenes import SceneExplainer
from dnc.report import scene_examples, scene_sections, scene_subject
from dnc.report.page import OPEN_CLASSES, Page, frame, with_size
from dnc.report.scene_looking import LookedScenes
from dnc.report.scene_subject import SceneSubject


class SceneReport(Page):
    """Everything about a segmenter that is worth a look.

    Args:
        explainer: of the model.
        looked: the scenes that it is measured on.
        title: what the model is called.

    """

    def __init__(self, explainer: SceneExplainer, looked: LookedScenes, *, title: str) -> None:
        self.subject = SceneSubject(explainer, looked)
        self.title = title

    def html(self) -> str:
        """The page."""
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
            **frame(self.title, contents),
            about=scene_subject.about(subject),
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
        )
        return with_size(text)
