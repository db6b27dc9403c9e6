import pytest

import dnc
from dnc.errors import InvalidRecipe
from dnc.training.building import numbers_by_size
from dnc.training.recipe import Recipe
from dnc.training.run import train
from tests.data.drawings import draw_folder
from tests.training.other_processes import killed_run
from tests.training.test_run import QUIET, SMALL, small_recipe


def test_the_sizes_of_imagenets_classes_give_the_papers_numbers():
    ranges = {1: (732, 874), 2: (875, 1016), 3: (1017, 1158), 4: (1159, 1300)}
    sizes = [size for ends in ranges.values() for size in ends]
    assert numbers_by_size(sizes, 1, 4) == (1, 1, 2, 2, 3, 3, 4, 4)


def test_classes_of_one_size_have_the_most():
    assert numbers_by_size([7, 7, 7], 1, 4) == (4, 4, 4)


def test_an_image_more_or_less_changes_nothing():
    assert numbers_by_size([450, 450, 449], 1, 4) == (4, 4, 4)
    assert numbers_by_size([5, 6, 7], 1, 4) == (4, 4, 4)
    assert numbers_by_size([4, 5, 6, 7], 1, 4) == (1, 2, 3, 4)


def test_larger_classes_get_more_subcentroids_and_keep_them_when_resumed(tmp_path):
    draw_folder(tmp_path / "images", {"red": 6, "green": 14, "blue": 22})
    settings = ["data.kind=folder", "head.fewest=1", "head.subcentroids=3", "training.epochs=2"]
    settings += [f"data.path={tmp_path / 'images'}", "data.train_per_class=null"]
    folder = tmp_path / "run"
    killed_run(folder, [*SMALL, *settings], epoch=1, step=0)
    train(Recipe.read(folder / "recipe.yaml"), folder, console=QUIET, resume=True)
    recognizer = dnc.load(folder)
    numbers = dict(
        zip(recognizer.classes, recognizer.model.head.valid.sum(dim=1).tolist(), strict=True)
    )
    assert numbers == {"red": 1, "green": 2, "blue": 3}


def test_fewest_that_are_more_than_all_are_refused():
    with pytest.raises(InvalidRecipe, match="fewest is 5 and subcentroids 4"):
        small_recipe("head.fewest=5")
