import numpy as np
import pytest
from PIL import Image

from dnc.data import draw_scenes, inspect_scenes, open_scenes
from dnc.data.drawing import CLASSES
from dnc.errors import InvalidData, InvalidSetting


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_drawn_scenes_are_a_folder_of_scenes_with_nothing_to_complain_about(tmp_path):
    seen = []
    draw_scenes(tmp_path / "lakes", training=20, test=6, on_progress=lambda *n: seen.append(n))
    found = inspect_scenes(open_scenes(tmp_path / "lakes", validation_share=0.0))
    assert found.classes == tuple(CLASSES)
    assert found.images == {"train": 20, "test": 6}
    assert [*found.unreadable, *found.unseen, *found.leaks, *found.duplicates] == []
    assert set(found.without_class.values()) == {0.0}  # every pixel is of a class
    assert seen[-1] == (26, 26)


def test_the_same_seed_gives_the_same_scenes_and_more_scenes_begin_with_them(tmp_path):
    for name, training, seed in (("a", 3, 0), ("b", 3, 0), ("more", 5, 0), ("other", 3, 1)):
        draw_scenes(tmp_path / name, training=training, test=1, seed=seed)
    a, b, more, other = (files_of(tmp_path / name) for name in ("a", "b", "more", "other"))
    assert a == b
    assert a.items() <= more.items()
    assert not any(a[name] == other[name] for name in a if name.endswith(".png"))


def test_the_mask_says_what_was_drawn_at_each_pixel(tmp_path):
    draw_scenes(tmp_path / "lakes", training=30, test=1)
    number = {name: place for place, name in enumerate(CLASSES)}
    greener, darker = [], []
    for path in sorted((tmp_path / "lakes" / "images" / "train").iterdir()):
        image = np.asarray(Image.open(path), float)
        mask = np.asarray(Image.open(tmp_path / "lakes" / "masks" / "train" / path.name))
        mean = {
            name: image[mask == place].mean(axis=0)
            for name, place in number.items()
            if (mask == place).any()
        }
        greener.append(mean["meadow"][1] > mean["meadow"][2])
        darker.append(mean["water"].mean() < mean["sky"].mean())
        assert (mask[0] == number["sky"]).mean() > 0.5
        assert set(np.unique(mask[-1])) <= {number["water"], number["boat"]}
    assert all(greener)
    assert all(darker)


def test_what_is_there_already_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("precious")
    with pytest.raises(InvalidData, match="name a new folder"):
        draw_scenes(tmp_path / "mine")
    assert files_of(tmp_path) == {"mine/work.txt": b"precious"}


def test_a_drawing_that_stops_midway_leaves_nothing(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        draw_scenes(tmp_path / "lakes", on_progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"training": 0}, {"test": -1}, {"training": 10**9}])
def test_impossible_numbers_of_scenes_are_refused(tmp_path, wrong):
    with pytest.raises(InvalidSetting, match="1 to 100,000"):
        draw_scenes(tmp_path / "lakes", **wrong)
