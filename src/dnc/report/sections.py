"""The sections of a report: its cases, and what is worth a look in the images."""

import math
from typing import Any

from dnc.explanation.cases import shown_name
from dnc.explanation.pages import Shown
from dnc.explanation.rules import NAMED_RIVALS, Rules
from dnc.report.figures import percent
from dnc.report.findings import (
    CaseHealth,
    case_health,
    label_suspects,
    leaks,
    mix_ups,
    most_ambiguous,
)
from dnc.report.looking import Looked
from dnc.report.subject import Subject

MOST_MIX_UPS, MOST_AMBIGUOUS, MOST_SUSPECTS, MOST_LEAKS, MOST_NAMED = 20, 24, 48, 24, 200


def classes(subject: Subject) -> list[dict[str, Any]]:
    """The gallery: the cases of each class, with their rules."""
    rules = Rules.of(subject.head, subject.recognizer.classes)
    rivals = rules.nearest_rivals(NAMED_RIVALS)
    numbers = subject.head.occupied.sum(dim=1).cpu()
    total = int(numbers.sum())
    by_class: dict[int, list[dict[str, Any]]] = {}
    for c, k in subject.places:
        named = rivals[c, k]
        by_class.setdefault(c, []).append(
            {
                **subject.case(c, k),
                "rivals": [subject.link(*rival) for rival in named],
                "rest": total - int(numbers[c]) - len(named),
            }
        )
    return [
        {
            "name": result.name,
            "told": _told_of_class(len(by_class.get(c, [])), result.images, result.recall),
            "cases": by_class.get(c, []),
        }
        for c, result in enumerate(subject.evaluation.per_class)
    ]


def mistakes(subject: Subject) -> dict[str, Any]:
    """The classes that get mixed up most often, each with the two cases behind it."""
    looked, classes = subject.evaluated, subject.recognizer.classes
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
            "true_case": subject.case(one.true, one.true_case),
            "given_case": subject.case(one.given, one.given_case),
            "own_similarity": float(looked.own_similarity[one.example]),
            "similarity": float(looked.decision.similarity[one.example]),
        }
        for one in found[:MOST_MIX_UPS]
    ]
    more = f"The {MOST_MIX_UPS} most frequent." if len(found) > MOST_MIX_UPS else None
    return {"mix_ups": shown, "more_mix_ups": more}


def ambiguous(subject: Subject) -> list[dict[str, Any]]:
    """The images of which the model is least sure."""
    looked, decision = subject.evaluated, subject.evaluated.decision
    return [
        {
            "picture": looked.picture(row),
            "file": shown_name(looked.name(row)),
            "margin": float(decision.margin[row]),
            "case": subject.link(int(decision.label[row]), int(decision.subcentroid[row])),
            "rival": subject.link(
                int(decision.rival_label[row]), int(decision.rival_subcentroid[row])
            ),
            "right": bool(decision.label[row] == looked.labels[row]),
            "true": subject.recognizer.classes[int(looked.labels[row])],
        }
        for row in most_ambiguous(looked, limit=MOST_AMBIGUOUS)
    ]


def training(subject: Subject) -> dict[str, Any]:
    """Label suspects, and images that are in both sets."""
    trained, classes = subject.trained, subject.recognizer.classes
    if trained is None:
        return {"suspects": None}
    rows, gap = label_suspects(trained)
    suspects = [
        {
            "picture": trained.picture(row),
            "file": shown_name(trained.name(row)),
            "true": classes[int(trained.labels[row])],
            "gap": f"{float(gap[row]):.3f}" if math.isfinite(float(gap[row])) else "any",
            "case": subject.link(
                int(trained.decision.label[row]), int(trained.decision.subcentroid[row])
            ),
        }
        for row in rows[:MOST_SUSPECTS]
    ]
    return {
        "suspects": suspects,
        "suspects_total": len(rows),
        "trained": len(trained),
        **_leaks(subject, trained),
    }


def _leaks(subject: Subject, trained: Looked) -> dict[str, Any]:
    evaluated = subject.evaluated
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


def health(subject: Subject) -> dict[str, Any]:
    """Cases that decide nothing, are mostly wrong or nearly the same as another."""
    state = case_health(subject.head.centroids.cpu(), subject.head.occupied.cpu(), subject.record)
    lists = (
        ("Cases that have decided nothing", state.idle),
        ("Cases that were wrong more often than right", state.mostly_wrong),
        (
            "Cases that are nearly the same as another of their class (cosine above 0.98)",
            [(c, k) for c, *both in state.twins for k in both],
        ),
    )
    return {
        "figures": _health_figures(subject, state),
        "lists": [
            {
                "name": f"{name}: {len(cases):,}",
                "cases": [subject.link(*place) for place in cases[:MOST_NAMED]],
                "more": max(0, len(cases) - MOST_NAMED),
            }
            for name, cases in lists
            if cases
        ],
    }


def _health_figures(subject: Subject, state: CaseHealth) -> list[dict[str, str]]:
    siblings = state.sibling[state.sibling.isfinite()]
    valid = int(subject.head.valid.sum())
    figures = [
        {"name": f"of {valid:,} sub-centroids can decide", "value": f"{len(subject.places):,}"},
        {"name": "have decided nothing here", "value": f"{len(state.idle):,}"},
        {"name": "wrong more often than right", "value": f"{len(state.mostly_wrong):,}"},
        {"name": "pairs that are nearly the same", "value": f"{len(state.twins):,}"},
    ]
    if len(siblings):
        mean = float(siblings.mean())
        figures.append({"name": "mean cosine inside a class", "value": f"{mean:.3f}"})
    return figures


def _told_of_class(cases: int, images: int, recall: float) -> str:
    told = f"{cases} {'case' if cases == 1 else 'cases'}"
    return f"{told}, {percent(recall)} of {images:,} images right" if images else told
