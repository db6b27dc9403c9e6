"""Recomputes from the JSON of explanations alone whether they are the decisions themselves.

`python -m benchmarks.truth explanation/explanation.json ...`
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Truth:
    """How many explanations of how many images are true."""

    images: int
    shown_case_decides: int
    rules_are_the_prediction: int
    maps: int
    maps_that_add_up: int


def truth_of(tree: Mapping[str, Any]) -> Truth:
    """Looks at every image of an explanation, as slowly and obviously as can be."""
    cases = tree["model"]["cases"]
    order = {name: number for number, name in enumerate(tree["model"]["classes"])}
    maps = [one for image in tree["images"] for one in _exact_maps(image)]
    return Truth(
        images=len(tree["images"]),
        shown_case_decides=sum(_shown_case_decides(image, cases) for image in tree["images"]),
        rules_are_the_prediction=sum(
            _rules_are_the_prediction(image, cases, order) for image in tree["images"]
        ),
        maps=len(maps),
        maps_that_add_up=sum(abs(total - similarity) < 1e-5 for total, similarity in maps),
    )


def _shown_case_decides(image: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> bool:
    """The case that is shown first is the nearest of all, and is the case of the class."""
    nearest = max(range(len(cases)), key=lambda i: (image["similarities"][i], -i))
    shown = image["evidence"][0]
    return (
        shown["case"] == image["case"] == cases[nearest]["case"]
        and shown["class"] == image["class"] == cases[nearest]["class"]
        and shown["similarity"] == image["similarity"] == image["similarities"][nearest]
    )


def _rules_are_the_prediction(
    image: Mapping[str, Any], cases: Sequence[Mapping[str, Any]], order: Mapping[str, int]
) -> bool:
    """The rules that hold, word by word, are those that are told, and all of the class given."""
    holding = []
    for case, mine in zip(cases, image["similarities"], strict=True):
        wins = True
        for rival, other in zip(cases, image["similarities"], strict=True):
            if rival["class"] != case["class"]:
                first = order[case["class"]] < order[rival["class"]]
                wins = wins and (mine > other or (mine == other and first))
        if wins:
            holding.append(case)
    return [case["case"] for case in holding] == image["rules_that_hold"] and {
        case["class"] for case in holding
    } == {image["class"]}


def _exact_maps(image: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Sums of the maps that are said to add up, and what they are to add up to."""
    similarity = {one["case"]: one["similarity"] for one in image["evidence"]}
    return [
        (sum(map(sum, one["on_query"])), similarity[one["case"]])
        for one in image["maps"]
        if one["adds_up_to_similarity"]
    ]


def main() -> None:
    """Prints the truth of each file."""
    for name in sys.argv[1:]:
        truth = truth_of(json.loads(Path(name).read_text(encoding="utf-8")))
        print(
            f"{name}: {truth.images:,} images; the shown case decides in "
            f"{truth.shown_case_decides:,}, the rules are the prediction in "
            f"{truth.rules_are_the_prediction:,}, {truth.maps_that_add_up:,} of {truth.maps:,} "
            "maps add up"
        )


if __name__ == "__main__":
    main()
