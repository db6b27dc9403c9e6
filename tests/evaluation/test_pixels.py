import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torchmetrics import JaccardIndex
from torchmetrics.functional.classification import (
    multiclass_accuracy,
    multiclass_jaccard_index,
    multiclass_precision,
)
from torchmetrics.functional.segmentation import mean_iou

from dnc.errors import DNCError, InvalidData, InvalidInput, InvalidLabels, InvalidSetting
from dnc.evaluation import PixelEvaluation, PixelTally

IGNORED = -100


def drawn(shape, c, seed=0, right=0.6):
    """Classes given to pixels, right more often than by chance, and labels with some ignored."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(c, shape, generator=generator)
    predicted = torch.randint(c, shape, generator=generator)
    kept = torch.rand(shape, generator=generator) < right
    predicted = torch.where(kept, labels, predicted)
    ignored = torch.rand(shape, generator=generator) < 0.1
    return predicted, labels.masked_fill(ignored, IGNORED)


def names(c):
    return [f"class {number}" for number in range(c)]


def evaluated(predicted, labels, c) -> PixelEvaluation:
    tally = PixelTally(c)
    tally.add(predicted, labels)
    return tally.result(names(c))


def looped(predicted, labels, c):
    """The same, pixel by pixel and class by class."""
    pairs = list(zip(labels.flatten().tolist(), predicted.flatten().tolist(), strict=True))
    counted = [pair for pair in pairs if pair[0] >= 0]
    ious, accuracies, weighted = [], [], 0.0
    for number in range(c):
        own = [given for true, given in counted if true == number]
        union = [pair for pair in counted if number in pair]
        both = own.count(number)
        if union:
            ious.append(both / len(union))
            weighted += both / len(union) * len(own) / len(counted)
        if own:
            accuracies.append(both / len(own))
    return {
        "pixels": len(counted),
        "ignored_pixels": len(pairs) - len(counted),
        "undecided": sum(given == -1 for _, given in counted),
        "miou": sum(ious) / len(ious),
        "mean_accuracy": sum(accuracies) / len(accuracies),
        "pixel_accuracy": sum(true == given for true, given in counted) / len(counted),
        "frequency_weighted_iou": weighted,
        "confusion": [[counted.count((true, given)) for given in range(c)] for true in range(c)],
    }


def segmentations(c=4):
    shapes = arrays.array_shapes(min_dims=1, max_dims=3, max_side=5)

    def pair(shape):
        return st.tuples(
            arrays.arrays(np.int64, shape, elements=st.integers(-1, c - 1)),
            arrays.arrays(np.int64, shape, elements=st.sampled_from([IGNORED, -1, *range(c)])),
        )

    drawn_pairs = shapes.flatmap(pair).filter(lambda both: (both[1] >= 0).any())
    return drawn_pairs.map(lambda both: tuple(torch.from_numpy(part) for part in both))


@given(segmentations())
def test_the_counts_and_means_match_a_loop_over_pixels(both):
    got = evaluated(*both, 4).to_dict()
    for name, expected in looped(*both, 4).items():
        assert got[name] == (expected if name == "confusion" else pytest.approx(expected)), name


@given(segmentations())
def test_the_mean_iou_matches_torchmetrics_whichever_classes_occur(both):
    # torchmetrics knows of no undecided pixels.
    predicted, labels = both[0].clamp(min=0), both[1].where(both[1] >= 0, IGNORED)
    metric = JaccardIndex("multiclass", num_classes=4, average="macro", ignore_index=IGNORED)
    expected = float(metric(predicted, labels))
    assert evaluated(predicted, labels, 4).miou == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("c", [2, 11, 60])
def test_the_figures_of_each_class_match_torchmetrics(c):
    predicted, labels = drawn((3, 20, 30), c)
    got = evaluated(predicted, labels, c)
    asked = {"num_classes": c, "ignore_index": IGNORED}
    for expected, figures in (
        (multiclass_jaccard_index(predicted, labels, **asked, average="none"), "iou"),
        (multiclass_accuracy(predicted, labels, **asked, average="none"), "accuracy"),
        (multiclass_precision(predicted, labels, **asked, average="none"), "precision"),
    ):
        own = [getattr(result, figures) for result in got.per_class]
        np.testing.assert_allclose(own, expected, rtol=1e-6)
    for average, own in (
        ("macro", got.mean_accuracy),
        ("micro", got.pixel_accuracy),
    ):
        expected = multiclass_accuracy(predicted, labels, **asked, average=average)
        assert own == pytest.approx(float(expected))
    weighted = multiclass_jaccard_index(predicted, labels, **asked, average="weighted")
    assert got.frequency_weighted_iou == pytest.approx(float(weighted))
    assert [result.pixels for result in got.per_class] == [
        int((labels == number).sum()) for number in range(c)
    ]


def test_the_mean_iou_is_that_of_all_images_and_not_a_mean_over_images():
    predicted, labels = drawn((2, 40, 40), 5)
    labels = labels.clamp(min=0)
    predicted[1], labels[1] = predicted[1].clamp(max=1), labels[1].clamp(max=1)
    by_image = mean_iou(predicted, labels, num_classes=5, input_format="index")
    as_one = mean_iou(
        predicted.reshape(1, 80, 40), labels.reshape(1, 80, 40), num_classes=5, input_format="index"
    )
    got = evaluated(predicted, labels, 5).miou
    assert got == pytest.approx(float(as_one))
    assert got != pytest.approx(float(by_image.mean()), abs=1e-3)


def test_a_class_that_does_not_occur_is_left_out_and_one_that_is_only_given_counts():
    labels = torch.tensor([0, 0, 1, 1, 2])
    first, second, third, given_only, absent = evaluated(
        torch.tensor([0, 0, 1, 3, 1]), labels, 5
    ).per_class
    assert (first.iou, second.iou, third.iou, given_only.iou) == (1, 1 / 3, 0, 0)
    assert (third.accuracy, given_only.precision) == (0, 0)
    assert math.isnan(third.precision)
    assert math.isnan(given_only.accuracy)
    assert all(math.isnan(part) for part in (absent.iou, absent.accuracy, absent.precision))
    got = evaluated(torch.tensor([0, 0, 1, 3, 1]), labels, 5)
    assert got.miou == pytest.approx((1 + 1 / 3 + 0 + 0) / 4)
    assert got.mean_accuracy == pytest.approx((1 + 1 / 2 + 0) / 3)


@given(segmentations(), st.integers(-(2**40), -1))
def test_ignored_pixels_change_nothing_but_their_number(both, ignored):
    predicted, labels = both
    got = evaluated(predicted, labels.where(labels >= 0, ignored), 4)
    counted = evaluated(predicted[labels >= 0], labels[labels >= 0], 4)
    assert got.ignored_pixels == int((labels < 0).sum())
    assert {**got.to_dict(), "images": 0, "ignored_pixels": 0} == {
        **counted.to_dict(),
        "images": 0,
    }


def test_undecided_pixels_count_as_wrong_and_are_in_no_column():
    predicted, labels = drawn((40, 40), 5)
    without = predicted.clone()
    without[:10] = -1
    got, rest = evaluated(without, labels, 5), evaluated(predicted[10:], labels[10:], 5)
    assert got.undecided == int((labels[:10] >= 0).sum())
    assert got.pixels == int((labels >= 0).sum())
    assert torch.equal(got.confusion, rest.confusion)
    assert got.pixel_accuracy == pytest.approx(rest.pixel_accuracy * rest.pixels / got.pixels)
    for number, (one, other) in enumerate(zip(got.per_class, rest.per_class, strict=True)):
        more = int((labels[:10] == number).sum())
        assert one.pixels == other.pixels + more
        right = other.accuracy * other.pixels
        assert one.accuracy == pytest.approx(right / one.pixels)
        assert one.iou == pytest.approx(right / (right / other.iou + more))
        assert one.precision == other.precision


def test_only_undecided_pixels_still_make_a_result():
    got = evaluated(torch.full((3, 3), -1), torch.tensor([[0, 1, 1]] * 3), 3)
    assert (got.miou, got.mean_accuracy, got.pixel_accuracy, got.undecided) == (0, 0, 0, 9)
    assert got.frequency_weighted_iou == 0


def test_a_perfect_segmentation_is_right_in_every_figure():
    labels = drawn((2, 20, 20), 6)[1]
    got = evaluated(labels.clamp(min=0), labels, 6)
    shares = (got.miou, got.mean_accuracy, got.pixel_accuracy, got.frequency_weighted_iou)
    assert shares == (1, 1, 1, 1)
    assert got.most_confused(10) == []


@given(st.lists(segmentations(), min_size=1, max_size=4))
def test_tallies_added_together_are_the_tally_of_all_images(several):
    together, merged, summed = PixelTally(4), PixelTally(4), PixelTally(4).state()
    for both in several:
        together.add(*both)
        one = PixelTally(4)
        one.add(*both)
        merged.add_state(one.state())
        summed = {name: value + one.state()[name] for name, value in summed.items()}
    assert merged.result(names(4)).to_dict() == together.result(names(4)).to_dict()
    assert all(torch.equal(value, summed[name]) for name, value in together.state().items())


def test_the_first_of_three_axes_counts_images():
    for shape, images in (((6,), 1), ((4, 5), 1), ((3, 4, 5), 3), ((2, 1, 4, 5), 2)):
        zeros = torch.zeros(shape, dtype=torch.long)
        assert evaluated(zeros, zeros, 2).images == images, shape


@pytest.mark.parametrize("shape", [(0,), (0, 4), (0, 4, 5)])
def test_no_pixels_change_nothing(shape):
    tally = PixelTally(3)
    tally.add(torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long))
    assert not any(value.any() for value in tally.state().values())


@pytest.mark.parametrize("predicted_dtype", [torch.uint8, torch.int16, torch.int64])
@pytest.mark.parametrize("labels_dtype", [torch.uint8, torch.int8, torch.int32])
def test_whole_numbers_of_any_size_count_the_same(predicted_dtype, labels_dtype):
    predicted, labels = drawn((9, 50, 60), 100)
    labels = labels.clamp(min=0)
    got = evaluated(predicted.to(predicted_dtype), labels.to(labels_dtype), 100)
    assert got.to_dict() == evaluated(predicted, labels, 100).to_dict()


def test_a_state_and_a_result_are_copies():
    tally = PixelTally(4)
    tally.add(*drawn((10, 10), 4))
    state, result = tally.state(), tally.result(names(4))
    tally.add(*drawn((10, 10), 4))
    assert state["confusion"].sum() == result.confusion.sum() == result.pixels
    state["confusion"].zero_()
    assert tally.result(names(4)).pixels == 2 * result.pixels


def test_what_is_kept_does_not_grow_with_the_pixels():
    tally = PixelTally(7)
    tally.add(*drawn((5, 100, 100), 7))
    assert sum(value.numel() for value in tally.state().values()) == 7 * 7 + 7 + 2
    assert {value.dtype for value in tally.state().values()} == {torch.long}


def test_inference_mode_may_begin_and_end_at_any_time():
    predicted, labels = drawn((10, 10), 3)
    with torch.inference_mode():
        tally = PixelTally(3)
        tally.add(predicted * 1, labels)
    tally.add(predicted, labels)
    with torch.inference_mode():
        tally.add_state(tally.state())
    assert tally.result(names(3)).pixels == 4 * int((labels >= 0).sum())


def test_most_confused_lists_mistakes_by_frequency():
    got = evaluated(*drawn((50, 50), 5), 5)
    expected = [
        (names(5)[true], names(5)[given], int(got.confusion[true, given]))
        for true in range(5)
        for given in range(5)
        if true != given and got.confusion[true, given]
    ]
    mistakes = got.most_confused(1000)
    assert mistakes == sorted(expected, key=lambda mistake: -mistake[2])
    assert mistakes[0].pixels == max(mistake[2] for mistake in expected)
    assert got.most_confused(3) == mistakes[:3]
    with pytest.raises(InvalidSetting, match="limit is -1"):
        got.most_confused(-1)


def test_what_is_written_is_json_without_nan_and_says_everything():
    got = evaluated(torch.tensor([0, 1]), torch.tensor([0, 0]), 3)
    written = json.loads(json.dumps(got.to_dict(), allow_nan=False))
    assert written.keys() == vars(got).keys()
    assert written["confusion"] == got.confusion.tolist()
    assert written["per_class"][1] == {
        "name": "class 1",
        "pixels": 0,
        "iou": 0,
        "accuracy": None,
        "precision": 0,
    }
    assert written["per_class"][2]["iou"] is None
    assert written["miou"] == got.miou == 0.25


def test_images_without_a_pixel_that_counts_are_an_error():
    tally = PixelTally(3)
    with pytest.raises(InvalidData, match="No pixel counts in 0 images"):
        tally.result(names(3))
    tally.add(torch.zeros(2, 4, 5, dtype=torch.long), torch.full((2, 4, 5), IGNORED))
    with pytest.raises(InvalidData, match="in 2 images, 40 are ignored"):
        tally.result(names(3))


GOOD = torch.tensor([[0, 1], [-1, 2]])
LABELS = torch.tensor([[0, 2], [1, IGNORED]])


@pytest.mark.parametrize(
    ("predicted", "labels", "message"),
    [
        (GOOD.numpy(), LABELS, "Predictions are ndarray"),
        (GOOD.float(), LABELS, "Predictions are torch.float32"),
        (GOOD.bool(), LABELS, "Predictions are torch.bool"),
        (GOOD, LABELS.tolist(), "Labels are list"),
        (GOOD, LABELS.float(), "Labels are torch.float32"),
        (GOOD[:1], LABELS, r"shape \(1, 2\), labels \(2, 2\)"),
        (GOOD + 1, LABELS, "from 0 to 3; allowed are 0 to 2, and -1"),
        (GOOD - 1, LABELS, "from -2 to 1"),
        (GOOD, torch.where(LABELS < 0, 3, LABELS), "Labels reach 3; allowed are 0 to 2"),
        (GOOD, torch.where(LABELS < 0, 255, LABELS), "Labels reach 255; allowed are 0 to 2"),
        (GOOD, torch.where(LABELS < 0, 255, LABELS).to(torch.uint8), "Labels reach 255"),
    ],
)
def test_what_cannot_be_counted_is_refused_and_changes_nothing(predicted, labels, message):
    tally = PixelTally(3)
    tally.add(GOOD, LABELS)
    before = tally.state()
    with pytest.raises(InvalidLabels, match=message) as caught:
        tally.add(predicted, labels)
    assert isinstance(caught.value, DNCError)
    assert all(torch.equal(value, before[name]) for name, value in tally.state().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confusion": torch.zeros(2, 2, dtype=torch.long)}, "tallies of the same classes can"),
        ({"undecided": -torch.ones(3, dtype=torch.long)}, "negative or NaN"),
        ({"ignored": torch.tensor(0.0)}, "ignored of the state is torch.float32"),
        ({"images": 0}, "images of the state is int"),
        ({"more": torch.zeros(())}, "Give what state"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(change, message):
    tally = PixelTally(3)
    tally.add(GOOD, LABELS)
    before = tally.state()
    with pytest.raises(InvalidInput, match=message):
        tally.add_state({**before, **change})
    assert all(torch.equal(value, before[name]) for name, value in tally.state().items())


def test_there_is_one_name_for_each_class_and_at_least_one_class():
    tally = PixelTally(3)
    tally.add(GOOD, LABELS)
    for wrong in (["a"], "abc", ["a", "b", "c", "d"]):
        with pytest.raises(InvalidInput, match="3 classes"):
            tally.result(wrong)
    with pytest.raises(InvalidSetting, match="classes is 0"):
        PixelTally(0)
