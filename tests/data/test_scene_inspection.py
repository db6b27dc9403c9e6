import json
import warnings

import numpy as np
import pytest
from PIL import Image

from dnc.data import IGNORED, inspect_scenes, open_scenes, scene_samples_figure
from dnc.data.scene_pictures import MOST_NAMES, MOST_SCENES
from dnc.errors import InvalidData
from tests.data.scenery import blocks, draw_difficult_scenes, draw_scenes


def draw_parts(root):
    for seed, (part, count) in enumerate((("train", 4), ("val", 3))):
        draw_scenes(root, count, part=part, seed=seed, classes=3)
    labels = blocks(0, classes=3)
    labels[:6] = 255
    Image.fromarray(labels).save(root / "masks" / "train" / "000.png")
    (root / "classes.yaml").write_text("classes: [a, b, c, never]")


def test_an_inspection_counts_pixels_as_a_loop_does(tmp_path):
    draw_parts(tmp_path)
    told = []
    found = inspect_scenes(tmp_path, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 7) for done in range(1, 8)]
    assert found.images == {"train": 4, "validation": 3}
    assert (found.widths.smallest, found.heights.largest) == (48, 36)
    assert found.unseen == ("never",)
    for part, scenes in open_scenes(tmp_path).parts().items():
        masks = [scenes.read_mask(i) for i in range(len(scenes))]
        pixels = np.concatenate([mask.ravel() for mask in masks])
        known = pixels[pixels != IGNORED]
        assert found.without_class[part] == pytest.approx(1 - len(known) / len(pixels))
        for label in range(4):
            assert found.pixel_shares[part][label] == pytest.approx(np.mean(known == label))
            assert found.occurrences[part][label] == sum(label in mask for mask in masks)
    assert found.without_class["train"] == pytest.approx(1 / 6 / 4)


def test_what_cannot_be_used_is_named_once(tmp_path):
    bad = draw_difficult_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text("classes: [a, b, c, d]")
    for data in (tmp_path, open_scenes(tmp_path)):
        found = inspect_scenes(data)
        assert sorted(file.path for file in found.unreadable) == sorted(bad)
        assert sum(found.images.values()) == 7


def test_duplicates_and_leaks_are_told_apart(tmp_path):
    draw_parts(tmp_path)
    train, val = tmp_path / "images" / "train", tmp_path / "images" / "val"
    (train / "001.png").write_bytes((train / "000.png").read_bytes())
    (val / "002.png").write_bytes((train / "003.png").read_bytes())
    found = inspect_scenes(tmp_path)
    copies = ("images/train/000.png", "images/train/001.png")
    leak = ("images/train/003.png", "images/val/002.png")
    assert {group.names for group in found.duplicates} == {copies, leak}
    (leaked,) = found.leaks
    assert (leaked.names, leaked.parts) == (leak, ("train", "validation"))


def test_an_inspection_survives_json(tmp_path):
    draw_parts(tmp_path)
    content = json.loads(json.dumps(inspect_scenes(tmp_path).to_dict(), allow_nan=False))
    assert content["kind"] == "scenes"
    assert set(content["pixel_shares"]["train"]) == {"a", "b", "c", "never"}
    assert content["leaks"] == []


def test_a_part_without_any_class_has_no_shares(tmp_path):
    draw_parts(tmp_path)
    for path in (tmp_path / "masks" / "val").iterdir():
        Image.new("L", (48, 36), 255).save(path)
    found = inspect_scenes(tmp_path)
    assert found.pixel_shares["validation"] == (0.0,) * 4
    assert found.without_class["validation"] == 1


def test_nothing_readable_is_an_error(tmp_path):
    draw_parts(tmp_path)
    splits = open_scenes(tmp_path)
    for path in tmp_path.glob("images/*/*.png"):
        path.write_bytes(b"")
    with pytest.raises(InvalidData, match="None of the 7"):
        inspect_scenes(splits)


def texts_of(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_samples_show_images_beside_masks_and_name_the_classes_that_are_seen(tmp_path):
    draw_difficult_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text("classes: ['$x^{2$', '🐶 dogs', \"two\\nlines\", d, e]")
    scenes = open_scenes(tmp_path, validation_share=0, check=False).train
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = scene_samples_figure(scenes)
        figure.savefig(tmp_path / "samples.png", dpi=60)
    assert texts_of(figure) == ["$x^{2$", "□ dogs", "two lines", "d"]
    assert sum(len(ax.images) for ax in figure.axes) == 2 * MOST_SCENES
    assert "unreadable" in [text.get_text() for ax in figure.axes for text in ax.texts]
    assert f"{MOST_SCENES} of them" in figure.get_suptitle()


def test_the_seed_chooses_the_samples_and_one_scene_is_enough(tmp_path):
    draw_scenes(tmp_path, 20, size=(24, 24))
    scenes = open_scenes(tmp_path, validation_share=0).train

    def captions(seed):
        return [ax.get_title(loc="left") for ax in scene_samples_figure(scenes, seed=seed).axes]

    assert captions(0) == captions(0)
    assert captions(0) != captions(1)
    for count in (1, 2, 3):
        figure = scene_samples_figure(scenes.subset(range(count)))
        assert sum(len(ax.images) for ax in figure.axes) == 2 * count
    with pytest.raises(InvalidData, match="no scene"):
        scene_samples_figure(scenes.subset([]))


def test_of_many_classes_some_are_named(tmp_path):
    draw_scenes(tmp_path, 1)
    labels = np.arange(60, dtype=np.uint8).repeat(10).reshape(20, 30)
    labels[0, 0] = 255
    Image.fromarray(labels).save(tmp_path / "masks" / "000.png")
    Image.new("RGB", (30, 20)).save(tmp_path / "images" / "000.png")
    figure = scene_samples_figure(open_scenes(tmp_path).train)
    names = texts_of(figure)
    assert names[-2:] == [f"and {60 - MOST_NAMES} more", "no class"]
    assert len(names) == MOST_NAMES + 2
