import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dnc import Rules, SubCentroidHead
from dnc.centroids import decide, normalised, similarities
from dnc.errors import InvalidFeatures, InvalidInput, NothingAbsorbed
from dnc.explanation.rules import fulfilled
from tests.oracles import rows_on_sphere

CLASSES = ("goose", "swan", "duck", "crane")


def literally(similarity, eligible):
    """The paper's rule, word by word; of equal similarities the lower class has it."""
    n, c, k = similarity.shape
    holds = torch.zeros(n, c, k, dtype=torch.bool)
    for row in range(n):
        for label in range(c):
            for case in range(k):
                mine = similarity[row, label, case]
                holds[row, label, case] = bool(eligible[label, case]) and all(
                    mine > similarity[row, other, rival]
                    or (mine == similarity[row, other, rival] and label < other)
                    for other in range(c)
                    for rival in range(k)
                    if other != label and eligible[other, rival]
                )
    return holds


@pytest.fixture
def head():
    head = SubCentroidHead(
        6, 4, subcentroids=(3, 1, 2, 3), momentum=0.5, generator=torch.Generator().manual_seed(0)
    )
    head.absorb(rows_on_sphere(60, 6), torch.arange(60) % 4)
    return head


@given(
    seed=st.integers(0, 10_000),
    levels=st.integers(1, 5),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 3)),
)
def test_rules_hold_where_the_words_of_the_paper_say_so(seed, levels, shape):
    generator = torch.Generator().manual_seed(seed)
    # Few levels, so that many similarities are equal.
    similarity = torch.randint(levels, (5, *shape), generator=generator) / 4 - 0.5
    eligible = torch.rand(shape, generator=generator) < 0.7
    eligible[0, 0] = True
    holds = fulfilled(similarity, eligible)
    assert torch.equal(holds, literally(similarity, eligible))
    # Exactly one class has a rule that holds, and it is the class of the decision.
    assert (holds.any(dim=2).sum(dim=1) == 1).all()
    decision = decide(similarity, eligible)
    assert torch.equal(holds.any(dim=2).long().argmax(dim=1), decision.label)
    rows = torch.arange(len(similarity))
    assert holds[rows, decision.label, decision.subcentroid].all()


def test_evaluating_rules_is_predicting_on_any_feature(head):
    rules = Rules.of(head, CLASSES)
    features = 7 * torch.randn(200, 6)
    decision = head.decide(features)
    assert torch.equal(rules.predicted(features), decision.label)
    for label in range(4):
        of_class = rules.of_class(label)
        assert torch.equal(of_class.holds(features), decision.label == label)
        either = torch.stack([rule.holds(features) for rule in of_class.cases]).any(dim=0)
        assert torch.equal(either, decision.label == label)


def test_rules_stay_what_they_were_when_the_head_learns_on(head):
    rules, features = Rules.of(head, CLASSES), torch.randn(50, 6)
    before = rules.predicted(features)
    head.absorb(rows_on_sphere(60, 6, 9), torch.arange(60) % 4)
    assert torch.equal(rules.predicted(features), before)


def test_rivals_are_the_nearest_cases_of_other_classes(head):
    rules = Rules.of(head, CLASSES)
    in_bulk = rules.nearest_rivals(4)
    for c, k in head.occupied.nonzero().tolist():
        rivals = rules.of_case(c, k).rivals()
        assert len(rivals) == int(head.occupied.sum() - head.occupied[c].sum())
        cosines = [float(head.centroids[c, k] @ head.centroids[place]) for place in rivals]
        assert cosines == sorted(cosines, reverse=True)
        assert all(other != c for other, _ in rivals)
        assert in_bulk[c, k] == rivals[:4]


def test_a_rule_as_text_names_the_rivals_that_matter_and_counts_the_rest(head):
    rules = Rules.of(head, CLASSES)
    rule = rules.of_case(1, 0)
    first, second = (f"{CLASSES[c]}#{k}" for c, k in rule.rivals()[:2])
    rest = len(rule.rivals()) - 2
    assert rule.text(named=2) == (
        f"IF the image is more similar to swan#0 than to {first}, {second} and {rest} other cases "
        "of other classes THEN swan"
    )
    assert "other case" not in rule.text(named=100)
    assert rules.of_class(0).text().count("\nOR IF") == int(head.occupied[0].sum()) - 1


def test_a_single_class_always_wins_and_a_class_without_a_case_never():
    alone = SubCentroidHead(3, 1, subcentroids=1)
    alone.absorb(torch.ones(2, 3), torch.zeros(2, dtype=torch.long))
    assert "only class" in Rules.of(alone, ("all",)).of_case(0, 0).text()
    two = SubCentroidHead(3, 2, subcentroids=1)
    two.absorb(torch.ones(2, 3), torch.zeros(2, dtype=torch.long))
    rule = Rules.of(two, ("seen", "unseen")).of_class(1)
    assert "never" in rule.text()
    assert not rule.holds(torch.randn(5, 3)).any()
    with pytest.raises(NothingAbsorbed):
        Rules.of(SubCentroidHead(3, 2), ("a", "b"))


def test_similarities_of_rules_are_those_of_the_head(head):
    features = torch.randn(20, 6)
    similarity = similarities(normalised(features), head.centroids)
    expected = decide(similarity, head.occupied)
    assert torch.equal(head.decide(features).label, expected.label)


def test_a_class_is_known_by_name_or_number_and_what_is_not_there_is_told():
    head = SubCentroidHead(4, 3, subcentroids=2, generator=torch.Generator().manual_seed(0))
    head.absorb(rows_on_sphere(30, 4), torch.arange(30) % 3)
    rules = Rules.of(head, ("ant", "bee", "cat"))
    assert rules.of_class("bee").text() == rules.of_class(1).text()
    assert rules.of_case("bee", 1).case == "bee#1"
    for wrong in ("dog", 3, -1):
        with pytest.raises(InvalidInput, match="from 0 to 2, or a name: ant, bee, cat"):
            rules.of_class(wrong)
    with pytest.raises(InvalidInput, match="bee has no case 2; it has 0, 1"):
        rules.of_case(1, 2)
    with pytest.raises(InvalidFeatures, match="rows \\(n, 4\\)"):
        rules.of_class(0).holds(torch.randn(5, 3))
