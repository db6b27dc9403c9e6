import os
import shutil
import unicodedata

import numpy as np
import pytest
from PIL import Image

from dnc.data import IGNORED, open_scenes, recognised_scene_kind
from dnc.errors import InvalidData, InvalidSetting
from tests.data.drawings import draw_folder
from tests.data.scenery import blocks, coloured, draw_difficult_scenes, draw_scene, draw_scenes


def names_of(splits):
    return {part: set(scenes.names) for part, scenes in splits.parts().items()}


def test_each_bad_scene_is_set_aside_once_and_named(tmp_path):
    bad = draw_difficult_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text("classes: [a, b, c, d]")
    splits = open_scenes(tmp_path, validation_share=0)
    assert sorted(file.path for file in splits.set_aside) == sorted(bad)
    assert len(splits.train) == 7
    reasons = {file.path: file.reason for file in splits.set_aside}
    assert (
        "label 200 at 3 pixels, first at row 5, column 7"
        in (reasons["masks/train/unknown label.png"])
    )
    assert "48 x 30 pixels" in reasons["masks/train/smaller.png"]
    assert "has 48 x 36" in reasons["masks/train/smaller.png"]
    assert "has 36 x 48" in reasons["masks/train/turned.png"]
    assert "masks/train/no mask.*" in reasons["images/train/no mask.png"]
    assert "images/train/no image.*" in reasons["masks/train/no image.png"]
    for i in range(len(splits.train)):
        mask = splits.train.read_mask(i)
        np.testing.assert_array_equal(np.asarray(splits.train.read(i)), coloured(mask))


def test_without_the_check_only_names_are_looked_at(tmp_path):
    draw_difficult_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text("classes: [a, b, c, d]")
    splits = open_scenes(tmp_path, validation_share=0, check=False)
    assert {file.path for file in splits.set_aside} == {
        "images/train/no mask.png",
        "masks/train/no image.png",
        "images/train/two masks.png",
        "images/train/two images.png",
        "images/train/two images.bmp",
    }
    assert len(splits.train) == 14


def test_an_id_leads_to_the_same_name_however_the_scenes_are_opened(tmp_path):
    draw_difficult_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text("classes: [a, b, c, d]")
    listings = [
        open_scenes(tmp_path, seed=1),
        open_scenes(tmp_path, check=False),
        open_scenes(tmp_path, train_images=2, validation_share=0.5),
    ]
    for splits in listings:
        assert splits.listing == listings[0].listing
        for scenes in splits.parts().values():
            assert [splits.listing[i] for i in scenes.ids] == list(scenes.names)
            assert list(scenes.names) == sorted(scenes.names)


@pytest.mark.parametrize("outside", [True, False])
def test_parts_may_lie_outside_or_inside_and_are_taken_as_they_are(tmp_path, outside):
    for part, count in (("train", 3), ("VAL", 2), ("test", 1)):
        if outside:
            draw_scenes(tmp_path / part, count)
        else:
            draw_scenes(tmp_path, count, part=part)
    (tmp_path / "docs").mkdir()
    coloured(blocks(0)).save(tmp_path / "docs" / "figure.png")
    splits = open_scenes(tmp_path)
    assert splits.kind == "scenes"
    assert {part: len(scenes) for part, scenes in splits.parts().items()} == {
        "train": 3,
        "validation": 2,
        "test": 1,
    }
    first = "test/images/000.png" if outside else "images/test/000.png"
    assert splits.test.names == (first,)
    assert splits.test.path(0).is_file()
    assert splits.test.mask_path(0).is_file()


def test_images_and_masks_may_call_a_part_differently(tmp_path):
    draw_scenes(tmp_path, 2, part="train")
    draw_scene(tmp_path / "images/val/x.png", tmp_path / "masks/validation/x.tif", seed=3)
    splits = open_scenes(tmp_path)
    assert splits.validation.masks == ("masks/validation/x.tif",)
    assert not splits.set_aside


@pytest.mark.parametrize(("missing", "left"), [("masks", "images"), ("images", "masks")])
def test_a_part_without_its_counterpart_is_reported_file_by_file(tmp_path, missing, left):
    draw_scenes(tmp_path, 3, part="train")
    draw_scenes(tmp_path, 2, part="test")
    shutil.rmtree(tmp_path / missing / "test")
    splits = open_scenes(tmp_path)
    assert splits.test is None
    assert [file.path for file in splits.set_aside] == [
        f"{left}/test/000.png",
        f"{left}/test/001.png",
    ]


def test_a_folder_of_scenes_may_be_called_train_beside_others(tmp_path):
    draw_scenes(tmp_path, 2, part="train")
    draw_scenes(tmp_path, 2, part="tram", seed=1)
    splits = open_scenes(tmp_path, validation_share=0)
    assert len(splits.train) == 4
    draw_scenes(tmp_path, 2, part="val", seed=2)
    with pytest.raises(InvalidData, match="'tram'"):
        open_scenes(tmp_path)


def test_two_folders_of_the_same_part_are_refused(tmp_path):
    for part in ("train", "val", "valid"):
        draw_scenes(tmp_path, 1, part=part)
    with pytest.raises(InvalidData, match="val and valid"):
        open_scenes(tmp_path)


def test_nested_folders_links_and_extensions_of_any_case_belong_to_each_other(tmp_path):
    root = tmp_path / "data"
    draw_scene(root / "images/a/b/x.y.PNG", root / "masks/a/b/x.y.bmp", seed=0)
    draw_scene(tmp_path / "away/images/z.png", tmp_path / "away/masks/z.png", seed=1)
    for folder in ("images", "masks"):
        os.symlink(tmp_path / "away" / folder, root / folder / "linked")
        os.symlink(root, root / folder / "circle")
    splits = open_scenes(root, validation_share=0)
    assert splits.train.names == ("images/a/b/x.y.PNG", "images/linked/z.png")
    assert splits.train.masks == ("masks/a/b/x.y.bmp", "masks/linked/z.png")
    assert not splits.set_aside


def test_a_name_is_the_same_however_it_is_encoded(tmp_path):
    composed, decomposed = (unicodedata.normalize(form, "Äpfel.png") for form in ("NFC", "NFD"))
    draw_scene(tmp_path / "images" / composed, tmp_path / "masks" / decomposed, seed=0)
    assert len(open_scenes(tmp_path).train) == 1


def test_names_that_are_no_text_are_usable(tmp_path):
    draw_scenes(tmp_path, 1)
    for folder in ("images", "masks"):
        inside = os.fsencode(tmp_path / folder)
        os.rename(inside + b"/000.png", inside + b"/caf\xe9.png")
    train = open_scenes(tmp_path).train
    assert train.read(0).size == (48, 36)
    assert train.fingerprint()


def test_without_names_the_classes_are_the_numbers_of_the_training_masks(tmp_path):
    draw_scenes(tmp_path, 3, part="train", classes=3)
    draw_scenes(tmp_path, 2, part="val", classes=3)
    labels = blocks(5, classes=3)
    labels[0, 0] = 255
    Image.fromarray(labels).save(tmp_path / "masks/train/000.png")
    labels[1, 2] = 3
    Image.fromarray(labels).save(tmp_path / "masks/val/001.png")
    told = []
    splits = open_scenes(tmp_path, on_progress=lambda done, total: told.append((done, total)))
    assert splits.classes == ("0", "1", "2")
    assert splits.train.read_mask(0)[0, 0] == IGNORED
    (aside,) = splits.set_aside
    assert aside.path == "masks/val/001.png"
    assert "label 3 at 1 pixel, first at row 1, column 2" in aside.reason
    assert told == [(done, 5) for done in range(1, 6)]
    unchecked = open_scenes(tmp_path, check=False)
    assert unchecked.classes == splits.classes
    assert len(unchecked.validation) == 2


def test_masks_of_black_and_white_are_not_taken_for_one_class(tmp_path):
    draw_scenes(tmp_path, 2, classes=1)
    labels = blocks(0, classes=1)
    labels[5:9] = 255
    Image.fromarray(labels).save(tmp_path / "masks/000.png")
    with pytest.raises(InvalidData, match=r"classes\.yaml"):
        open_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text(
        "classes: [{name: paper, number: 0}, {name: ink, number: 255}]"
    )
    train = open_scenes(tmp_path, validation_share=0).train
    assert train.read_mask(0)[4:6, 0].tolist() == [0, 1]


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_two_scenes_or_more_give_one_and_keep_one(tmp_path, share):
    draw_scenes(tmp_path, 20, size=(12, 12))
    (tmp_path / "classes.yaml").write_text("classes: [a, b, c, d]")
    splits = open_scenes(tmp_path, validation_share=share)
    assert len(splits.validation) == min(max(round(20 * share), 1), 19)
    assert len(splits.train) + len(splits.validation) == 20
    assert not names_of(splits)["train"] & names_of(splits)["validation"]


def test_a_single_scene_stays_in_training(tmp_path):
    draw_scenes(tmp_path, 1)
    splits = open_scenes(tmp_path)
    assert (len(splits.train), splits.validation, splits.test) == (1, None, None)


def test_the_split_follows_its_seed_and_share_zero_means_none(tmp_path):
    draw_scenes(tmp_path, 20, size=(12, 12))
    first, again, other = (names_of(open_scenes(tmp_path, seed=seed)) for seed in (0, 0, 1))
    assert first == again
    assert first["validation"] != other["validation"]
    assert open_scenes(tmp_path, validation_share=0).validation is None
    for share in (1.0, -0.1, float("nan")):
        with pytest.raises(InvalidSetting, match="validation_share"):
            open_scenes(tmp_path, validation_share=share)


def test_a_new_scene_moves_at_most_one_other_to_another_part(tmp_path):
    draw_scenes(tmp_path, 20, size=(12, 12))
    before = names_of(open_scenes(tmp_path))
    for number in range(5):
        name = f"new{number}.png"
        draw_scene(tmp_path / "images" / name, tmp_path / "masks" / name, seed=number)
        after = names_of(open_scenes(tmp_path))
        moved = before["validation"] ^ after["validation"]
        assert len([name for name in moved if name in before["train"] | before["validation"]]) <= 1
        before = after


def test_a_larger_choice_of_scenes_contains_a_smaller_one(tmp_path):
    draw_scenes(tmp_path, 20, size=(12, 12))
    some, more = (open_scenes(tmp_path, train_images=count) for count in (2, 5))
    assert (len(some.train), len(more.train)) == (2, 5)
    assert set(some.train.names) < set(more.train.names)
    assert names_of(some)["validation"] == names_of(more)["validation"]
    assert len({open_scenes(tmp_path, train_images=2, seed=s).train.names for s in range(4)}) > 1
    with pytest.raises(InvalidSetting, match="train_images"):
        open_scenes(tmp_path, train_images=0)


def test_nothing_usable_is_an_error_that_says_what_was_found(tmp_path):
    with pytest.raises(InvalidData, match="does not exist"):
        open_scenes(tmp_path / "nowhere")
    with pytest.raises(InvalidData, match="images and masks"):
        open_scenes(tmp_path)
    with pytest.raises(InvalidSetting, match="no kind 'scene'"):
        open_scenes(tmp_path, kind="scene")
    draw_scenes(tmp_path, 2)
    for path in (tmp_path / "masks").iterdir():
        path.write_text("x")
    with pytest.raises(InvalidData, match=r"none .* masks/000\.png"):
        open_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text("classes: [a, b]")
    with pytest.raises(InvalidData, match=r"none .* masks/000\.png"):
        open_scenes(tmp_path)
    for path in (tmp_path / "masks").iterdir():
        path.unlink()
    with pytest.raises(InvalidData, match=r"none .* images/000\.png"):
        open_scenes(tmp_path, check=False)
    for path in (tmp_path / "images").iterdir():
        path.unlink()
    with pytest.raises(InvalidData, match="no image with a mask"):
        open_scenes(tmp_path)


def test_only_images_with_masks_are_recognised_as_scenes(tmp_path):
    draw_folder(tmp_path / "classes", {"images": 2, "photos": 2})
    for part in ("train", "val", "valid", "else"):
        draw_folder(tmp_path / "parts" / part, {"images": 2, "photos": 2})
    assert recognised_scene_kind(tmp_path / "classes") is None
    assert recognised_scene_kind(tmp_path / "parts") is None
    assert recognised_scene_kind(tmp_path / "nowhere") is None
    draw_scenes(tmp_path / "scenes", 1)
    draw_scenes(tmp_path / "inside" / "train", 1)
    assert recognised_scene_kind(tmp_path / "scenes") == "scenes"
    assert recognised_scene_kind(str(tmp_path / "inside")) == "scenes"


def test_where_nothing_can_be_used_the_most_frequent_reason_is_told(tmp_path):
    draw_scenes(tmp_path, 4)
    for mask in (tmp_path / "masks").iterdir():
        coloured(blocks(0)).save(mask)
    (tmp_path / "masks" / "000.png").unlink()
    with pytest.raises(InvalidData, match=r"3 of them.*classes\.yaml.*masks: colour"):
        open_scenes(tmp_path)
