from dataclasses import replace

import numpy as np
import pytest
import torch

from dnc.data import open_data
from dnc.report.findings import (
    CaseRecord,
    case_health,
    label_suspects,
    leaks,
    mix_ups,
    most_ambiguous,
)
from dnc.report.layout import layout
from tests.data.drawings import draw_folder
from tests.report.models import made_features, made_images, made_looked, made_recognizer

CLASSES = ("red", "green", "blue", "grey")


@pytest.fixture(scope="module")
def world():
    images = made_images(CLASSES, 30, seed=1)
    features = made_features(images, noise=0.35, seed=2)
    recognizer = made_recognizer(images, features)
    return recognizer, made_looked(recognizer, "test", images, features)


def similarities(recognizer, looked):
    return torch.einsum("nd,ckd->nck", looked.x, recognizer.model.head.centroids)


def test_each_decision_is_counted_for_the_case_that_made_it(world):
    recognizer, looked = world
    record = CaseRecord.of(looked, recognizer.model.head.occupied.shape)
    cosine = similarities(recognizer, looked)
    for c in range(4):
        for k in range(2):
            mine = [
                row
                for row in range(len(looked))
                if int(cosine[row].flatten().argmax()) == 2 * c + k
            ]
            assert record.decides[c, k] == len(mine)
            assert record.rightly[c, k] == sum(int(looked.labels[row]) == c for row in mine)


def test_mix_ups_are_the_mistakes_and_their_two_cases(world):
    recognizer, looked = world
    cosine = similarities(recognizer, looked)
    found = mix_ups(looked, limit=100)
    wrong = int((looked.decision.label != looked.labels).sum())
    assert wrong > 3
    assert sum(one.images for one in found) == wrong
    assert [one.images for one in found] == sorted((one.images for one in found), reverse=True)
    for one in found:
        assert one.by_these <= one.images <= one.of_true == 30
        row = one.example
        assert int(looked.labels[row]) == one.true
        assert int(cosine[row, one.true].argmax()) == one.true_case
        assert int(cosine[row].flatten().argmax()) == 2 * one.given + one.given_case
    assert mix_ups(looked, limit=1) == found[:1]


def test_the_most_ambiguous_have_the_smallest_margins(world):
    recognizer, looked = world
    scores = similarities(recognizer, looked).amax(dim=2).sort(dim=1, descending=True).values
    margin = scores[:, 0] - scores[:, 1]
    expected = margin.argsort()[:7].tolist()
    assert most_ambiguous(looked, limit=7) == expected


def test_suspects_are_nearer_to_another_class_and_the_furthest_come_first(world):
    recognizer, looked = world
    own = similarities(recognizer, looked).amax(dim=2)
    rows, gap = label_suspects(looked)
    by_hand = {
        row: float(own[row].max() - own[row, looked.labels[row]])
        for row in range(len(looked))
        if int(own[row].argmax()) != int(looked.labels[row])
    }
    assert sorted(rows) == sorted(by_hand)
    gaps = [float(gap[row]) for row in rows]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps == pytest.approx([by_hand[row] for row in rows], abs=1e-6)


def test_a_wrong_label_is_suspected_first():
    images = made_images(CLASSES, 20, seed=1)
    features = made_features(images, noise=0.05, seed=2)
    labels = features.labels.clone()
    labels[7] = 3  # of the first class
    recognizer = made_recognizer(images, features)
    looked = made_looked(recognizer, "train", images, replace(features, labels=labels))
    rows, _ = label_suspects(looked)
    assert rows == [7]


def test_leaks_are_files_with_the_same_bytes(tmp_path):
    draw_folder(tmp_path / "train", {"red": 4, "green": 4})
    draw_folder(tmp_path / "test", {"red": 3, "green": 3}, seed=1)
    content = (tmp_path / "train" / "red" / "0002.png").read_bytes()
    (tmp_path / "test" / "green" / "0001.png").write_bytes(content)
    splits = open_data(tmp_path)
    found = leaks(splits.test, splits.train)
    assert [
        (splits.test.names[leak.evaluated], splits.train.names[leak.trained]) for leak in found
    ] == [("test/green/0001.png", "train/red/0002.png")]


def test_leaks_of_arrays_are_equal_pixels():
    trained = made_images(CLASSES, 5, seed=1)
    tested = made_images(CLASSES, 5, seed=2)
    assert leaks(tested, trained) == []
    tested.pixels[3] = trained.pixels[11]
    assert [(leak.evaluated, leak.trained) for leak in leaks(tested, trained)] == [(3, 11)]


def test_health_finds_idle_wrong_and_twin_cases():
    p = torch.nn.functional.normalize(torch.randn(2, 3, 8), dim=-1)
    p[0, 1] = p[0, 0]
    occupied = torch.tensor([[True, True, True], [True, True, False]])
    record = CaseRecord(
        decides=torch.tensor([[4, 0, 2], [3, 1, 0]]), rightly=torch.tensor([[4, 0, 1], [1, 1, 0]])
    )
    state = case_health(p, occupied, record)
    assert state.idle == [(0, 1)]
    assert state.mostly_wrong == [(1, 0)]
    assert (0, 0, 1) in state.twins
    assert state.sibling[1] == pytest.approx(float(p[1, 0] @ p[1, 1]), abs=1e-6)


def test_the_map_is_the_same_each_time_and_keeps_classes_together(world):
    recognizer, _ = world
    images = made_images(CLASSES, 30, seed=3)
    looked = made_looked(recognizer, "test", images, made_features(images, noise=0.05, seed=4))
    p = recognizer.model.head.centroids
    cases = [(c, k) for c in range(4) for k in range(2)]
    one, other = layout(looked, p, cases), layout(looked, p, cases)
    assert np.array_equal(one.row_places, other.row_places)
    assert one.row_places.min() >= 0
    assert one.row_places.max() <= 1
    # The nearest case on the map is mostly a case of the image's class.
    gaps = np.linalg.norm(one.row_places[:, None] - one.case_places[None], axis=2)
    nearest = [cases[i][0] for i in gaps.argmin(axis=1)]
    assert np.mean(np.array(nearest) == looked.labels[one.rows].numpy()) > 0.8


def test_a_map_of_a_few_points_or_one_dimension_is_still_a_map():
    images = made_images(("a", "b"), 2, seed=1)
    for dim in (1, 3):
        features = made_features(images, noise=0.1, seed=2, dim=dim)
        recognizer = made_recognizer(images, features, k=1)
        looked = made_looked(recognizer, "test", images, features)
        found = layout(looked, recognizer.model.head.centroids, [(0, 0)])
        assert np.isfinite(found.row_places).all()
        assert found.case_places.shape == (1, 2)
