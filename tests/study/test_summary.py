import csv
import json
import statistics

import numpy as np
import pytest
from scipy import stats

from dnc.errors import InvalidData, InvalidStudy
from dnc.study import Estimate, Study, markdown, places, summarised, write_csv
from dnc.study.pictures import rows_figure
from dnc.study.store import run_key

VALUES = {"softmax": [0.70, 0.72, 0.69], "dnc": [0.71, 0.74, 0.70]}


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(
        "name: x\nabout: Which?\nrecipe: digits\nreference: softmax\nseeds: 3\n"
        "rows:\n  softmax: {model.classifier: softmax}\n  dnc: {}\n"
    )
    return Study.read(path)


@pytest.fixture
def found(study, tmp_path):
    return places(study.planned("images"), tmp_path / "runs", "images")


def finish(place, top1):
    place.folder.mkdir(parents=True)
    results = {
        "results": {"test": {"top1": top1, "mean_loss": 1 - top1, "top5": None}},
        "steps": 30,
        "seconds": 12.0,
        "seconds_per_step": 0.1 + 0.01 * place.run.seed,
        "health": {"pairwise_cosine": 0.5} if place.run.row == "dnc" else {},
    }
    (place.folder / "results.json").write_text(json.dumps(results))


def finish_all(found):
    for place in found:
        finish(place, VALUES[place.run.row][place.run.seed])


def test_an_estimate_is_mean_deviation_and_standard_error():
    values = [0.3, 0.5, 0.1, 0.9]
    estimate = Estimate.of(values)
    assert estimate.mean == pytest.approx(np.mean(values))
    assert estimate.spread == pytest.approx(np.std(values, ddof=1))
    assert estimate.error == pytest.approx(stats.sem(values))
    assert Estimate.of([0.3]) == Estimate(0.3, None, None, 1)


def test_differences_are_taken_seed_by_seed(study, found):
    finish_all(found)
    softmax, row = summarised(study, found)
    assert softmax.difference is None
    gains = [dnc - soft for dnc, soft in zip(VALUES["dnc"], VALUES["softmax"], strict=True)]
    assert row.difference.mean == pytest.approx(statistics.fmean(gains))
    assert row.difference.error == pytest.approx(stats.sem(gains))
    assert row.seconds_per_step.mean == pytest.approx(0.11)
    assert row.health == {"pairwise_cosine": 0.5}
    text = markdown(study, [softmax, row])
    assert len(rows_figure(study, [softmax, row]).axes) == 1
    assert "| dnc | 71.67 ± 1.20 | 2.08 | 3 | +1.33 ± 0.33 | 110 | 0.500 |" in text


def test_a_difference_needs_a_seed_that_both_rows_have(study, found):
    for place in found:
        if (place.run.row, place.run.seed) in (("softmax", 0), ("dnc", 0), ("dnc", 2)):
            finish(place, VALUES[place.run.row][place.run.seed])
    _, row = summarised(study, found)
    assert row.missing == (1,)
    assert row.metric.count == 2
    assert row.difference.count == 1
    assert row.difference.mean == pytest.approx(0.01)


def test_a_study_of_which_nothing_is_finished_has_an_empty_table(study, found):
    rows = summarised(study, found)
    assert "| softmax |  |  | 0 of 3 |" in markdown(study, rows)


def test_every_finished_run_is_a_line_of_the_csv(study, found, tmp_path):
    finish_all(found)
    write_csv(found, tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["row"], int(line["seed"])) for line in lines] == [
        (place.run.row, place.run.seed) for place in found
    ]
    assert [float(line["test top1"]) for line in lines[::2]] == VALUES["softmax"]


@pytest.mark.parametrize("change", [{"images": "validation"}, {"metric": "top5"}])
def test_a_metric_that_the_runs_lack_is_told(study, found, change):
    finish_all(found)
    with pytest.raises(InvalidStudy):
        summarised(study.model_copy(update=change), found)


def test_damaged_results_are_told(found):
    finish(found[0], 0.5)
    (found[0].folder / "results.json").write_text("{")
    with pytest.raises(InvalidData, match="damaged"):
        found[0].results  # noqa: B018


def test_a_run_is_known_by_what_its_result_depends_on(study):
    recipe = study.planned("images")[0].recipe
    same = recipe.with_values(
        {"name": "other", "about": "words", "data.path": "elsewhere", "data.workers": 3}
    )
    assert run_key(same, "images") == run_key(recipe, "images")
    others = [
        run_key(recipe, "other images"),
        *(
            run_key(recipe.with_values(values), "images")
            for values in (
                {"training.seed": 9},
                {"head.momentum": 0.5},
                {"data.size": 24},
                {"training.epochs": 3},
                {"model.network": "resnet18-cifar"},
            )
        ),
    ]
    assert len({run_key(recipe, "images"), *others}) == 7


def test_the_same_run_of_another_study_is_in_the_same_folder(study, found, tmp_path):
    finish_all(found)
    renamed = study.model_copy(update={"name": "y", "rows": {"by another name": study.rows["dnc"]}})
    renamed = renamed.model_copy(update={"reference": None})
    again = places(renamed.planned("elsewhere"), tmp_path / "runs", "images")
    assert [place.folder for place in again] == [found[i].folder for i in (1, 3, 5)]
    assert all(place.results for place in again)
