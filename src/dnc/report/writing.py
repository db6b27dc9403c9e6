"""`dnc report`: a model as a whole on one page."""

import base64
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dnc.errors import InvalidModel
from dnc.evaluation import Evaluation
from dnc.evaluation.pictures import confusion_figure, reliability_figure
from dnc.explanation.cases import shown_name
from dnc.explanation.pages import Shown, rendered
from dnc.explanation.rules import NAMED_RIVALS, Rules
from dnc.files import whole_file
from dnc.recognition import Recognizer
from dnc.report.findings import (
    CaseHealth,
    CaseRecord,
    case_health,
    label_suspects,
    leaks,
    mix_ups,
    most_ambiguous,
)
from dnc.report.layout import layout
from dnc.report.looking import Looked, head_of
from dnc.report.pictures import case_pictures, chart, map_of

TEMPLATES = Path(__file__).with_name("templates")
MOST_MIX_UPS, MOST_AMBIGUOUS, MOST_SUSPECTS, MOST_LEAKS, MOST_NAMED = 20, 24, 48, 24, 200
OPEN_CLASSES = 50
CONFUSION_CLASSES, NARROW_CLASSES = 60, 12


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
        self.recognizer = recognizer
        self.evaluated = evaluated
        self.trained = trained
        self.title = title
        self.head = head_of(recognizer)
        self.places = [(c, k) for c, k in self.head.occupied.nonzero().tolist()]
        if not self.places:
            raise InvalidModel("This model has no case that can decide; it was never trained.")
        self.record = CaseRecord.of(evaluated, self.head.occupied.shape)
        self.evaluation = evaluated.evaluation(self.head, recognizer.classes)
        self.pictures, self.dropped = case_pictures(recognizer)

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
        part = self.evaluated.part
        sections = {
            "content": "In figures",
            "cases": "Cases",
            "mistakes": "Mix-ups",
            "map": "Map",
            "ambiguous": "Ambiguous",
            **({"suspects": "Labels", "leaks": "In both sets"} if self.trained else {}),
            "health": "Health",
        }
        text = rendered(
            "report.html",
            styles=("base.css", "report.css"),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
            title=self.title,
            about=self._about(),
            sections=[{"id": key, "name": name} for key, name in sections.items()],
            part=part,
            images=len(self.evaluated),
            figures=self._figures(),
            notes=self._notes(),
            charts=self._charts(),
            per_class=_per_class(self.evaluation),
            case_text=self._case_text(),
            classes=self._classes(),
            open_classes=len(self.recognizer.classes) <= OPEN_CLASSES,
            **self._mistakes(),
            map=map_of(
                layout(self.evaluated, self.head.centroids.cpu(), self.places),
                self.evaluated,
                self.recognizer,
                self.pictures,
            ),
            ambiguous=self._ambiguous(),
            **self._training(),
            health=self._health(),
            dropped=self.dropped,
        )
        size = len(text.encode("utf-8", "backslashreplace"))
        return text.replace("@@SIZE@@", f"{size / 1e6:.1f} MB", 1)

    def case(self, label: int, subcentroid: int) -> dict[str, Any]:
        """What a page says of a case."""
        cases = self.recognizer.cases
        known = None if cases is None else cases.by_place.get((label, subcentroid))
        return {
            "label": label,
            "subcentroid": subcentroid,
            "name": self.recognizer.case_name(label, subcentroid),
            "picture": self.pictures.get((label, subcentroid), Shown(None)),
            "decides": int(self.record.decides[label, subcentroid]),
            "rightly": int(self.record.rightly[label, subcentroid]),
            "stands_for": None if known is None else known.stands_for,
            "file": None if known is None else known.file,
        }

    def _about(self) -> str:
        network = self.recognizer.network
        name = "A network" if network is None else f"{network.name} at {network.size} pixels"
        return (
            f"{name}, {len(self.places):,} cases of {len(self.recognizer.classes):,} classes; "
            f"measured on {len(self.evaluated):,} {self.evaluated.part} images. A query goes to "
            "the class of the nearest case."
        )

    def _case_text(self) -> str:
        cases = self.recognizer.cases
        if cases is None:
            return "The training images behind the cases are not known to this model."
        if cases.is_anchored:
            return "Each case is a training image, as the network sees it."
        return (
            "Each case is a mean of training images; the picture is the training image that is "
            "nearest to it."
        )

    def _figures(self) -> list[dict[str, str]]:
        evaluation = self.evaluation
        figures = [
            {"name": "of images right (top 1)", "value": _percent(evaluation.top1)},
            {"name": "mean recall of the classes", "value": _percent(evaluation.mean_recall)},
            {"name": "calibration error", "value": _percent(evaluation.calibration.error)},
            {"name": "images", "value": f"{evaluation.images:,}"},
            {"name": "cases", "value": f"{len(self.places):,}"},
        ]
        if evaluation.top5 is not None:
            figures.insert(1, {"name": "within the best five", "value": _percent(evaluation.top5)})
        return figures

    def _notes(self) -> list[str]:
        notes = []
        if self.evaluated.part == "train":
            notes.append("These are training images, so that every figure here is too good.")
        if self.trained is None:
            notes.append(
                "The training images are not part of these data; what can only be said of them is "
                "left out."
            )
        unread = len(self.evaluated.images) - len(self.evaluated)
        if unread:
            notes.append(f"{unread:,} images could not be read and are not counted.")
        return notes

    def _charts(self) -> list[dict[str, Any]]:
        charts = [chart(reliability_figure(self.evaluation), "Confidence against accuracy")]
        classes = len(self.recognizer.classes)
        if classes <= CONFUSION_CLASSES:
            drawn = chart(confusion_figure(self.evaluation), "Confusion of the classes")
            charts.append({**drawn, "is_wide": classes > NARROW_CLASSES})
        return charts

    def _classes(self) -> list[dict[str, Any]]:
        rules = Rules.of(self.head, self.recognizer.classes)
        rivals = rules.nearest_rivals(NAMED_RIVALS)
        numbers = self.head.occupied.sum(dim=1).cpu()
        total = int(numbers.sum())
        by_class: dict[int, list[dict[str, Any]]] = {}
        for c, k in self.places:
            named = rivals[c, k]
            by_class.setdefault(c, []).append(
                {
                    **self.case(c, k),
                    "rivals": [self._link(*rival) for rival in named],
                    "rest": total - int(numbers[c]) - len(named),
                }
            )
        return [
            {
                "name": result.name,
                "told": _told_of_class(len(by_class.get(c, [])), result.images, result.recall),
                "cases": by_class.get(c, []),
            }
            for c, result in enumerate(self.evaluation.per_class)
        ]

    def _link(self, label: int, subcentroid: int) -> dict[str, Any]:
        name = self.recognizer.case_name(label, subcentroid)
        return {"label": label, "subcentroid": subcentroid, "name": name}

    def _mistakes(self) -> dict[str, Any]:
        looked, classes = self.evaluated, self.recognizer.classes
        found = mix_ups(looked, limit=MOST_MIX_UPS + 1)
        shown = [
            {
                "true": classes[one.true],
                "given": classes[one.given],
                "images": one.images,
                "of_true": one.of_true,
                "by_these": one.by_these,
                "example": looked.picture(one.example),
                "file": shown_name(looked.name(one.example)),
                "true_case": self.case(one.true, one.true_case),
                "given_case": self.case(one.given, one.given_case),
                "own_similarity": float(looked.own_similarity[one.example]),
                "similarity": float(looked.decision.similarity[one.example]),
            }
            for one in found[:MOST_MIX_UPS]
        ]
        more = f"The {MOST_MIX_UPS} most frequent." if len(found) > MOST_MIX_UPS else None
        return {"mix_ups": shown, "more_mix_ups": more}

    def _ambiguous(self) -> list[dict[str, Any]]:
        looked, decision = self.evaluated, self.evaluated.decision
        return [
            {
                "picture": looked.picture(row),
                "file": shown_name(looked.name(row)),
                "margin": float(decision.margin[row]),
                "case": self._link(int(decision.label[row]), int(decision.subcentroid[row])),
                "rival": self._link(
                    int(decision.rival_label[row]), int(decision.rival_subcentroid[row])
                ),
                "right": bool(decision.label[row] == looked.labels[row]),
                "true": self.recognizer.classes[int(looked.labels[row])],
            }
            for row in most_ambiguous(looked, limit=MOST_AMBIGUOUS)
        ]

    def _training(self) -> dict[str, Any]:
        """Label suspects, and images that are in both sets."""
        trained, classes = self.trained, self.recognizer.classes
        if trained is None:
            return {"suspects": None}
        rows, gap = label_suspects(trained)
        suspects = [
            {
                "picture": trained.picture(row),
                "file": shown_name(trained.name(row)),
                "true": classes[int(trained.labels[row])],
                "gap": f"{float(gap[row]):.3f}" if math.isfinite(float(gap[row])) else "any",
                "case": self._link(
                    int(trained.decision.label[row]), int(trained.decision.subcentroid[row])
                ),
            }
            for row in rows[:MOST_SUSPECTS]
        ]
        return {
            "suspects": suspects,
            "suspects_total": len(rows),
            "trained": len(trained),
            **self._leaks(trained),
        }

    def _leaks(self, trained: Looked) -> dict[str, Any]:
        evaluated = self.evaluated
        if evaluated.part == trained.part:
            return {"leaks": None}
        found = leaks(evaluated.images, trained.images)
        row_of = {int(position): row for row, position in enumerate(evaluated.position)}
        shown = []
        for leak in found[:MOST_LEAKS]:
            label = evaluated.images.classes[evaluated.images.labels[leak.evaluated]]
            other = trained.images.classes[trained.images.labels[leak.trained]]
            row = row_of.get(leak.evaluated)
            shown.append(
                {
                    "picture": Shown(None) if row is None else evaluated.picture(row),
                    "file": shown_name(evaluated.images.names[leak.evaluated]),
                    "other": shown_name(trained.images.names[leak.trained]),
                    "contradiction": label != other,
                    "label": label,
                    "other_label": other,
                }
            )
        return {"leaks": shown, "leaks_total": len(found)}

    def _health(self) -> dict[str, Any]:
        state = case_health(self.head.centroids.cpu(), self.head.occupied.cpu(), self.record)
        lists = (
            ("Cases that have decided nothing", state.idle),
            ("Cases that were wrong more often than right", state.mostly_wrong),
            (
                "Cases that are nearly the same as another of their class (cosine above 0.98)",
                [(c, k) for c, *both in state.twins for k in both],
            ),
        )
        return {
            "figures": self._health_figures(state),
            "lists": [
                {
                    "name": f"{name}: {len(cases):,}",
                    "cases": [self._link(*place) for place in cases[:MOST_NAMED]],
                    "more": max(0, len(cases) - MOST_NAMED),
                }
                for name, cases in lists
                if cases
            ],
        }

    def _health_figures(self, state: CaseHealth) -> list[dict[str, str]]:
        siblings = state.sibling[state.sibling.isfinite()]
        valid = int(self.head.valid.sum())
        figures = [
            {"name": f"of {valid:,} sub-centroids can decide", "value": f"{len(self.places):,}"},
            {"name": "have decided nothing here", "value": f"{len(state.idle):,}"},
            {"name": "wrong more often than right", "value": f"{len(state.mostly_wrong):,}"},
            {"name": "pairs that are nearly the same", "value": f"{len(state.twins):,}"},
        ]
        if len(siblings):
            mean = float(siblings.mean())
            figures.append({"name": "mean cosine inside a class", "value": f"{mean:.3f}"})
        return figures


def _per_class(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {
            "name": result.name,
            "images": result.images,
            "recall": _percent(result.recall),
            "precision": _percent(result.precision),
        }
        for result in evaluation.per_class
    ]


def _told_of_class(cases: int, images: int, recall: float) -> str:
    told = f"{cases} {'case' if cases == 1 else 'cases'}"
    return f"{told}, {_percent(recall)} of {images:,} images right" if images else told


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if math.isfinite(share) else "–"  # noqa: RUF001
