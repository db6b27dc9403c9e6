import pytest
import torch
from torch.nn.functional import cosine_similarity

from dnc import SubCentroidHead
from dnc.centroids import Fidelity, kmeans, normalised, sinkhorn

# Numbers of sub-centroids that take in all rows.
THREE = {"subcentroids": [3, 1, 2], "only_correct": False}


def grouped_rows(classes=3, each=24, dim=6):
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(classes * each, dim, generator=generator)
    return features + 0.5, torch.arange(classes * each) % classes


def trained_head(features, labels, **settings):
    head = SubCentroidHead(features.shape[1], int(labels.max()) + 1, **settings)
    for _ in range(5):
        head.absorb(features, labels)
    return head


@pytest.mark.parametrize("assign", [sinkhorn, kmeans])
def test_fidelity_is_that_of_a_loop_over_the_clusters(assign):
    features, labels = grouped_rows()
    head = trained_head(features, labels, **THREE, assign=assign, momentum=0.8)
    found = Fidelity.of(head, features, labels)
    x, agreeing = normalised(features), 0
    for label in range(3):
        rows = x[labels == label]
        valid = head.valid[label : label + 1]
        own = rows @ head.centroids[label].T
        same = torch.zeros(len(rows), dtype=torch.long)
        place = assign(own, same, epsilon=0.05, iterations=3, classes=1, valid=valid)
        agreeing += int((own[:, valid[0]].argmax(dim=1) == place).sum())
        for k in range(3):
            mine = rows[place == k]
            assert found.held[label, k] == len(mine)
            if len(mine):
                cosine = cosine_similarity(mine.mean(dim=0), head.centroids[label, k], dim=0)
                torch.testing.assert_close(found.cosine_to_mean[label, k], cosine)
            else:
                assert found.cosine_to_mean[label, k].isnan()
    assert found.agreement == agreeing / len(x)


def test_a_class_mean_is_the_mean_of_its_rows():
    features, labels = grouped_rows()
    head = trained_head(features, labels, subcentroids=1, momentum=0, only_correct=False)
    found = Fidelity.of(head, features, labels)
    torch.testing.assert_close(found.cosine_to_mean, torch.ones(3, 1))
    assert found.agreement == 1
    assert found.held[:, 0].tolist() == [24, 24, 24]


def test_looking_moves_nothing():
    features, labels = grouped_rows()
    head = trained_head(features, labels, memory_rows=30)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    Fidelity.of(head, features, labels)
    assert all(torch.equal(before[name], value) for name, value in head.state_dict().items())


def test_rows_that_a_head_leaves_out_do_not_count():
    features, labels = grouped_rows()
    head = trained_head(features, labels, subcentroids=1, momentum=0, only_correct=True)
    head.eval()
    right = head(features).argmax(dim=1) == labels
    assert 0 < right.sum() < len(labels)
    found = Fidelity.of(head, features, labels)
    assert found.held[:, 0].tolist() == [int((right & (labels == c)).sum()) for c in range(3)]
    expected = torch.stack([normalised(features)[right & (labels == c)].mean(0) for c in range(3)])
    cosine = cosine_similarity(expected, head.centroids[:, 0])
    torch.testing.assert_close(found.cosine_to_mean[:, 0], cosine)


def test_the_rival_of_a_case_is_the_nearest_one_of_another_class():
    features, labels = grouped_rows()
    head = trained_head(features, labels, subcentroids=[3, 1, 2])
    found = Fidelity.of(head, features, labels).rival_cosine
    p = head.centroids
    for label, k in head.valid.nonzero().tolist():
        others = [
            float(p[label, k] @ p[other, j])
            for other, j in head.valid.nonzero().tolist()
            if other != label
        ]
        assert float(found[label, k]) == pytest.approx(max(others), abs=1e-6)
    assert found.isnan().sum() == 3
