import pytest
import torch

from dnc.explanation.anchors import Candidates
from dnc.explanation.choosing import MOST_ROUNDS, Cases, chosen_together
from tests.oracles import rows_on_sphere

CLASSES, K, DIM, ROWS = 4, 2, 3, 24
TEMPERATURE = 0.1


def candidates_of(p, x, labels, ids, runners_up):
    found = Candidates(p, torch.ones(p.shape[:2], dtype=torch.bool), runners_up=runners_up)
    found.add(x, labels, ids)
    return found


def slow_loss(cases, x, labels, *, without):
    """Mean cross-entropy of all rows but one, class by class and row by row."""
    losses = []
    for row in range(len(x)):
        if row == without:
            continue
        scores = [max(float(x[row] @ x[case]) for case in of_class) for of_class in cases]
        exponentials = [torch.tensor(score / TEMPERATURE).double().exp() for score in scores]
        losses.append(-(exponentials[labels[row]] / sum(exponentials)).log())
    return float(sum(losses) / len(losses))


def scattered(seed):
    """Classes that overlap, with ids that are not the numbers of the rows."""
    p = rows_on_sphere(CLASSES * K, DIM, seed).view(CLASSES, K, DIM)
    labels = torch.arange(ROWS) % CLASSES
    x = p[labels, torch.arange(ROWS) // CLASSES % K] + 0.4 * rows_on_sphere(ROWS, DIM, seed + 9)
    x = torch.nn.functional.normalize(x, dim=1)
    return p, x, labels, 100 + torch.randperm(ROWS, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(8))
def test_no_single_exchange_among_the_candidates_would_be_better(seed):
    p, x, labels, ids = scattered(seed)
    candidates = candidates_of(p, x, labels, ids, runners_up=3)
    found = chosen_together(candidates, x, labels, ids, temperature=TEMPERATURE)
    row_of = {int(image): row for row, image in enumerate(ids)}
    cases = [[row_of[int(image)] for image in of_class] for of_class in found.row]
    for c in range(CLASSES):
        assert len(set(cases[c])) == K
        assert all(int(labels[row]) == c for row in cases[c])
        for k in range(K):
            best = slow_loss(cases, x, labels, without=cases[c][k])
            for image in candidates.ids[c, k].tolist():
                other = [list(of_class) for of_class in cases]
                other[c][k] = row_of[image]
                if len(set(other[c])) == K:
                    loss = slow_loss(other, x, labels, without=row_of[image])
                    assert loss >= best - 1e-6
    own = (x[torch.tensor(cases)] * p).sum(dim=-1)
    torch.testing.assert_close(found.similarity, own)


def test_it_begins_with_the_nearest_images_and_ends_with_some_others():
    exchanged = 0
    for seed in range(4):
        p, x, labels, ids = scattered(seed)
        nearest = candidates_of(p, x, labels, ids, runners_up=0).distinct()
        alone = candidates_of(p[:, :1], x, labels, ids, runners_up=0)
        found = chosen_together(alone, x, labels, ids, temperature=TEMPERATURE)
        assert torch.equal(found.row, alone.distinct().row)
        many = candidates_of(p, x, labels, ids, runners_up=3)
        assert torch.equal(many.distinct().row, nearest.row)
        found = chosen_together(many, x, labels, ids, temperature=TEMPERATURE)
        exchanged += int((found.row != nearest.row).sum())
    assert exchanged > 0


@pytest.mark.parametrize("has_case", [True, False])
def test_an_image_that_takes_decisions_from_another_class_gives_way(has_case):
    """The nearest image of class 0 leans to class 1; one on the other side is hardly further."""
    angles = torch.tensor([0.10, -0.12, -0.3, -0.5, -0.6, 0.30, 0.40, 0.52, 0.2, 3.0])
    labels = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1, 1, 2])
    directions = torch.tensor([0.0, 0.4, 3.0])
    x, p = (torch.stack([a.cos(), a.sin()], dim=1) for a in (angles, directions))
    # Images of a class that has no case have no say.
    wanted = torch.tensor([[True], [True], [has_case]])
    candidates = Candidates(p[:, None], wanted, runners_up=1)
    candidates.add(x, labels, torch.arange(10))
    assert candidates.distinct().row.tolist()[:2] == [[0], [6]]
    found = chosen_together(candidates, x, labels, torch.arange(10), temperature=TEMPERATURE)
    assert found.row.tolist()[0] == [1]


def test_places_and_classes_without_an_image_stay_without():
    x, labels = rows_on_sphere(7, DIM), torch.tensor([0, 0, 0, 0, 1, 2, 2])
    wanted = torch.tensor([[True, True], [True, True], [False, False]])
    candidates = Candidates(rows_on_sphere(6, DIM, 1).view(3, 2, DIM), wanted, runners_up=2)
    candidates.add(x, labels, torch.arange(7))
    found = chosen_together(candidates, x, labels, torch.arange(7), temperature=TEMPERATURE)
    assert (found.row >= 0).sum(dim=1).tolist() == [2, 1, 0]
    assert torch.equal(found.similarity.isnan(), found.row < 0)


def test_a_single_class_keeps_its_nearest_image():
    p, x = rows_on_sphere(1, DIM, 1)[None], rows_on_sphere(9, DIM)
    labels, ids = torch.zeros(9, dtype=torch.long), torch.arange(9)
    candidates = candidates_of(p, x, labels, ids, runners_up=3)
    found = chosen_together(candidates, x, labels, ids, temperature=TEMPERATURE)
    assert torch.equal(found.row, candidates.distinct().row)


def test_the_scores_that_are_kept_are_those_of_the_cases():
    p, x, labels, _ = scattered(1)
    candidates = candidates_of(p, x, labels, torch.arange(ROWS), runners_up=5)
    cases = Cases(candidates.distinct().row, x, labels, temperature=TEMPERATURE)
    for _ in range(MOST_ROUNDS):
        for c in range(CLASSES):
            for k in range(K):
                cases.exchange(c, k, candidates.ids[c, k].tolist())
    anew = Cases(cases.rows, x, labels, temperature=TEMPERATURE)
    torch.testing.assert_close(cases.scores, anew.scores, rtol=0, atol=1e-5)
    torch.testing.assert_close(cases.total, anew.total, rtol=0, atol=1e-5)
