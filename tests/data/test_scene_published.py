import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from dnc.data import IGNORED, SCENE_KINDS, open_scenes, recognised_scene_kind
from dnc.errors import InvalidData
from tests.data.scenery import COLOURS, draw_scenes

SIDE = 16


def write_pair(image, mask, labels):
    for path in (image, mask):
        path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", labels.shape[::-1], COLOURS[0]).save(image)
    if mask.suffix == ".mat":
        savemat(mask, {"S": labels})
    else:
        Image.fromarray(labels).save(mask)


def all_values(highest, dtype=np.uint8):
    """A mask that has every value from 0 on, and its class as a published table gives it."""
    return np.resize(np.arange(highest + 1), (SIDE, SIDE)).astype(dtype)


def draw_ade(folder, names=True):
    for part, word, count in (("training", "train", 3), ("validation", "val", 2)):
        for number in range(1, count + 1):
            name = f"ADE_{word}_{number:08}"
            write_pair(
                folder / "images" / part / f"{name}.jpg",
                folder / "annotations" / part / f"{name}.png",
                all_values(150),
            )
    if names:
        rows = [f"{i} \t0.1\t10\t5\t0\tthing{i}, other word" for i in range(1, 151)]
        (folder / "objectInfo150.txt").write_text(
            "\n".join(["Idx\tRatio\tTrain\tVal\tName", *rows])
        )


@pytest.mark.parametrize("inside", ["", "ADEChallengeData2016"])
def test_ade20k_counts_from_1_and_0_is_no_class(tmp_path, inside):
    draw_ade(tmp_path / inside)
    splits = open_scenes(tmp_path)
    assert splits.kind == recognised_scene_kind(tmp_path) == "ade20k"
    assert (len(splits.train), len(splits.validation), splits.test) == (3, 2, None)
    assert splits.classes == tuple(f"thing{i}" for i in range(1, 151))
    labels = all_values(150).astype(int)
    expected = np.where(labels == 0, IGNORED, labels - 1)
    np.testing.assert_array_equal(splits.train.read_mask(0), expected)
    assert not splits.set_aside


def test_ade20k_without_its_table_has_numbers_for_names(tmp_path):
    draw_ade(tmp_path, names=False)
    splits = open_scenes(tmp_path)
    assert splits.classes == tuple(map(str, range(1, 151)))
    (tmp_path / "objectInfo150.txt").write_text("Idx\tName\n1\twall\n")
    with pytest.raises(InvalidData, match="no line for class '2'"):
        open_scenes(tmp_path)


def test_another_data_set_in_the_same_layout_is_not_taken_for_ade20k(tmp_path):
    draw_ade(tmp_path, names=False)
    for path in (tmp_path / "images" / "training").iterdir():
        path.rename(path.with_name(path.name.replace("ADE", "eye")))
    assert recognised_scene_kind(tmp_path) is None


# Published with the labels: what each of the ids 0 to 33 is in training, 255 for nothing.
TRAIN_IDS = {
    **{7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10, 24: 11},
    **{25: 12, 26: 13, 27: 14, 28: 15, 31: 16, 32: 17, 33: 18},
}


def draw_cityscapes(root, suffixes):
    for part, cities in (("train", ("aachen", "ulm")), ("val", ("lindau",)), ("test", ("bonn",))):
        for city in cities:
            for number in range(2):
                name = f"{city}_{number:06}_000019"
                image = root / "leftImg8bit" / part / city / f"{name}_leftImg8bit.png"
                labels = all_values(33)
                ids = np.vectorize(lambda v: TRAIN_IDS.get(v, 255))(labels).astype(np.uint8)
                folder = root / "gtFine" / part / city
                for suffix in suffixes:
                    written = ids if suffix == "labelTrainIds" else labels
                    write_pair(image, folder / f"{name}_gtFine_{suffix}.png", written)
                Image.new("RGB", (SIDE, SIDE)).save(folder / f"{name}_gtFine_color.png")


@pytest.mark.parametrize("suffixes", [("labelIds",), ("labelIds", "labelTrainIds")])
def test_cityscapes_has_19_classes_whichever_labels_are_there(tmp_path, suffixes):
    draw_cityscapes(tmp_path, suffixes)
    splits = open_scenes(tmp_path)
    assert splits.kind == "cityscapes"
    assert (len(splits.train), len(splits.validation), splits.test) == (4, 2, None)
    assert splits.set_aside == ()
    assert len(splits.classes) == 19
    assert splits.classes[0] == "road"
    assert splits.classes[18] == "bicycle"
    assert splits.train.colours[13] == (0, 0, 142)
    assert splits.train.masks[0].endswith(f"{suffixes[-1]}.png")
    expected = np.vectorize(lambda v: TRAIN_IDS.get(v, IGNORED))(all_values(33))
    np.testing.assert_array_equal(splits.train.read_mask(0), expected)


def draw_coco(root, *, converted):
    used = [i for i in range(1, 183) if i not in (12, 26, 29, 30, 45, 66, 68, 69, 71, 83, 91)]
    for part, count in (("train", 3), ("test", 2)):
        names = [f"COCO_train2014_{part}{number}" for number in range(count)]
        for name in names:
            if converted:
                write_pair(
                    root / "images" / f"{part}2014" / f"{name}.jpg",
                    root / "annotations" / f"{part}2014" / f"{name}_labelTrainIds.png",
                    all_values(171),
                )
            else:
                labels = np.resize([0, *used], (SIDE, SIDE)).astype(np.uint8)
                write_pair(
                    root / "images" / f"{name}.jpg", root / "annotations" / f"{name}.mat", labels
                )
        (root / "imageLists").mkdir(exist_ok=True)
        (root / "imageLists" / f"{part}.txt").write_text("\n".join(names) + "\n")


@pytest.mark.parametrize("converted", [True, False])
def test_cocostuff_has_171_classes_whether_converted_or_not(tmp_path, converted):
    draw_coco(tmp_path, converted=converted)
    splits = open_scenes(tmp_path)
    assert splits.kind == "cocostuff10k"
    assert (len(splits.train), splits.validation, len(splits.test)) == (3, None, 2)
    assert splits.set_aside == ()
    assert len(splits.classes) == 171
    assert splits.classes[11] == "13"
    assert splits.classes[80] == "92"
    expected = np.resize([IGNORED, *range(171)], (SIDE, SIDE))
    np.testing.assert_array_equal(splits.test.read_mask(1), expected)


def test_cocostuff_takes_names_from_its_list_and_reports_what_is_missing(tmp_path):
    draw_coco(tmp_path, converted=False)
    (tmp_path / "labels.txt").write_text("0: unlabeled\n1: person\n13: stop sign\n182: wood\n")
    (tmp_path / "annotations" / "COCO_train2014_train1.mat").unlink()
    (tmp_path / "images" / "COCO_train2014_test0.jpg").unlink()
    labels = np.full((SIDE, SIDE), 12, np.uint8)
    savemat(tmp_path / "annotations" / "COCO_train2014_train0.mat", {"S": labels})
    splits = open_scenes(tmp_path)
    assert (splits.classes[0], splits.classes[11], splits.classes[170]) == (
        *("person", "stop sign", "wood"),
    )
    assert [file.path for file in splits.set_aside] == [
        "images/COCO_train2014_test0.jpg",
        "annotations/COCO_train2014_train0.mat",
        "annotations/COCO_train2014_train1.mat",
    ]


@pytest.mark.parametrize("kind", SCENE_KINDS)
def test_a_layout_that_is_not_there_is_told(tmp_path, kind):
    with pytest.raises(InvalidData, match="looked for"):
        open_scenes(tmp_path, kind=kind)


def test_two_data_sets_in_one_folder_need_a_word(tmp_path):
    draw_ade(tmp_path)
    draw_cityscapes(tmp_path, ("labelIds",))
    with pytest.raises(InvalidData, match="ade20k, cityscapes"):
        open_scenes(tmp_path)
    assert open_scenes(tmp_path, kind="cityscapes").kind == "cityscapes"


def test_a_folder_may_be_opened_as_plain_scenes_by_its_kind(tmp_path):
    draw_scenes(tmp_path, 2)
    assert open_scenes(tmp_path, kind="scenes").kind == "scenes"


def test_masks_without_images_and_images_without_masks_are_reported(tmp_path):
    draw_cityscapes(tmp_path, ("labelIds",))
    gone = tmp_path / "gtFine/train/ulm/ulm_000001_000019_gtFine_labelIds.png"
    gone.unlink()
    (tmp_path / "leftImg8bit/val/lindau/lindau_000000_000019_leftImg8bit.png").unlink()
    splits = open_scenes(tmp_path)
    assert {file.path for file in splits.set_aside} == {
        "leftImg8bit/train/ulm/ulm_000001_000019_leftImg8bit.png",
        "gtFine/val/lindau/lindau_000000_000019_gtFine_labelIds.png",
    }
    assert str(gone.relative_to(tmp_path).with_suffix("")) in splits.set_aside[0].reason
