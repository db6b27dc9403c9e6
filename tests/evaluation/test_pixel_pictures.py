import csv
import io
import json
import math

import numpy as np
import pytest
import torch
from PIL import Image

from dnc.errors import InvalidSetting
from dnc.evaluation import PixelTally, write_pixel_evaluation
from dnc.evaluation.pixel_pictures import pixel_classes_figure, pixel_confusion_figure

FIGURES = (pixel_confusion_figure, pixel_classes_figure)


def evaluated(c, names=None):
    generator = torch.Generator().manual_seed(c)
    labels = torch.randint(c, (2, 40, 60), generator=generator)
    predicted = torch.randint(c, labels.shape, generator=generator)
    predicted = torch.where(torch.rand(labels.shape, generator=generator) < 0.6, labels, predicted)
    predicted[:, :2] = -1
    tally = PixelTally(c)
    tally.add(predicted, labels)
    return tally.result(names or [f"class {number}" for number in range(c)])


def texts(labels):
    return [label.get_text() for label in labels]


@pytest.mark.parametrize("picture", FIGURES)
@pytest.mark.parametrize("c", [1, 2, 37, 200])
def test_any_number_of_classes_can_be_drawn(picture, c):
    picture(evaluated(c)).savefig(io.BytesIO(), dpi=30, format="png")


@pytest.mark.parametrize("c", [3, 70])
def test_the_confusion_picture_shows_the_share_of_each_class_once(c):
    evaluation = evaluated(c)
    shown = sum(
        picture.get_array().filled(0)
        for picture in pixel_confusion_figure(evaluation).axes[0].images
    )
    pixels = [result.pixels for result in evaluation.per_class]
    np.testing.assert_allclose(shown, evaluation.confusion.numpy() / np.array(pixels)[:, None])


def test_percents_of_the_row_are_written_where_they_belong_and_none_that_would_be_zero():
    labels = torch.tensor([0] * 10_000 + [1] * 100)
    given = torch.tensor([0] * 9_400 + [1] * 596 + [2] * 4 + [1] * 100)
    tally = PixelTally(3)
    tally.add(given, labels)
    figure = pixel_confusion_figure(tally.result(["a", "b", "c"]))
    written = {text.get_position(): text.get_text() for text in figure.axes[0].texts}
    assert written == {(0, 0): "94", (1, 0): "6.0", (2, 0): "", (1, 1): "100"}
    assert "in % of a row" in figure.axes[0].get_title()
    assert "in % of a row" not in pixel_confusion_figure(evaluated(70)).axes[0].get_title()


def test_classes_are_listed_from_the_lowest_iou_on_and_those_that_do_not_occur_last():
    tally = PixelTally(4)
    tally.add(torch.tensor([3] * 1999 + [2, 0, 3]), torch.tensor([3] * 2000 + [0, 0]))
    figure = pixel_classes_figure(tally.result(["d", "b", "c", "a"]))
    ax = figure.axes[0]
    assert texts(ax.get_yticklabels()) == ["c", "d", "a", "b"]
    assert [bar.get_width() for bar in ax.patches] == [0, 0.5, 1999 / 2001, 0]
    assert texts(ax.texts) == ["none", "0.1 %", "100 %", "none"]
    accuracy, _ = ax.lines[0].get_data()
    np.testing.assert_array_equal(accuracy, [math.nan, 0.5, 1999 / 2000, math.nan])
    assert ax.lines[1].get_xdata()[0] == pytest.approx((0 + 0.5 + 1999 / 2001) / 3)


def test_more_classes_than_the_limit_show_the_lowest():
    evaluation = evaluated(30)
    whole, part = pixel_classes_figure(evaluation), pixel_classes_figure(evaluation, limit=8)
    assert texts(part.axes[0].get_yticklabels()) == texts(whole.axes[0].get_yticklabels())[:8]
    assert "the 8 lowest of 30" in part.get_suptitle()
    with pytest.raises(InvalidSetting, match="limit is 0"):
        pixel_classes_figure(evaluation, limit=0)


def test_undecided_pixels_are_said_where_there_are_any():
    assert "5.0 % undecided" in pixel_classes_figure(evaluated(3)).get_suptitle()
    tally = PixelTally(1)
    tally.add(torch.zeros(4, 4, dtype=torch.long), torch.zeros(4, 4, dtype=torch.long))
    assert "undecided" not in pixel_classes_figure(tally.result(["a"])).get_suptitle()


def test_what_is_written_says_what_was_evaluated_and_replaces_what_was_there(tmp_path):
    evaluation = evaluated(5, ["猫", "a,b", 'q"', "кошка", "x\ny"])
    folder = tmp_path / "new" / "evaluation"
    write_pixel_evaluation(evaluated(2), folder)
    (folder / "old.txt").touch()
    write_pixel_evaluation(evaluation, folder)

    assert sorted(path.name for path in folder.iterdir()) == [
        *("classes.csv", "classes.png", "confusion.png", "confusions.csv", "evaluation.json")
    ]
    assert json.loads((folder / "evaluation.json").read_text("utf-8")) == evaluation.to_dict()
    with (folder / "classes.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row, result in zip(rows, evaluation.per_class, strict=True):
        assert row == {
            "class": result.name,
            "pixels": str(result.pixels),
            "iou": str(result.iou),
            "accuracy": str(result.accuracy),
            "precision": str(result.precision),
        }
    with (folder / "confusions.csv").open(newline="", encoding="utf-8") as file:
        head, *mistakes = csv.reader(file)
    assert head == ["true", "predicted", "pixels"]
    assert [(true, given, int(n)) for true, given, n in mistakes] == evaluation.most_confused(99)
    for name in ("classes.png", "confusion.png"):
        Image.open(folder / name).verify()
