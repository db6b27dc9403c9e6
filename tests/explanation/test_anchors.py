from itertools import permutations

import pytest
import torch

from dnc import SubCentroidHead, anchors
from dnc.errors import InvalidLabels
from dnc.explanation.anchors import Anchors, Candidates
from tests.oracles import rows_on_sphere


def best_distinct_rows(p, occupied, x, labels) -> Anchors:
    candidates = Candidates(p, occupied)
    candidates.add(x, labels, torch.arange(len(labels)))
    return candidates.distinct()


@pytest.mark.parametrize("seed", range(5))
def test_anchors_are_the_best_choice_of_distinct_rows_of_the_class(seed):
    x, labels = rows_on_sphere(12, 4, seed), torch.arange(12) % 2
    # Close together, so that all three want the same rows.
    p = torch.nn.functional.normalize(
        rows_on_sphere(2, 4, seed + 50)[:, None] + 0.05 * torch.randn(2, 3, 4), dim=-1
    )
    found = best_distinct_rows(p, torch.ones(2, 3, dtype=torch.bool), x, labels)
    for c in range(2):
        own = x @ p[c].T
        best = max(
            sum(float(own[row, k]) for k, row in enumerate(rows))
            for rows in permutations(range(c, 12, 2), 3)
        )
        assert float(found.similarity[c].sum()) == pytest.approx(best)
        assert found.row[c].unique().numel() == 3
        assert (labels[found.row[c]] == c).all()


def test_batches_and_processes_find_what_all_rows_at_once_do():
    x, labels = rows_on_sphere(200, 6), torch.randint(5, (200,))
    p, wanted = rows_on_sphere(20, 6, 1).view(5, 4, 6), torch.ones(5, 4, dtype=torch.bool)
    whole = best_distinct_rows(p, wanted, x, labels)
    shares = []
    for rank in range(3):
        share = Candidates(p, wanted)
        for rows in torch.randperm(200).sort().values[rank::3].split(7):
            share.add(x[rows], labels[rows], rows)
        shares.append(share)
    merged = Candidates(p, wanted)
    for share in reversed(shares):
        merged.add_candidates(share.ids, share.similarity)
    assert torch.equal(merged.distinct().row, whole.row)


def test_of_equally_near_rows_those_with_lower_ids_are_taken():
    p = rows_on_sphere(1, 4).view(1, 1, 4).expand(1, 2, 4)
    candidates = Candidates(p, torch.ones(1, 2, dtype=torch.bool))
    for ids in ([9, 3], [7, 1], [5, 8]):
        candidates.add(p[0], torch.zeros(2, dtype=torch.long), torch.tensor(ids))
    assert sorted(candidates.distinct().row[0].tolist()) == [1, 3]


def test_places_without_a_row_stay_without():
    occupied = torch.tensor([[True, False, True], [True, True, True], [False, False, False]])
    x, labels = rows_on_sphere(6, 4), torch.tensor([0, 0, 0, 0, 0, 1])
    found = best_distinct_rows(rows_on_sphere(9, 4, 1).view(3, 3, 4), occupied, x, labels)
    assert (found.row >= 0).sum(dim=1).tolist() == [2, 1, 0]
    assert torch.equal(found.similarity.isnan(), found.row < 0)
    assert found.row[0, 1] == -1


def test_anchors_of_a_head_are_rows_whatever_their_length():
    head = SubCentroidHead(4, 2, momentum=0.9, generator=torch.Generator().manual_seed(0))
    x, labels = rows_on_sphere(12, 4), torch.arange(12) % 2
    head.absorb(x, labels)
    stand_ins = anchors(head, 7 * x, labels)
    plain = best_distinct_rows(head.centroids, head.occupied, x, labels)
    assert torch.equal(stand_ins.row, plain.row)
    assert torch.equal(stand_ins.row >= 0, head.occupied)


def test_anchors_refuse_rows_without_a_class():
    with pytest.raises(InvalidLabels, match="1 labels are ignore_index"):
        anchors(SubCentroidHead(4, 2), torch.ones(2, 4), torch.tensor([0, -100]))
