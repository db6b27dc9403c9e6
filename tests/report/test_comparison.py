import copy
import json
from dataclasses import replace

import pytest
import torch

from dnc.errors import InvalidModel
from dnc.report.comparison import paired_cases
from dnc.report.differing import Difference
from tests.report.models import made_features, made_images, made_looked, made_recognizer

CLASSES = ("red", "green", "blue")


@pytest.fixture(scope="module")
def world():
    images = made_images(CLASSES, 40, seed=1)
    features = made_features(images, noise=0.3, seed=2)
    return images, features, made_recognizer(images, features)


def difference(world, other):
    images, features, recognizer = world
    looked = tuple(made_looked(one, "test", images, features) for one in (recognizer, other))
    return Difference(("before", "after"), (recognizer, other), looked)


def with_centroids(recognizer, change):
    """A copy of a recognizer with its sub-centroids changed."""
    other = copy.deepcopy(recognizer)
    change(other.model.head)
    return other


def test_a_model_differs_in_nothing_from_itself(world):
    found = difference(world, world[2])
    assert found.counts() == {"moved": 0, "came": 0, "went": 0, "stayed": 6}
    changes = found.changes
    assert (changes.mended, changes.broken, changes.otherwise, changes.other_case) == (
        [],
        [],
        [],
        0,
    )
    assert all(pair.shared == 1 for pair in found.pairs)


def test_cases_in_another_order_have_stayed(world):
    recognizer = world[2]
    other = with_centroids(
        recognizer, lambda head: head.centroids.copy_(head.centroids.flip(1).clone())
    )
    swapped = tuple(
        replace(case, subcentroid=1 - case.subcentroid) for case in recognizer.cases.cases
    )
    other = replace(other, cases=replace(recognizer.cases, cases=swapped))
    found = difference(world, other)
    assert found.counts()["stayed"] == 6
    assert found.changes.other_case == 0
    assert {(pair.before, pair.after) for pair in found.pairs} == {
        ((c, k), (c, 1 - k)) for c in range(3) for k in range(2)
    }


def test_a_case_behind_another_image_has_moved_and_a_missing_one_has_gone(world):
    images, features, recognizer = world
    cases = list(recognizer.cases.cases)
    cases[0] = replace(cases[0], sha256="0" * 64, file="elsewhere.png")
    moved = replace(recognizer, cases=replace(recognizer.cases, cases=tuple(cases)))
    found = difference(world, moved)
    assert found.counts() == {"moved": 1, "came": 0, "went": 0, "stayed": 5}

    def lose_one(head):
        head.occupied[2, 1] = False

    fewer = with_centroids(recognizer, lose_one)
    assert difference(world, fewer).counts()["went"] == 1
    images_of = tuple(made_looked(one, "test", images, features) for one in (fewer, recognizer))
    pairs = paired_cases((fewer, recognizer), images_of)
    assert [(pair.what, pair.after) for pair in pairs if pair.before is None] == [("came", (2, 1))]


def test_changed_decisions_are_those_whose_class_is_another(world):
    images, _, recognizer = world

    def confuse(head):
        head.centroids[0] = torch.nn.functional.normalize(
            head.centroids[0] + head.centroids[1], dim=-1
        )

    other = with_centroids(recognizer, confuse)
    found = difference(world, other)
    old, new = (looked.decision.label for looked in found.looked)
    truth = torch.from_numpy(images.labels)
    assert found.changes.mended == ((old != truth) & (new == truth)).nonzero()[:, 0].tolist()
    assert found.changes.broken == ((old == truth) & (new != truth)).nonzero()[:, 0].tolist()
    assert len(found.changes.broken) > 0
    both = (old != new) & (old != truth) & (new != truth)
    assert found.changes.otherwise == both.nonzero()[:, 0].tolist()


def test_models_of_other_classes_are_not_compared(world):
    recognizer = world[2]
    other = replace(recognizer, classes=("red", "green", "pink"))
    with pytest.raises(InvalidModel, match="only the second has pink"):
        difference(world, other)
    with pytest.raises(InvalidModel, match="order differs"):
        difference(world, replace(recognizer, classes=CLASSES[::-1]))


def test_page_and_json_say_the_same(world, tmp_path):
    _, _, recognizer = world

    def confuse(head):
        head.centroids[0] = head.centroids[1].flip(0)

    found = difference(world, with_centroids(recognizer, confuse))
    page, data = found.write(tmp_path / "diff")
    tree = json.loads(data.read_text())
    assert len(tree["decisions"]["broken"]) == len(found.changes.broken)
    assert tree["accuracy"]["before"] > tree["accuracy"]["after"]
    text = page.read_text()
    assert f"Right before, wrong now: {len(found.changes.broken)}" in text
    assert "<script" not in text


def test_a_case_that_is_still_the_same_image_has_stayed_whatever_it_stands_for_now(world):
    other = with_centroids(
        world[2], lambda head: head.centroids.copy_(head.centroids.flip(1).clone())
    )
    found = difference(world, other)
    assert found.counts()["stayed"] == 6
    assert all(pair.before == pair.after for pair in found.pairs)
    assert min(pair.shared for pair in found.pairs) < 0.5


def test_cases_of_a_class_without_images_here_have_neither_come_nor_gone(world):
    images, features, recognizer = world
    some = (features.labels != 2).nonzero()[:, 0]
    fewer = replace(
        features, rows=features.rows[some], labels=features.labels[some], ids=features.ids[some]
    )
    elsewhere = [
        replace(case, sha256=f"{number:064}", file=f"{number}.png")
        for number, case in enumerate(recognizer.cases.cases)
    ]
    other = replace(recognizer, cases=replace(recognizer.cases, cases=tuple(elsewhere)))
    looked = tuple(made_looked(one, "test", images, fewer) for one in (recognizer, other))
    found = Difference(("before", "after"), (recognizer, other), looked)
    assert found.counts() == {"moved": 6, "came": 0, "went": 0, "stayed": 0}
    assert "share 0 %" not in found.html()
