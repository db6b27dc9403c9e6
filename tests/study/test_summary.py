import csv
import json
import statistics
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dnc.errors import InvalidData, InvalidStudy
from dnc.study import Estimate, Source, Study, markdown, places, summarised, write_csv, write_study
from dnc.study.pictures import rows_figure
from dnc.study.store import run_key
from dnc.training.recipe import Recipe

VALUES = {"softmax": [0.70, 0.72, 0.69], "dnc": [0.71, 0.74, 0.70]}


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(
        "name: x\nabout: Which?\nrecipe: cifar10-laptop\nreference: softmax\nseeds: 3\n"
        "rows:\n  softmax: {model.classifier: softmax}\n  dnc: {}\n"
    )
    return Study.read(path)


def some_images(recipe):
    return Source("images", ("test", "validation"))


@pytest.fixture
def found(study, tmp_path):
    return places(study.planned("images"), tmp_path / "runs", some_images)


def health_of(seed):
    return {"pairwise_cosine": 0.4 + 0.1 * seed, "least_cosine_to_mean": 0.9 + 0.01 * seed}


def finish(place, top1):
    place.folder.mkdir(parents=True)
    results = {
        "results": {"test": {"top1": top1, "mean_loss": 1 - top1, "top5": None}},
        "steps": 30,
        "seconds": 12.0,
        "seconds_per_step": 0.1 + 0.01 * place.run.seed,
        "health": health_of(place.run.seed) if place.run.row == "dnc" else {},
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
    assert row.health == pytest.approx({"pairwise_cosine": 0.5, "least_cosine_to_mean": 0.9})
    text = markdown(study, [softmax, row], "test")
    assert len(rows_figure(study, [softmax, row], "test").axes) == 1
    assert "| dnc | 71.67 ± 1.20 | 2.08 | 3 | +1.33 ± 0.33 | 110 | 0.500 | 0.900 |" in text


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
    assert "| softmax |  |  | 0 of 3 |" in markdown(study, rows, "test")


def test_every_finished_run_is_a_line_of_the_csv(study, found, tmp_path):
    finish_all(found)
    write_csv(found, tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["row"], int(line["seed"])) for line in lines] == [
        (place.run.row, place.run.seed) for place in found
    ]
    assert [float(line["test top1"]) for line in lines[::2]] == VALUES["softmax"]


def test_one_seed_is_said_to_be_little(study, found):
    for place in found:
        if place.run.seed == 0:
            finish(place, 0.7)
    text = markdown(study, summarised(study, found), "test")
    assert "One seed alone cannot tell a difference from chance" in text
    finish(found[-1], 0.7)
    assert "One seed alone" not in markdown(study, summarised(study, found), "test")


def test_a_figure_that_a_run_lacks_is_an_empty_cell(study, found):
    finish_all(found)
    rows = summarised(study.model_copy(update={"metric": "top5"}), found)
    assert [row.metric for row in rows] == [None, None]
    results = json.loads((found[1].folder / "results.json").read_text())
    results["results"]["test"]["top1"] = None
    (found[1].folder / "results.json").write_text(json.dumps(results))
    softmax, row = summarised(study, found)
    assert (softmax.metric.count, row.metric.count, row.difference.count) == (3, 2, 2)
    assert "2 of 3" in markdown(study, [softmax, row], "test")


def test_further_metrics_stand_beside_the_one_that_is_compared(study, found):
    finish_all(found)
    wanted = ("top5", "mean_loss")  # no run has top5
    with_more = study.model_copy(update={"also": wanted})
    softmax, row = summarised(with_more, found)
    assert set(row.also) == {"mean_loss"}
    losses = [1 - value for value in VALUES["dnc"]]
    assert row.also["mean_loss"].mean == pytest.approx(statistics.fmean(losses))
    text = markdown(with_more, [softmax, row], "test")
    assert "| minus softmax | mean_loss | ms per step |" in text
    assert "| +1.33 ± 0.33 | 0.2833 ± 0.0120 | 110 |" in text


def test_the_time_of_a_run_that_is_two_rows_counts_once(study, found, tmp_path):
    finish_all(found)
    twice = [*found, *(replace(place, run=replace(place.run, row="again")) for place in found)]
    assert "Time of training: 6 runs, 1 min in all." in write_study(study, twice, tmp_path / "x")


def test_without_a_finished_run_no_time_is_told(study, found, tmp_path):
    assert "Time of training" not in write_study(study, found, tmp_path / "x")


def test_a_count_has_no_more_decimals_than_it_needs(study, found):
    finish_all(found)
    softmax, row = summarised(study, found)
    cells = []
    for empty in (3.0, 31 / 3, 49932.0):
        few = replace(row, health={"agreement": 1.0, "empty_subcentroids": empty})
        cells.append(markdown(study, [softmax, few], "test").split("| dnc |")[1].split("|")[-3:-1])
    assert cells == [[" 1.000 ", " 3 "], [" 1.000 ", " 10.3 "], [" 1.000 ", " 49932 "]]


def test_a_table_names_the_images_that_its_figures_are_of(study, found, tmp_path):
    finish_all(found)
    for place in found:
        path = place.folder / "results.json"
        results = json.loads(path.read_text())
        results["results"] = {"validation": results["results"]["test"]}
        path.write_text(json.dumps(results))
    text = write_study(study, found, tmp_path / "x")
    assert "| dnc | 71.67 ± 1.20 |" in text
    assert "on the validation images" in text
    assert "test" not in text


def test_a_table_tells_of_runs_that_were_not_made_alike(study, found, tmp_path):
    finish_all(found)
    assert "alike" not in write_study(study, found, tmp_path / "x")
    for place, threads in zip(found, (1, 2, 1, 1, 1, 1), strict=True):
        path = place.folder / "results.json"
        path.write_text(json.dumps({**place.results, "made_with": {"threads": threads}}))
    assert "alike: threads 1; threads 2." in write_study(study, found, tmp_path / "x")


def test_names_of_rows_cannot_break_the_table(study, found):
    (row,) = [row for row in summarised(study, found) if row.name == "dnc"]
    row = replace(row, name="a|b\nc")
    assert r"| a\|b c |" in markdown(study, [row], "test")


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
    assert run_key(same, Source("images", ())) == run_key(recipe, Source("images", ()))
    dnc = {"model.classifier": "dnc"}
    others = [
        run_key(recipe, Source("other images", ())),
        *(
            run_key(recipe.with_values(values), Source("images", ()))
            for values in (
                {"training.seed": 9},
                {"data.size": 24},
                {"training.epochs": 3},
                {"model.network": "resnet18-cifar"},
                {"training.devices": 2},
                {"data.store": "disk"},
                dnc,
                {**dnc, "head.momentum": 0.5},
            )
        ),
    ]
    assert len({run_key(recipe, Source("images", ())), *others}) == 10


def test_a_linear_layer_does_not_depend_on_subcentroids(study):
    recipe = study.planned("images")[0].recipe
    assert recipe.model.classifier == "softmax"
    other = recipe.with_values({"head.subcentroids": 9, "head.start": "close"})
    assert run_key(other, Source("images", ())) == run_key(recipe, Source("images", ()))
    started = recipe.with_values({"head.start": "data"})  # it sets what features are centred by
    assert run_key(started, Source("images", ())) != run_key(recipe, Source("images", ()))


def test_a_loss_without_weight_is_no_part_of_a_run():
    images, scenes = Source("images", ()), Recipe.read("scenes")
    other = {"segmenter.contrast_pixels": 9, "segmenter.contrast_temperature": 0.2}
    assert run_key(scenes.with_values(other), images) == run_key(scenes, images)
    contrasted = scenes.with_values({"model.classifier": "softmax", "segmenter.contrast": 0.1})
    assert run_key(contrasted.with_values(other), images) != run_key(contrasted, images)


def test_a_run_is_known_by_what_is_in_the_files_that_it_names(study, tmp_path):
    file = tmp_path / "weights.safetensors"
    recipe = study.planned("images")[0].recipe.with_values({"model.pretrained": str(file)})
    keys = {run_key(recipe, Source("images", ()))}
    for text in ("one", "other"):
        file.write_text(text)
        keys.add(run_key(recipe, Source("images", ())))
    assert len(keys) == 3


def test_rows_with_images_of_their_own_are_runs_of_their_own(study, tmp_path):
    rows = {name: {"data.path": name} for name in "ab"}
    study = study.model_copy(update={"rows": rows, "reference": None, "seeds": (0,)})
    one, other = places(study.planned(), tmp_path, lambda recipe: Source(recipe.data.path, ()))
    assert one.folder != other.folder
    one, other = places(study.planned(), tmp_path, some_images)
    assert one.folder == other.folder


def test_of_several_folders_of_a_run_the_finished_one_counts(study, found, tmp_path):
    key = found[1].folder.name.rpartition("-")[2]
    (tmp_path / "runs" / f"a-{key}").mkdir(parents=True)
    finish(found[1], 0.5)
    again = places(study.planned("images"), tmp_path / "runs", some_images)
    assert again[1].folder == found[1].folder


def test_the_same_run_of_another_study_is_in_the_same_folder(study, found, tmp_path):
    finish_all(found)
    renamed = study.model_copy(update={"name": "y", "rows": {"by another name": study.rows["dnc"]}})
    renamed = renamed.model_copy(update={"reference": None})
    again = places(renamed.planned("elsewhere"), tmp_path / "runs", some_images)
    assert [place.folder for place in again] == [found[i].folder for i in (1, 3, 5)]
    assert all(place.results for place in again)


def test_two_studies_that_begin_at_once_agree_on_the_folder_of_a_run(study, found, tmp_path):
    rows = {"linear": study.rows["softmax"], "four": study.rows["dnc"]}
    renamed = study.model_copy(update={"name": "y", "rows": rows, "reference": None})
    again = places(renamed.planned("images"), tmp_path / "runs", some_images)
    assert [place.folder for place in again] == [place.folder for place in found]
    assert not any(place.folder.exists() for place in found)


def test_a_study_by_images_that_are_not_there_is_refused_before_anything_runs(study, tmp_path):
    def undivided(recipe):
        return Source("images", ("validation",))

    runs = study.planned("images")
    assert places(runs, tmp_path, undivided, compared="validation")
    with pytest.raises(InvalidStudy, match="evaluated on validation; say so by `images:`"):
        places(runs, tmp_path, undivided, compared="test")


def test_a_table_says_if_no_run_has_the_figure(study, found):
    finish_all(found)
    other = study.model_copy(update={"metric": "top5"})
    assert "No finished run has top5" in markdown(other, summarised(other, found), "test")
    assert "No finished run" not in markdown(study, summarised(study, found), "test")
