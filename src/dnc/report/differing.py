"""`dnc diff`: what is different between two models, on one page and in JSON."""

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dnc.explanation.cases import shown_name
from dnc.explanation.pages import Shown, rendered
from dnc.files import whole_file
from dnc.recognition import Recognizer
from dnc.report.comparison import (
    CasePair,
    Changes,
    changed_decisions,
    common_rows,
    paired_cases,
    require_comparable,
)
from dnc.report.looking import Looked

MOST_SHOWN = 60
WHAT = ("moved", "came", "went", "stayed")
DECISIONS = {"broken": "Right before, wrong now", "mended": "Wrong before, right now"}


@dataclass(frozen=True, eq=False)
class Difference:
    """Two models and what they make of the same images.

    Attributes:
        names: what the models are called.
        recognizers: the first model and the second.
        looked: what each makes of the images.
    """

    names: tuple[str, str]
    recognizers: tuple[Recognizer, Recognizer]
    looked: tuple[Looked, Looked]

    def __post_init__(self) -> None:
        """Raises unless the models can be compared."""
        require_comparable(*self.recognizers)

    @cached_property
    def pairs(self) -> list[CasePair]:
        """What became of each case."""
        return paired_cases(self.recognizers, self.looked)

    @cached_property
    def changes(self) -> Changes:
        """The decisions that have changed."""
        return changed_decisions(*self.looked, self.pairs)

    def accuracies(self) -> tuple[float, float]:
        """The share of right decisions of each model."""
        one, other = (float((of.decision.label == of.labels).double().mean()) for of in self.looked)
        return one, other

    def counts(self) -> dict[str, int]:
        """How many cases stayed, moved, came and went."""
        return {what: sum(pair.what == what for pair in self.pairs) for what in WHAT}

    def figures(self) -> list[tuple[str, str]]:
        """What has changed, in figures with their names."""
        before, after = self.accuracies()
        changes = self.changes
        return [
            (f"right with {self.names[0]}", f"{100 * before:.2f} %"),
            (f"right with {self.names[1]}", f"{100 * after:.2f} %"),
            ("wrong before, right now", f"{len(changes.mended):,}"),
            ("right before, wrong now", f"{len(changes.broken):,}"),
            ("wrong in another way", f"{len(changes.otherwise):,}"),
            ("the same class by another image", f"{changes.other_case:,}"),
            *((f"cases {what}", f"{number:,}") for what, number in self.counts().items()),
        ]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON knows it."""
        before, after = self.accuracies()
        changes, rows = self.changes, self.looked[0]
        decisions = {
            what: [self._decision(row) for row in getattr(changes, what)]
            for what in ("mended", "broken", "otherwise")
        }
        return {
            "before": self.names[0],
            "after": self.names[1],
            "part": rows.part,
            "images": len(common_rows(*self.looked)[0]),
            "accuracy": {"before": before, "after": after},
            "cases": [
                {
                    "what": pair.what,
                    "class": self.recognizers[0].classes[(pair.before or pair.after or (0, 0))[0]],
                    "before": self._case(0, pair.before),
                    "after": self._case(1, pair.after),
                    "shared": round(pair.shared, 4),
                }
                for pair in self.pairs
            ],
            "decisions": {**decisions, "same_class_by_another_case": changes.other_case},
        }

    def write(self, folder: Path) -> list[Path]:
        """Writes `diff.html` and `diff.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "diff.html": self.html(),
            "diff.json": json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n",
        }
        for name, text in texts.items():
            with whole_file(folder / name) as unfinished:
                unfinished.write_text(text, encoding="utf-8", errors="backslashreplace")
        return [folder / name for name in texts]

    def html(self) -> str:
        """The page."""
        counts, changes = self.counts(), self.changes
        return rendered(
            "diff.html",
            styles=("base.css", "report.css"),
            names=self.names,
            images=len(common_rows(*self.looked)[0]),
            part=self.looked[0].part,
            natures=[
                {"name": name, "is_anchored": recognizer.cases.is_anchored}
                for name, recognizer in zip(self.names, self.recognizers, strict=True)
                if recognizer.cases is not None
            ],
            figures=[{"name": name, "value": value} for name, value in self.figures()],
            decisions=[
                {
                    "id": what,
                    "name": name,
                    "total": len(getattr(changes, what)),
                    "images": [
                        {**self._decision(row), "picture": self.looked[0].picture(row)}
                        for row in self._clearest(getattr(changes, what))
                    ],
                }
                for what, name in DECISIONS.items()
            ],
            cases=[self._group(what, counts[what]) for what in WHAT[:3]],
        )

    def _clearest(self, rows: list[int]) -> list[int]:
        """Of many rows those of which the second model is surest."""
        margin = {row: self._after(row)[1] for row in rows}
        return sorted(rows, key=lambda row: -margin[row])[:MOST_SHOWN]

    def _after(self, row: int) -> tuple[int, float]:
        """The class and margin that the second model gives to a row of the first."""
        other = self._row_after[row]
        decision = self.looked[1].decision
        return int(decision.label[other]), float(decision.margin[other])

    @cached_property
    def _row_after(self) -> dict[int, int]:
        rows, others = common_rows(*self.looked)
        return dict(zip(rows.tolist(), others.tolist(), strict=True))

    def _decision(self, row: int) -> dict[str, Any]:
        before, classes = self.looked[0], self.recognizers[0].classes
        label, margin = self._after(row)
        return {
            "file": shown_name(before.name(row)),
            "true": classes[int(before.labels[row])],
            "before": classes[int(before.decision.label[row])],
            "before_margin": _finite(float(before.decision.margin[row])),
            "after": classes[label],
            "after_margin": _finite(margin),
        }

    def _case(self, which: int, place: tuple[int, int] | None) -> dict[str, Any] | None:
        if place is None:
            return None
        recognizer = self.recognizers[which]
        known = None if recognizer.cases is None else recognizer.cases.by_place.get(place)
        return {
            "name": recognizer.case_name(*place),
            "file": "" if known is None else known.file,
            "sha256": None if known is None else known.sha256,
        }

    def _group(self, what: str, total: int) -> dict[str, Any]:
        pairs = [pair for pair in self.pairs if pair.what == what][:MOST_SHOWN]
        return {
            "id": what,
            "name": what,
            "total": total,
            "pairs": [
                {
                    "class_name": self.recognizers[0].classes[
                        (pair.before or pair.after or (0, 0))[0]
                    ],
                    "shared": pair.shared or None,
                    "sides": [
                        self._side(which, place, when)
                        for which, (place, when) in enumerate(
                            ((pair.before, "before"), (pair.after, "now"))
                        )
                    ],
                }
                for pair in pairs
            ],
        }

    def _side(self, which: int, place: tuple[int, int] | None, when: str) -> dict[str, Any] | None:
        told = self._case(which, place)
        if told is None or place is None:
            return None
        cases = self.recognizers[which].cases
        picture = Shown.of_case(None if cases is None else cases.by_place.get(place))
        return {**told, "picture": picture, "when": when}


def _finite(margin: float) -> float:
    """No other class can win: by as much as cosines can differ."""
    return margin if math.isfinite(margin) else 2.0
