import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    log_loss,
    precision_recall_fscore_support,
    top_k_accuracy_score,
)
from torchmetrics.functional.classification import multiclass_calibration_error

from dnc.errors import DNCError, InvalidData, InvalidInput, InvalidLabels, InvalidSetting
from dnc.evaluation import Evaluation, Tally


def drawn(n, c, seed=0, sharpness=3.0):
    """Scores that are right more often than by chance, and labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(c, (n,), generator=generator)
    scores = torch.randn(n, c, generator=generator) * sharpness
    scores[torch.arange(n), labels] += sharpness
    return scores, labels


def names(c):
    return [f"class {number}" for number in range(c)]


def evaluated(scores, labels, **settings) -> Evaluation:
    tally = Tally(scores.shape[1], **settings)
    tally.add(scores, labels)
    return tally.result(names(scores.shape[1]))


def assert_same(one: Evaluation, other: Evaluation):
    left, right = one.to_dict(), other.to_dict()
    for part in ("mean_loss", "calibration"):
        torch.testing.assert_close(
            flat(left.pop(part)), flat(right.pop(part)), rtol=1e-9, atol=1e-12, equal_nan=True
        )
    assert left == right


def flat(value):
    values = value.values() if isinstance(value, dict) else [value]
    return np.hstack([np.asarray(part, dtype=float) for part in values])


@pytest.mark.parametrize("c", [2, 6, 40])
def test_accuracies_confusion_and_classes_match_scikit_learn(c):
    scores, labels = drawn(500, c)
    got, predicted, all_classes = evaluated(scores, labels), scores.argmax(1), range(c)

    assert got.images == 500
    assert got.undecided == 0
    assert got.top1 == pytest.approx(accuracy_score(labels, predicted))
    assert got.mean_recall == pytest.approx(balanced_accuracy_score(labels, predicted))
    assert got.mean_loss == pytest.approx(
        log_loss(labels, scores.double().softmax(1), labels=all_classes), rel=1e-6
    )
    np.testing.assert_array_equal(
        got.confusion, confusion_matrix(labels, predicted, labels=all_classes)
    )
    precision, recall, f1, images = precision_recall_fscore_support(
        labels, predicted, labels=all_classes, zero_division=np.nan
    )
    np.testing.assert_allclose([one.precision for one in got.per_class], precision)
    np.testing.assert_allclose([one.recall for one in got.per_class], recall)
    np.testing.assert_allclose([one.f1 for one in got.per_class], f1)
    assert [one.images for one in got.per_class] == images.tolist()
    assert [one.name for one in got.per_class] == names(c)


@pytest.mark.parametrize("c", [6, 40])
def test_top_five_matches_scikit_learn(c):
    scores, labels = drawn(500, c, sharpness=0.3)
    expected = top_k_accuracy_score(labels, scores, k=5, labels=range(c))
    assert evaluated(scores, labels).top5 == pytest.approx(expected)


@pytest.mark.parametrize("c", [1, 2, 5])
def test_top_five_of_five_classes_or_fewer_says_nothing(c):
    assert evaluated(*drawn(20, c)).top5 is None


@pytest.mark.parametrize("bins", [1, 10, 15])
@pytest.mark.parametrize("c", [2, 10])
def test_calibration_matches_torchmetrics(c, bins):
    scores, labels = drawn(2000, c, sharpness=1.0)
    got = evaluated(scores, labels, bins=bins).calibration
    for norm, error in (("l1", got.error), ("max", got.max_error)):
        expected = multiclass_calibration_error(scores, labels, c, n_bins=bins, norm=norm)
        assert error == pytest.approx(float(expected), abs=1e-6)
    assert sum(got.counts) == 2000
    assert got.edges == pytest.approx(np.linspace(0, 1, bins + 1).tolist())


def test_bins_hold_what_lies_between_their_edges():
    scores, labels = drawn(400, 3, sharpness=1.0)
    got = evaluated(scores, labels, bins=7).calibration
    confidence, predicted = scores.softmax(1).max(1)
    for number, (low, high) in enumerate(zip(got.edges[:-1], got.edges[1:], strict=True)):
        inside = (confidence >= low) & (confidence < high)
        assert got.counts[number] == inside.sum()
        if inside.any():
            assert got.confidence[number] == pytest.approx(float(confidence[inside].mean()))
            right = (predicted == labels)[inside].double().mean()
            assert got.accuracy[number] == pytest.approx(float(right))
        else:
            assert math.isnan(got.confidence[number])
            assert math.isnan(got.accuracy[number])


def test_a_confidence_on_a_bound_belongs_to_the_bin_above():
    got = evaluated(torch.zeros(1, 2), torch.tensor([0]), bins=4).calibration
    assert got.counts == (0, 0, 1, 0)


def test_certainty_falls_into_the_last_bin():
    got = evaluated(torch.tensor([[0.0, 1000.0]]), torch.tensor([1])).calibration
    assert got.counts == (*[0] * 14, 1)
    assert got.error == got.max_error == 0


@pytest.mark.parametrize("seed", range(5))
def test_neither_order_nor_batches_matter(seed):
    scores, labels = drawn(300, 8, seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(300, generator=generator)
    tally = Tally(8)
    cuts = torch.randint(300, (6,), generator=generator).sort().values
    for part in order.tensor_split(cuts):
        tally.add(scores[part], labels[part])
    assert_same(tally.result(names(8)), evaluated(scores, labels))


def test_tallies_added_together_are_the_tally_of_the_whole():
    scores, labels = drawn(300, 8)
    scores[3:9, 2:] = -math.inf
    scores[20:30] = -math.inf
    merged = Tally(8, bins=9)
    for part in torch.arange(300).split([100, 0, 150, 50]):
        one = Tally(8, bins=9)
        one.add(scores[part], labels[part])
        merged.add_state(one.state())
    assert_same(merged.result(names(8)), evaluated(scores, labels, bins=9))


def test_states_may_be_summed_tensor_by_tensor():
    scores, labels = drawn(100, 4)
    one, other, together = Tally(4), Tally(4), Tally(4)
    one.add(scores[:30], labels[:30])
    other.add(scores[30:], labels[30:])
    theirs = other.state()
    together.add_state({name: value + theirs[name] for name, value in one.state().items()})
    assert_same(together.result(names(4)), evaluated(scores, labels))


def test_a_state_and_a_result_are_copies():
    scores, labels = drawn(50, 4)
    tally = Tally(4)
    tally.add(scores, labels)
    state, result = tally.state(), tally.result(names(4))
    tally.add(scores, labels)
    assert state["confusion"].sum() == result.confusion.sum() == 50
    state["confusion"].zero_()
    assert tally.result(names(4)).images == 100


def test_what_is_kept_does_not_grow_with_the_images():
    tally = Tally(7, bins=5)
    tally.add(*drawn(2000, 7))
    assert sum(value.numel() for value in tally.state().values()) == 7 * 7 + 7 + 2 + 3 * 5


def test_rows_without_an_answer_count_as_wrong_and_are_in_no_column():
    scores, labels = drawn(100, 6)
    without = scores.clone()
    without[:25] = -math.inf
    got, rest = evaluated(without, labels), evaluated(scores[25:], labels[25:])
    assert (got.images, got.undecided) == (100, 25)
    assert got.top1 == pytest.approx(rest.top1 * 0.75)
    assert got.top5 == pytest.approx(rest.top5 * 0.75)
    assert torch.equal(got.confusion, rest.confusion)
    assert got.to_dict()["calibration"] == rest.to_dict()["calibration"]
    assert got.mean_loss == math.inf
    for one, other in zip(got.per_class, rest.per_class, strict=True):
        images = int((labels == names(6).index(one.name)).sum())
        assert one.images == images
        assert one.recall == pytest.approx(other.recall * other.images / images)
        assert one.precision == other.precision


def test_only_rows_without_an_answer_still_make_a_result():
    got = evaluated(torch.full((3, 2), -math.inf), torch.tensor([0, 1, 1]))
    assert (got.top1, got.undecided, got.mean_recall) == (0, 3, 0)
    assert math.isnan(got.calibration.error)
    json.dumps(got.to_dict(), allow_nan=False)


def test_a_class_that_cannot_win_is_never_among_the_best_five():
    scores = torch.full((4, 8), -math.inf)
    scores[:, :2] = torch.tensor([0.0, 1.0])
    got = evaluated(scores, torch.tensor([0, 1, 2, 7]))
    assert (got.top1, got.top5) == (0.25, 0.5)
    assert got.mean_loss == math.inf


def test_classes_that_cannot_win_change_nothing_for_the_others():
    scores, labels = drawn(200, 4)
    wider = torch.cat([scores, torch.full((200, 2), -math.inf)], dim=1)
    got, expected = evaluated(wider, labels), evaluated(scores, labels)
    assert got.mean_loss == pytest.approx(expected.mean_loss)
    assert got.calibration.error == pytest.approx(expected.calibration.error)
    assert got.mean_recall == expected.mean_recall
    assert torch.equal(got.confusion[:4, :4], expected.confusion)


def test_of_equal_scores_the_lower_number_wins():
    got = evaluated(torch.zeros(7, 7), torch.arange(7))
    assert got.confusion[:, 0].tolist() == [1] * 7
    assert (got.top1, got.top5) == (1 / 7, 5 / 7)


def test_a_class_without_images_has_no_recall_and_one_never_given_no_precision():
    scores = torch.tensor([[5.0, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0], [0.0, 0.0, 5.0, 0.0]])
    first, second, third, fourth = evaluated(scores, torch.tensor([0, 1, 0])).per_class
    assert (first.recall, first.precision, first.f1) == (0.5, 0.5, 0.5)
    assert (second.recall, second.f1) == (0, 0)
    assert math.isnan(second.precision)
    assert (third.precision, third.f1) == (0, 0)
    assert math.isnan(third.recall)
    assert math.isnan(fourth.recall)
    assert math.isnan(fourth.precision)
    assert math.isnan(fourth.f1)


def test_one_class_is_always_right():
    got = evaluated(torch.randn(5, 1), torch.zeros(5, dtype=torch.long))
    assert (got.top1, got.mean_recall, got.mean_loss, got.calibration.error) == (1, 1, 0, 0)
    assert got.confusion.tolist() == [[5]]
    assert got.most_confused(3) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_scores_of_any_precision_count_by_their_own_value(dtype):
    scores, labels = drawn(300, 8)
    scores = scores.to(dtype)
    got, exact = evaluated(scores, labels), evaluated(scores.double(), labels)
    assert torch.equal(got.confusion, exact.confusion)
    assert got.mean_loss == pytest.approx(exact.mean_loss, rel=1e-6)
    assert got.calibration.error == pytest.approx(exact.calibration.error, rel=1e-5)


def test_small_counts_add_up_over_many_batches_without_loss():
    tally = Tally(2)
    confident = torch.tensor([[20.0, 0.0]] * 1000)
    for _ in range(300):
        tally.add(confident, torch.zeros(1000, dtype=torch.uint8))
    assert tally.result(names(2)).mean_loss == pytest.approx(
        float(-confident[0].log_softmax(0)[0]), rel=1e-9
    )


def test_scores_with_gradients_are_counted_and_not_kept():
    scores, labels = drawn(10, 3)
    tally = Tally(3)
    tally.add(scores.requires_grad_(), labels)
    assert not any(value.requires_grad for value in tally.state().values())


def test_inference_mode_may_begin_and_end_at_any_time():
    scores, labels = drawn(30, 3)
    with torch.inference_mode():
        made_inside = Tally(3)
        made_inside.add(scores[:10] * 1, labels[:10])
    made_inside.add(scores[10:], labels[10:])
    made_outside = Tally(3)
    with torch.inference_mode():
        made_outside.add(scores * 1, labels)
        made_outside.add_state(made_inside.state())
        result = made_outside.result(names(3))
    made_outside.add(scores, labels)
    assert result.confusion.sum() == 60
    assert len(result.most_confused(100)) <= 6


def test_most_confused_lists_mistakes_by_frequency():
    scores, labels = drawn(400, 5, sharpness=1.0)
    got = evaluated(scores, labels)
    mistakes = got.most_confused(1000)
    expected = [
        (names(5)[true], names(5)[given], int(got.confusion[true, given]))
        for true in range(5)
        for given in range(5)
        if true != given and got.confusion[true, given]
    ]
    assert mistakes == sorted(expected, key=lambda mistake: -mistake[2])
    assert got.most_confused(3) == mistakes[:3]
    assert got.most_confused(0) == []
    assert got.confusion.trace() > 0, "asking changes nothing"


def test_what_is_written_is_json_without_nan_and_says_everything():
    scores, labels = drawn(30, 9)
    got = evaluated(scores, labels.clamp(max=3))
    written = json.loads(json.dumps(got.to_dict(), allow_nan=False))
    assert written.keys() == vars(got).keys()
    assert written["confusion"] == got.confusion.tolist()
    assert written["per_class"][8]["recall"] is None
    assert written["per_class"][0]["name"] == "class 0"
    assert written["calibration"]["confidence"][0] is None
    assert written["calibration"]["counts"] == list(got.calibration.counts)
    assert written["top1"] == got.top1


def test_an_empty_batch_changes_nothing():
    tally = Tally(3)
    before = tally.state()
    tally.add(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    assert all(torch.equal(value, before[name]) for name, value in tally.state().items())


def test_nothing_evaluated_is_an_error():
    with pytest.raises(InvalidData, match="No image was evaluated"):
        Tally(3).result(names(3))


GOOD = torch.zeros(2, 3)
LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("scores", "labels", "error", "message"),
    [
        (GOOD.numpy(), LABELS, InvalidInput, "ndarray"),
        (GOOD.long(), LABELS, InvalidInput, "int64"),
        (GOOD[0], LABELS, InvalidInput, r"\(3,\)"),
        (GOOD[:, :2], LABELS, InvalidInput, r"takes \(n, 3\)"),
        (GOOD + math.nan, LABELS, InvalidInput, "NaN or .inf in 2 of 2 rows"),
        (GOOD + math.inf, LABELS, InvalidInput, "NaN or .inf"),
        (GOOD, [0, 1], InvalidLabels, "list"),
        (GOOD, LABELS.float(), InvalidLabels, "float32"),
        (GOOD, LABELS.bool(), InvalidLabels, "bool"),
        (GOOD, LABELS[:1], InvalidLabels, r"expected \(2,\)"),
        (GOOD, torch.tensor([0, 3]), InvalidLabels, "first is 3. Allowed are 0 to 2"),
        (GOOD, torch.tensor([0, -100]), InvalidLabels, "-100"),
    ],
)
def test_what_cannot_be_counted_is_refused_and_changes_nothing(scores, labels, error, message):
    tally = Tally(3)
    tally.add(GOOD, LABELS)
    before = tally.state()
    with pytest.raises(error, match=message) as caught:
        tally.add(scores, labels)
    assert isinstance(caught.value, DNCError)
    assert all(torch.equal(value, before[name]) for name, value in tally.state().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confusion": torch.zeros(2, 2, dtype=torch.long)}, "same classes and bins"),
        ({"loss": torch.tensor(math.nan, dtype=torch.double)}, "negative or NaN"),
        ({"undecided": -torch.ones(3, dtype=torch.long)}, "negative or NaN"),
        ({"loss": torch.tensor(0)}, "loss of the state is torch.int64"),
        ({"bin_right": [0] * 15}, "bin_right of the state is list"),
        ({"more": torch.zeros(())}, "Give what state"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(change, message):
    tally = Tally(3)
    tally.add(GOOD, LABELS)
    before = tally.state()
    with pytest.raises(InvalidInput, match=message):
        tally.add_state({**before, **change})
    assert all(torch.equal(value, before[name]) for name, value in tally.state().items())


@pytest.mark.parametrize("wrong", [["a"], "abc", ["a", "b", "c", "d"]])
def test_there_is_one_name_for_each_class(wrong):
    tally = Tally(3)
    tally.add(GOOD, LABELS)
    with pytest.raises(InvalidInput, match="3 classes"):
        tally.result(wrong)


def test_settings_out_of_range_are_refused():
    with pytest.raises(InvalidSetting, match="classes is 0"):
        Tally(0)
    with pytest.raises(InvalidSetting, match="bins is 0"):
        Tally(3, bins=0)
    with pytest.raises(InvalidSetting, match="limit is -1"):
        evaluated(GOOD, LABELS).most_confused(-1)
