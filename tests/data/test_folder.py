import os
import unicodedata

import numpy as np
import pytest

from dnc.data import open_data
from dnc.errors import InvalidData, InvalidSetting
from tests.data.drawings import draw_difficult_folder, draw_folder, drawing


def names_of(splits):
    return {part: set(images.names) for part, images in splits.parts().items()}


def test_each_bad_file_of_a_difficult_folder_is_set_aside_once(tmp_path):
    bad = draw_difficult_folder(tmp_path)
    splits = open_data(tmp_path)
    by_header = [file.path for file in splits.set_aside]
    assert sorted(by_header) == sorted(bad - {"Äpfel/truncated.jpg"})
    assert all(file.reason for file in splits.set_aside)
    assert splits.classes == ("two only", "Äpfel", "犬 и кошки")
    # 6 drawings, the photo, a grey one, one with a palette, and the cut one, whose header is whole.
    assert sum(images.counts() for images in splits.parts().values()).tolist() == [2, 10, 10]


def test_an_id_leads_to_the_same_name_however_the_data_is_opened(tmp_path):
    draw_difficult_folder(tmp_path)
    listings = [
        open_data(tmp_path, seed=1),
        open_data(tmp_path, check=False),
        open_data(tmp_path, train_per_class=2, validation_share=0.5),
    ]
    for splits in listings:
        assert splits.listing == listings[0].listing
        for images in splits.parts().values():
            assert [splits.listing[i] for i in images.ids] == list(images.names)
            assert list(images.names) == sorted(images.names)


def test_parts_of_their_own_are_taken_as_they_are(tmp_path):
    for part, count in (("train", 3), ("VAL", 2), ("test", 1)):
        draw_folder(tmp_path / part, {"a": count, "b": count})
    (tmp_path / "docs").mkdir()
    splits = open_data(tmp_path)
    assert {part: len(images) for part, images in splits.parts().items()} == {
        "train": 6,
        "validation": 4,
        "test": 2,
    }
    assert splits.test.names == ("test/a/0000.png", "test/b/0000.png")
    assert splits.test.path(0).is_file()


def test_without_a_training_folder_there_is_no_training_part(tmp_path):
    draw_folder(tmp_path / "test", {"a": 2, "b": 1})
    splits = open_data(tmp_path)
    assert (splits.train, splits.validation, len(splits.test)) == (None, None, 3)
    assert splits.classes == ("a", "b")


def test_a_class_may_be_called_train(tmp_path):
    draw_folder(tmp_path, {"bus": 2, "train": 2, "tram": 2})
    assert open_data(tmp_path).classes == ("bus", "train", "tram")


def test_parts_beside_classes_are_refused(tmp_path):
    draw_folder(tmp_path / "train", {"a": 2})
    draw_folder(tmp_path / "val", {"a": 2})
    draw_folder(tmp_path, {"extra": 2})
    with pytest.raises(InvalidData, match="extra"):
        open_data(tmp_path)


def test_two_folders_of_the_same_part_are_refused(tmp_path):
    draw_folder(tmp_path / "train", {"a": 2})
    draw_folder(tmp_path / "val", {"a": 2})
    draw_folder(tmp_path / "valid", {"a": 2})
    with pytest.raises(InvalidData, match="val and valid"):
        open_data(tmp_path)


def test_a_class_without_training_images_is_named(tmp_path):
    draw_folder(tmp_path / "train", {"a": 2})
    draw_folder(tmp_path / "test", {"a": 2, "unknown": 1})
    with pytest.raises(InvalidData, match="'unknown'"):
        open_data(tmp_path)


def test_a_class_without_usable_images_is_left_out(tmp_path):
    draw_folder(tmp_path, {"a": 2, "b": 2})
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "x.png").write_text("no")
    splits = open_data(tmp_path)
    assert splits.classes == ("a", "b")
    assert [file.path for file in splits.set_aside] == ["broken/x.png"]


def test_images_outside_any_class_are_reported(tmp_path):
    draw_folder(tmp_path, {"a": 2})
    drawing(0, 9).save(tmp_path / "stray.png")
    (aside,) = open_data(tmp_path).set_aside
    assert aside.path == "stray.png"
    assert "class" in aside.reason


def test_nested_folders_belong_to_their_class_and_extensions_ignore_case(tmp_path):
    draw_folder(tmp_path / "a", {"x": 1, "y": 1})
    draw_folder(tmp_path, {"b": 1})
    (tmp_path / "b" / "0000.png").rename(tmp_path / "b" / "0000.PnG")
    splits = open_data(tmp_path, validation_share=0)
    assert splits.train.names == ("a/x/0000.png", "a/y/0000.png", "b/0000.PnG")
    assert splits.train.labels.tolist() == [0, 0, 1]


def test_links_are_followed_but_never_in_circles(tmp_path):
    draw_folder(tmp_path / "elsewhere", {"more": 2})
    draw_folder(tmp_path / "data", {"a": 1, "b": 1})
    os.symlink(tmp_path / "elsewhere" / "more", tmp_path / "data" / "a" / "linked")
    os.symlink(tmp_path / "data" / "b" / "0000.png", tmp_path / "data" / "b" / "again.png")
    os.symlink(tmp_path / "data", tmp_path / "data" / "a" / "up")
    os.symlink(tmp_path / "data" / "a", tmp_path / "data" / "a" / "linked" / "back")
    names = open_data(tmp_path / "data", validation_share=0).train.names
    assert names == (
        *("a/0000.png", "a/linked/0000.png", "a/linked/0001.png"),
        *("b/0000.png", "b/again.png"),
    )


def test_composed_and_decomposed_names_are_one_class_and_paths_stay(tmp_path):
    decomposed = unicodedata.normalize("NFD", "Äpfel")
    draw_folder(tmp_path / "train", {decomposed: 2, "b": 2})
    draw_folder(tmp_path / "test", {"Äpfel": 1, "b": 1})
    splits = open_data(tmp_path, validation_share=0)
    assert splits.classes == ("b", "Äpfel")
    assert [len(images) for images in splits.parts().values()] == [4, 2]
    assert all(splits.train.path(i).is_file() for i in range(4))


def test_names_that_are_no_text_are_usable(tmp_path):
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    drawing(0, 0).save(tmp_path / "x.png")
    os.rename(tmp_path / "x.png", folder + b"/\xff.png")
    splits = open_data(tmp_path)
    assert splits.classes == ("caf�",)
    assert splits.train.read(0).size == (32, 32)
    assert splits.train.fingerprint()


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_every_class_of_two_keeps_one_and_gives_one(tmp_path, share):
    draw_folder(tmp_path, {"a": 1, "b": 2, "c": 3, "d": 40}, size=4)
    splits = open_data(tmp_path, validation_share=share)
    trained, held_out = splits.train.counts(), splits.validation.counts()
    assert (trained + held_out).tolist() == [1, 2, 3, 40]
    assert trained.min() >= 1
    assert held_out[0] == 0
    assert held_out[1:].min() >= 1
    assert abs(held_out[3] - 40 * share) <= 1
    assert not set(splits.train.names) & set(splits.validation.names)


def test_the_split_follows_its_seed(tmp_path):
    draw_folder(tmp_path, {"a": 30, "b": 30}, size=4)
    first, again, other = (names_of(open_data(tmp_path, seed=seed)) for seed in (0, 0, 1))
    assert first == again
    assert first["validation"] != other["validation"]


def test_a_new_image_moves_at_most_one_other_to_another_part(tmp_path):
    draw_folder(tmp_path, {"a": 30, "b": 30}, size=4)
    before = names_of(open_data(tmp_path))
    for number in range(5):
        drawing(0, 90 + number, size=4).save(tmp_path / "a" / f"new{number}.png")
        after = names_of(open_data(tmp_path))
        moved = before["validation"] ^ after["validation"]
        assert len([name for name in moved if name in before["train"] | before["validation"]]) <= 1
        before = after


def test_share_zero_means_no_validation(tmp_path):
    draw_folder(tmp_path, {"a": 3, "b": 3})
    splits = open_data(tmp_path, validation_share=0)
    assert splits.validation is None
    assert len(splits.train) == 6
    for share in (1.0, -0.1, float("nan")):
        with pytest.raises(InvalidSetting, match="validation_share"):
            open_data(tmp_path, validation_share=share)


def test_a_larger_choice_per_class_contains_a_smaller_one(tmp_path):
    draw_folder(tmp_path, {"a": 20, "b": 3}, size=4)
    some, more = (open_data(tmp_path, train_per_class=count) for count in (2, 5))
    assert some.train.counts().tolist() == [2, 2]
    assert set(some.train.names) < set(more.train.names)
    assert names_of(some)["validation"] == names_of(more)["validation"]
    chosen = {
        open_data(tmp_path, train_per_class=2, validation_share=0, seed=seed).train.names
        for seed in range(4)
    }
    assert len(chosen) > 1
    with pytest.raises(InvalidSetting, match="train_per_class"):
        open_data(tmp_path, train_per_class=0)


def test_progress_counts_every_file_once(tmp_path):
    draw_folder(tmp_path, {"a": 5, "b": 6}, size=4)
    told = []
    open_data(tmp_path, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(done, 11) for done in range(1, 12)]


def test_nothing_usable_is_an_error_that_says_what_was_found(tmp_path):
    with pytest.raises(InvalidData, match="does not exist"):
        open_data(tmp_path / "nowhere")
    with pytest.raises(InvalidData, match="no image file"):
        open_data(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidData, match="is a file"):
        open_data(tmp_path / "file")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jpg").write_text("x")
    with pytest.raises(InvalidData, match=r"a/x\.jpg"):
        open_data(tmp_path)
    with pytest.raises(InvalidSetting, match="foldr"):
        open_data(tmp_path, kind="foldr")


def test_a_table_gives_the_same_data_as_the_folder(tmp_path):
    draw_folder(tmp_path, {"a": 4, "b": 4})
    rows = [f"{label}/{i:04}.png,{label}" for i in range(4) for label in "ba"]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]), encoding="utf-8-sig")
    of_table, of_folder = open_data(tmp_path / "list.csv"), open_data(tmp_path, kind="folder")
    assert (of_table.kind, of_folder.kind) == ("csv", "folder")
    for one, other in zip(of_table.parts().values(), of_folder.parts().values(), strict=True):
        assert one.names == other.names
        assert one.fingerprint() == other.fingerprint()


def test_a_table_may_say_the_parts_and_missing_files_are_set_aside(tmp_path):
    draw_folder(tmp_path, {"x": 4})
    (tmp_path / "list.csv").write_text(
        "split,label,path\n"
        "train,cat,x/0000.png\nTRAIN,dog,x/0001.png\nval,cat,x/0002.png\n"
        f"test,dog,{tmp_path}/x/0003.png\n,cat,x/none.png\n"
    )
    splits = open_data(tmp_path / "list.csv")
    assert [len(images) for images in splits.parts().values()] == [2, 1, 1]
    assert splits.test.read(0).size == (32, 32)
    assert [file.path for file in splits.set_aside] == ["x/none.png"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name,class\na,b\n", "path and label"),
        ("", "none"),
        ("path,label\nx/0000.png,\n", "line 2"),
        ("path,label\nx/0000.png,a,b\n", "line 2"),
        ("path,label,split\nx/0000.png,a,trian\n", "trian"),
        ("path,label\nx/0000.png,a\nx/0000.png,b\n", "more than once"),
        ('path,label\n"x/0000.png,a\n', "cannot be read"),
        ("path,label\n\xff,a\n", "cannot be read"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(tmp_path, content, said):
    (tmp_path / "list.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises(InvalidData, match=said):
        open_data(tmp_path / "list.csv")


def test_the_fingerprint_changes_with_what_it_covers(tmp_path):
    draw_folder(tmp_path, {"a": 2, "b": 2})
    images = open_data(tmp_path, validation_share=0).train
    first = images.fingerprint()
    assert images.fingerprint() == first
    assert images.subset([0, 1, 2]).fingerprint() != first
    with (tmp_path / "a" / "0000.png").open("ab") as opened:
        opened.write(b"x")
    assert images.fingerprint() != first
    digits = open_data("digits").test
    changed = digits.pixels.copy()
    changed[0, 0, 0, 0] ^= 1
    other = type(digits)(
        digits.root, digits.names, digits.labels, digits.ids, digits.classes, changed
    )
    assert digits.fingerprint() != other.fingerprint()


def test_a_subset_keeps_ids_and_refuses_positions_that_are_not_there(tmp_path):
    draw_folder(tmp_path, {"a": 3, "b": 3})
    images = open_data(tmp_path, validation_share=0).train
    part = images.subset(np.array([4, 1]))
    assert part.ids.tolist() == [4, 1]
    assert part.labels.tolist() == [1, 0]
    assert part.names == (images.names[4], images.names[1])
    for positions in ([6], [-1]):
        with pytest.raises(InvalidData, match="Positions"):
            images.subset(positions)
