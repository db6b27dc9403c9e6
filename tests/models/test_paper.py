import pytest
import torch

from dnc.models import Classifier, backbone, paper_parameters, subcentroid_head

ROWS = paper_parameters()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.dataset}-{row.method}-{row.name}")
def test_parameters_are_as_many_as_the_paper_prints(row):
    with torch.device("meta"):
        network, info = backbone(row.name)
        linear = torch.nn.Linear(info.dim, row.classes)
    head = linear if row.method == "softmax" else subcentroid_head(info.dim, row.classes)
    parameters = sum(p.numel() for p in Classifier(network, head).parameters())
    assert abs(parameters / 1e6 - row.millions) < 0.01


def test_every_table_with_classifiers_is_covered():
    assert {row.table for row in ROWS} == {"1", "2", "4", "A2"}
    assert len(ROWS) == 23
    assert {row.method for row in ROWS} == {"dnc", "dnc-anchored", "softmax"}
