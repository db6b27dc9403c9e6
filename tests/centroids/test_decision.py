import torch

from dnc.centroids import decide, similarities
from tests.oracles import rows_on_sphere


def test_decision_matches_a_search_over_all_cases():
    classes, k = 5, 3
    cosine = similarities(rows_on_sphere(40, 6), rows_on_sphere(classes * k, 6, 1).view(5, 3, 6))
    eligible = torch.rand(classes, k, generator=torch.Generator().manual_seed(3)) > 0.3
    decision = decide(cosine, eligible)
    for row in range(40):
        cases = sorted(
            (
                (float(cosine[row, c, j]), c, j)
                for c in range(classes)
                for j in range(k)
                if eligible[c, j]
            ),
            reverse=True,
        )
        best = cases[0]
        rival = next(case for case in cases if case[1] != best[1])
        assert (decision.label[row], decision.subcentroid[row]) == best[1:]
        assert decision.similarity[row] == best[0]
        assert (decision.rival_label[row], decision.rival_subcentroid[row]) == rival[1:]
        torch.testing.assert_close(float(decision.margin[row]), best[0] - rival[0])
        assert decision.margin[row] >= 0


def test_without_another_class_there_is_no_rival_and_the_margin_is_infinite():
    decision = decide(torch.rand(2, 3, 2), torch.tensor([[False] * 2, [True] * 2, [False] * 2]))
    assert decision.label.tolist() == [1, 1]
    assert decision.rival_label.tolist() == decision.rival_subcentroid.tolist() == [-1, -1]
    assert decision.margin.tolist() == [torch.inf, torch.inf]


def test_equal_similarities_go_to_the_lower_number():
    decision = decide(torch.full((1, 3, 2), 0.5), torch.ones(3, 2, dtype=torch.bool))
    assert (decision.label.item(), decision.subcentroid.item()) == (0, 0)
    assert decision.margin.item() == 0
