from itertools import permutations

import pytest
import torch

from dnc import SubCentroidHead, anchors
from dnc.errors import InvalidLabels
from dnc.explanation.anchors import nearest_distinct_rows
from tests.oracles import rows_on_sphere


@pytest.mark.parametrize("seed", range(5))
def test_anchors_are_the_best_choice_of_distinct_rows_of_the_class(seed):
    x, labels = rows_on_sphere(12, 4, seed), torch.arange(12) % 2
    p = rows_on_sphere(6, 4, seed + 50).view(2, 3, 4)
    anchors = nearest_distinct_rows(p, torch.ones(2, 3, dtype=torch.bool), x, labels)
    for c in range(2):
        own = x @ p[c].T
        best = max(
            sum(float(own[row, k]) for k, row in enumerate(rows))
            for rows in permutations(range(c, 12, 2), 3)
        )
        assert float(anchors.similarity[c].sum()) == pytest.approx(best)
        assert anchors.row[c].unique().numel() == 3
        assert (labels[anchors.row[c]] == c).all()


def test_places_without_a_row_stay_without():
    occupied = torch.tensor([[True, False, True], [True, True, True], [False, False, False]])
    x, labels = rows_on_sphere(6, 4), torch.tensor([0, 0, 0, 0, 0, 1])
    anchors = nearest_distinct_rows(rows_on_sphere(9, 4, 1).view(3, 3, 4), occupied, x, labels)
    assert (anchors.row >= 0).sum(dim=1).tolist() == [2, 1, 0]
    assert torch.equal(anchors.similarity.isnan(), anchors.row < 0)
    assert anchors.row[0, 1] == -1


def test_anchors_of_a_head_are_rows_whatever_their_length():
    head = SubCentroidHead(4, 2, momentum=0.9, generator=torch.Generator().manual_seed(0))
    x, labels = rows_on_sphere(12, 4), torch.arange(12) % 2
    head.absorb(x, labels)
    stand_ins = anchors(head, 7 * x, labels)
    plain = nearest_distinct_rows(head.centroids, head.occupied, x, labels)
    assert torch.equal(stand_ins.row, plain.row)
    assert torch.equal(stand_ins.row >= 0, head.occupied)


def test_anchors_refuse_rows_without_a_class():
    with pytest.raises(InvalidLabels, match="1 labels are ignore_index"):
        anchors(SubCentroidHead(4, 2), torch.ones(2, 4), torch.tensor([0, -100]))
