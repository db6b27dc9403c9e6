import pytest

from dnc.errors import DNCError, InvalidStudy
from dnc.study import Study, shipped_studies


def read(tmp_path, text):
    path = tmp_path / "study.yaml"
    path.write_text(text, encoding="utf-8")
    return Study.read(path)


def test_named_rows_and_the_combinations_of_a_grid_run_with_every_seed(tmp_path):
    study = read(
        tmp_path,
        """
        name: both
        recipe: cifar10-laptop
        settings: {training.epochs: 2}
        rows:
          softmax: {model.classifier: softmax}
        grid:
          head.subcentroids: [1, 4]
          head.momentum: [0.9, 0.99]
        seeds: [3, 5]
        """,
    )
    runs = study.planned("images")
    names = [
        "softmax",
        "subcentroids 1, momentum 0.9",
        "subcentroids 1, momentum 0.99",
        "subcentroids 4, momentum 0.9",
        "subcentroids 4, momentum 0.99",
    ]
    # All rows with one seed first: after half of the time there is half an answer.
    assert [(run.row, run.seed) for run in runs] == [(row, s) for s in (3, 5) for row in names]
    for run in runs:
        assert run.recipe.training.seed == run.seed
        assert run.recipe.training.epochs == 2
        assert run.recipe.data.path == "images"
    last = runs[-1].recipe
    assert (last.head.subcentroids, last.head.momentum) == (4, 0.99)
    assert runs[0].recipe.model.classifier == "softmax"


def test_a_number_of_seeds_stands_for_so_many(tmp_path):
    study = read(tmp_path, "name: x\nrecipe: digits\nseeds: 4\n")
    assert study.seeds == (0, 1, 2, 3)
    assert list(study.all_rows()) == ["x"]


def test_a_row_with_nothing_behind_its_name_is_the_recipe_as_it_is(tmp_path):
    study = read(tmp_path, "name: x\nrecipe: digits\nrows:\n  plain:\n")
    assert study.all_rows() == {"plain": {}}


def test_the_recipe_may_lie_beside_the_study(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\ntraining: {epochs: 7}\n")
    study = read(tmp_path, "name: x\nrecipe: mine.yaml\n")
    assert study.planned()[0].recipe.training.epochs == 7


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("recipe: digits\n", "name is missing$"),
        ("", "is empty"),
        ("name: x\n", "recipe"),
        ("name: x\nrecipe: digits\nseed: 3\n", "'seeds'"),
        ("name: x\nrecipe: digits\nseeds: []\n", "at least one"),
        ("name: x\nrecipe: digits\nseeds: [0.5]\n", "whole numbers"),
        ("name: runs\nrecipe: digits\n", "runs of all studies"),
        ("name: x\nrecipe: digits\ngrid: {head.subcentroids: []}\n", "has no values"),
        ("name: x\nrecipe: digits\nrows: {a: {head: {momentum: 1}}}\n", "'head.subcentroids'"),
        ("name: x\nrecipe: digits\nrows: {a: {}, a: {}}\n", "'a' .*line 3.* twice"),
        ("name: x\nrecipe: digits\nrows: {1: {}}\n", "name 1 .*line 3.* put it in quotes"),
        ("name: x\nrecipe: digits\nseeds: -1\n", "1 or more"),
        ("name: x\nrecipe: digits\nseeds: [0, 0]\n", "twice"),
        ("name: x\nrecipe: digits\nimages: tset\n", "test, validation"),
        ("name: x\nrecipe: digits\nsettings: {head.momentum: 9}\nrows: {a: {}}\n", "^Study x"),
        ("name: x\nrecipe: digits\nrows: {a: {model.network: resnet21-cifar}}\n", "resnet20"),
        ("name: x\nrecipe: digits\nrows: {a: {training.nodes: 2}}\n", "several machines"),
        ("name: x\nrecipe: digits\ngrid: {head.momentum: [0.9, 0.9]}\n", "momentum 0.9"),
        ("name: x\nrecipe: digits\nrows: {K 0: {head.subcentroids: 0}}\n", "equal to 1$"),
        ("name: x\nrecipe: digits\nmetric: accuracy\n", "metric"),
        ("name: x\nrecipe: digits\nreference: softmax\n", "rows are 'x'"),
        ("name: x\nrecipe: digits\nrows: {a: {head.momentun: 0.9}}\n", "'head.momentum'"),
        ("name: x\nrecipe: digits\nrows: {a: {head.momentum: 9}}\n", "Row 'a'"),
        ("name: x\nrecipe: digits\nrows: {a: {training.seed: 1}}\n", "seeds"),
        ("name: x\nrecipe: digits\ngrid: {head.momentum: 0.9}\n", "grid"),
        ("name: ../x\nrecipe: digits\n", "name"),
        ("- name\n", "no fields"),
    ],
)
def test_what_cannot_be_a_study_is_told_before_anything_runs(tmp_path, text, told):
    with pytest.raises(InvalidStudy, match=told):
        read(tmp_path, text)


def test_an_unknown_study_is_told(tmp_path):
    with pytest.raises(InvalidStudy, match="dnc study list"):
        Study.read("nothing")
    with pytest.raises(InvalidStudy, match="There is no file"):
        Study.read(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: x\nrecipe: photos\nrows: {a: {data.path: mine}, b: {}}\n", "'a'.* leave"),
        ("name: x\nrecipe: digits\n", "scikit-learn"),
    ],
)
def test_images_that_would_be_ignored_are_refused(tmp_path, text, told):
    with pytest.raises(DNCError, match=told):
        read(tmp_path, text).planned("elsewhere")


@pytest.mark.parametrize("name", shipped_studies())
def test_shipped_studies_are_sound(name):
    study = Study.read(name)
    assert study.name == name
    assert study.about
    assert study.planned()


def test_recipes_that_are_files_are_found_from_the_folder_of_the_study(tmp_path):
    for name, epochs in (("own", 3), ("other", 4), ("large", 5)):
        (tmp_path / f"{name}.yaml").write_text(
            f"name: {name}\ndata: {{kind: digits}}\ntraining: {{epochs: {epochs}}}\n"
        )
    file = tmp_path / "study.yaml"
    file.write_text(
        "name: mine\nrecipe: own.yaml\nrows: {a: {}, b: {recipe: other.yaml}}\n"
        "paper_scale: {recipe: large.yaml, rows: {c: {}, d: {recipe: other.yaml}}}\n"
    )
    study = Study.read(file)
    epochs = {run.row: run.recipe.training.epochs for run in study.planned()}
    assert epochs == {"a": 3, "b": 4}
    epochs = {run.row: run.recipe.training.epochs for run in study.at_scale("paper").planned()}
    assert epochs == {"c": 5, "d": 4}


def test_a_metric_that_is_misspelt_is_told_once(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text("name: mine\nrecipe: digits\nmetric: topp1\n")
    with pytest.raises(InvalidStudy) as caught:
        Study.read(file)
    assert str(caught.value).count("topp1") == 1


def test_the_beginning_of_several_names_leads_to_all_of_them():
    with pytest.raises(InvalidStudy, match="There are table-3-ade20k and table-3-cityscapes"):
        Study.read("table-3")
