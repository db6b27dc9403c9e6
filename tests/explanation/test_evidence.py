import pytest
import torch

from dnc.centroids import decide
from dnc.explanation.evidence import evidence
from tests.oracles import rows_on_sphere


def some_similarity(n=30, c=6, k=3):
    x, p = rows_on_sphere(n, 8), rows_on_sphere(c * k, 8, 1).view(c, k, 8)
    eligible = torch.rand(c, k, generator=torch.Generator().manual_seed(0)) < 0.7
    eligible[:, 0] = True
    return torch.einsum("nd,ckd->nck", x, p), eligible


def test_contenders_are_the_closest_cases_of_the_best_classes():
    similarity, eligible = some_similarity()
    decision = decide(similarity, eligible)
    for row, found in enumerate(evidence(similarity, eligible, temperature=0.1)):
        ranked = sorted(
            (
                (*max((float(similarity[row, c, k]), -k) for k in range(3) if eligible[c, k]), c)
                for c in range(6)
            ),
            reverse=True,
        )[:4]
        assert [(one.label, one.subcentroid) for one in found.contenders] == [
            (c, -k) for _, k, c in ranked
        ]
        assert found.contenders[0].label == decision.label[row]
        assert found.contenders[0].subcentroid == decision.subcentroid[row]
        assert found.contenders[1].label == decision.rival_label[row]
        assert found.margin == pytest.approx(
            found.contenders[0].similarity - found.contenders[1].similarity, abs=1e-6
        )
        assert sum(one.share for one in found.contenders) == pytest.approx(1)


def test_probability_is_the_softmax_over_all_classes():
    similarity, eligible = some_similarity()
    scores = similarity.masked_fill(~eligible, -torch.inf).amax(dim=2) / 0.07
    expected = scores.softmax(dim=1).amax(dim=1)
    found = [one.probability for one in evidence(similarity, eligible, temperature=0.07)]
    torch.testing.assert_close(torch.tensor(found), expected)


def test_of_equal_classes_the_lower_number_is_shown_first_as_it_has_won():
    similarity = torch.full((1, 5, 2), 0.5)
    (found,) = evidence(similarity, torch.ones(5, 2, dtype=torch.bool), temperature=0.1)
    assert [(one.label, one.subcentroid) for one in found.contenders] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
    ]
    assert found.margin == 0


def test_classes_that_cannot_win_are_not_shown():
    eligible = torch.tensor([[False], [True], [False]])
    (found,) = evidence(torch.rand(1, 3, 1), eligible, temperature=0.1)
    assert [one.label for one in found.contenders] == [1]
    assert found.margin is None
    assert found.probability == 1
