import json

import pytest
import torch

from dnc import SubCentroidHead
from dnc.demo import digits_split, new_network, run_demo, train


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("demo") for _ in range(2)]
    random_state = torch.get_rng_state()
    reports = [
        run_demo(folder, seed=3, epochs=5, on_step=lambda method, steps: None) for folder in folders
    ]
    assert torch.equal(torch.get_rng_state(), random_state)
    return folders, reports


def test_same_seed_same_numbers_and_same_pages(reports):
    folders, (one, other) = reports
    for mine, theirs in zip(one.results, other.results, strict=True):
        assert (mine.method, mine.accuracy) == (theirs.method, theirs.accuracy)
    for page in ("report.html", "explanation.html", "explanation.json"):
        assert (folders[0] / page).read_bytes() == (folders[1] / page).read_bytes()


def test_the_files_named_in_the_report_are_there_and_whole(reports):
    (folder, _), (report, _) = reports
    assert {path.name for path in report.files} == {
        *("report.html", "explanation.html", "explanation.json", "results.json")
    }
    assert sorted(folder.iterdir()) == sorted(report.files)
    content = json.loads((folder / "results.json").read_text())
    assert [result["accuracy"] for result in content["results"]] == [
        result.accuracy for result in report.results
    ]
    assert (content["seed"], content["epochs"]) == (3, 5)


def test_all_methods_are_compared_and_learn_something(reports):
    _, (report, _) = reports
    results = {result.method: result for result in report.results}
    assert len(results) == 5
    assert results["network + sub-centroids (DNC)"].stored_vectors == 40
    assert results["pixels + 5 nearest neighbours"].stored_vectors == 1347
    assert min(result.accuracy for result in report.results) > 0.85
    assert report.test_images == 450


def test_every_step_is_reported():
    steps, split = [], digits_split(0)
    head = SubCentroidHead(64, 10, memory_rows=100)
    train(new_network(), head, split, epochs=2, on_step=lambda: steps.append(1))
    assert len(steps) == 2 * split.steps_per_epoch == head.steps
