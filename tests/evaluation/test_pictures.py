import io
import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from dnc.errors import InvalidSetting
from dnc.evaluation import Tally
from dnc.evaluation.names import shown_names
from dnc.evaluation.pictures import confusion_figure, per_class_figure, reliability_figure

FIGURES = (confusion_figure, reliability_figure, per_class_figure)


def evaluated(c, names=None, rows=4):
    generator = torch.Generator().manual_seed(c)
    labels = torch.randint(c, (c * rows,), generator=generator)
    scores = torch.randn(c * rows, c, generator=generator)
    scores[torch.arange(c * rows), labels] += 2
    tally = Tally(c)
    tally.add(scores, labels)
    return tally.result(names or [f"class {number}" for number in range(c)])


def drawn(figure: Figure) -> Figure:
    figure.savefig(io.BytesIO(), dpi=30, format="png")
    return figure


def texts(labels):
    return [label.get_text() for label in labels]


@pytest.mark.parametrize("picture", FIGURES)
@pytest.mark.parametrize("c", [1, 2, 37, 200])
def test_any_number_of_classes_can_be_drawn(picture, c):
    drawn(picture(evaluated(c)))


@pytest.mark.parametrize("picture", FIGURES)
def test_names_in_any_script_and_with_signs_can_be_drawn(picture):
    names = ["猫", "Straßenbahn", "кошка", "$x_2^$", "a\tb\nc", "long " * 40, "", "\x00\x1b", "😀"]
    drawn(picture(evaluated(len(names), names)))


@pytest.mark.parametrize("picture", FIGURES)
def test_an_evaluation_without_any_answer_can_be_drawn(picture):
    tally = Tally(3)
    tally.add(torch.full((4, 3), -math.inf), torch.tensor([0, 0, 1, 1]))
    drawn(picture(tally.result(["a", "b", "c"])))


@pytest.mark.parametrize("c", [3, 70])
def test_the_confusion_picture_shows_the_share_of_each_row_once(c):
    evaluation = evaluated(c)
    pictures = confusion_figure(evaluation).axes[0].images
    shown = sum(picture.get_array().filled(0) for picture in pictures)
    counts = evaluation.confusion.numpy()
    np.testing.assert_allclose(shown, counts / counts.sum(axis=1, keepdims=True).clip(1))
    off_diagonal, on_diagonal = (picture.get_array().filled(0) for picture in pictures)
    assert not np.diag(off_diagonal).any()
    np.testing.assert_array_equal(on_diagonal, np.diag(np.diag(on_diagonal)))


def test_counts_are_written_where_they_belong():
    evaluation = evaluated(6)
    written = np.zeros((6, 6), dtype=int)
    for text in confusion_figure(evaluation).axes[0].texts:
        given, true = text.get_position()
        written[true, given] = int(text.get_text())
    np.testing.assert_array_equal(written, evaluation.confusion)


def test_many_classes_are_named_at_regular_steps_without_counts():
    ax = confusion_figure(evaluated(200)).axes[0]
    assert texts(ax.get_yticklabels()) == [f"class {number}" for number in range(0, 200, 4)]
    assert ax.get_yticks().tolist() == ax.get_xticks().tolist() == list(range(0, 200, 4))
    assert not ax.texts


def test_the_reliability_picture_shows_each_bin():
    calibration = (evaluation := evaluated(5, rows=100)).calibration
    upper, lower = reliability_figure(evaluation).axes
    filled = [number for number, count in enumerate(calibration.counts) if count]
    assert [bar.get_height() for bar in upper.patches] == [
        calibration.accuracy[number] for number in filled
    ]
    assert [bar.get_x() for bar in upper.patches] == [
        calibration.edges[number] for number in filled
    ]
    assert [bar.get_height() for bar in lower.patches] == list(calibration.counts)
    confidence, accuracy = upper.lines[0].get_data()
    assert confidence.tolist() == [calibration.confidence[number] for number in filled]
    assert accuracy.tolist() == [calibration.accuracy[number] for number in filled]


def test_classes_are_listed_from_the_lowest_recall_on_and_those_without_images_last():
    tally = Tally(4)
    tally.add(torch.eye(4)[[3, 3, 1, 0]], torch.tensor([3, 2, 1, 1]))
    ax = per_class_figure(tally.result(["d", "b", "c", "a"])).axes[0]
    assert texts(ax.get_yticklabels()) == ["c", "b", "a", "d"]
    assert [bar.get_width() for bar in ax.patches] == [0, 0.5, 1, 0]
    assert texts(ax.texts) == ["1", "2", "1", "none"]
    precision = ax.lines[0].get_xdata()
    np.testing.assert_array_equal(precision, [math.nan, 1, 0.5, 0])


def test_every_class_is_listed_once_over_the_columns():
    evaluation = evaluated(130)
    listed = [
        text for ax in per_class_figure(evaluation).axes for text in texts(ax.get_yticklabels())
    ]
    assert sorted(listed) == sorted(result.name for result in evaluation.per_class)


def test_more_classes_than_the_limit_show_the_lowest():
    evaluation = evaluated(30)
    whole, part = per_class_figure(evaluation), per_class_figure(evaluation, limit=8)
    assert texts(part.axes[0].get_yticklabels()) == texts(whole.axes[0].get_yticklabels())[:8]
    assert "the 8 lowest of 30" in part.get_suptitle()
    with pytest.raises(InvalidSetting, match="limit is 0"):
        per_class_figure(evaluation, limit=0)


def test_drawing_leaves_the_evaluation_as_it_was():
    evaluation = evaluated(12)
    before = evaluation.to_dict()
    for picture in FIGURES:
        drawn(picture(evaluation))
    assert evaluation.to_dict() == before


def test_names_are_shown_as_they_are_or_without_their_middle():
    long = "a" * 30 + "b" * 30
    shown = shown_names(["café", "кошка", long], longest=20)
    assert shown[:2] == ["café", "кошка"]
    assert len(shown[2]) == 20
    assert shown[2].startswith("aaaa")
    assert shown[2].endswith("bbbb")


def test_names_that_no_font_can_draw_stay_distinct():
    unassigned = ["\U0010fff0", "\U0010fff1", "", "\x07"]
    shown = shown_names(unassigned, longest=20)
    assert len(set(shown)) == len(shown)
    assert all(name.startswith(f"#{number}") for number, name in enumerate(shown))


@pytest.mark.parametrize("longest", [8, 9, 24])
def test_no_shown_name_is_longer_than_asked(longest):
    names = ["x" * length for length in range(1, 60)]
    assert all(len(shown) <= longest for shown in shown_names(names, longest=longest))
