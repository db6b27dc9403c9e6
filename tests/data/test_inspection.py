import json
import warnings

import numpy as np
import pytest

from dnc.data import inspect_data, open_data, samples_figure
from dnc.data.pictures import COLUMNS, MOST_CLASSES, drawable
from dnc.errors import InvalidData
from tests.data.drawings import draw_difficult_folder, draw_folder, drawing


def test_an_inspection_counts_what_can_be_used_and_names_what_cannot(tmp_path):
    bad = draw_difficult_folder(tmp_path)
    told = []
    found = inspect_data(tmp_path, on_progress=lambda done, total: told.append((done, total)))
    assert sorted(file.path for file in found.unreadable) == sorted(bad)
    assert np.sum(list(found.counts.values()), axis=0).tolist() == [2, 9, 10]
    assert found.images == 21
    assert found.formats == {"PNG": 19, "JPEG": 1, "GIF": 1}
    assert (found.widths.smallest, found.widths.largest) == (1, 48)
    assert (found.heights.smallest, found.heights.median, found.heights.largest) == (1, 40, 48)
    assert told[-1] == (22, 22)
    assert found.imbalance == max(found.counts["train"]) / min(found.counts["train"])


def test_duplicates_leaks_and_contradictions_are_told_apart(tmp_path):
    for part in ("train", "test"):
        draw_folder(tmp_path / part, {"a": 3, "b": 3}, seed=len(part))
    train, test = tmp_path / "train", tmp_path / "test"
    (train / "a" / "copy.png").write_bytes((train / "a" / "0000.png").read_bytes())
    (train / "b" / "wrong.png").write_bytes((train / "a" / "0001.png").read_bytes())
    (test / "b" / "leak.png").write_bytes((train / "b" / "0000.png").read_bytes())
    found = inspect_data(open_data(tmp_path, validation_share=0))
    groups = {group.names for group in found.duplicates}
    copies = ("train/a/0000.png", "train/a/copy.png")
    wrong = ("train/a/0001.png", "train/b/wrong.png")
    leak = ("train/b/0000.png", "test/b/leak.png")
    assert groups == {copies, wrong, leak}
    assert [group.names for group in found.leaks] == [leak]
    assert [group.names for group in found.contradictions] == [wrong]
    assert found.contradictions[0].classes == ("a", "b")
    assert found.leaks[0].parts == ("train", "test")


def test_an_inspection_survives_json(tmp_path):
    draw_difficult_folder(tmp_path)
    content = inspect_data(tmp_path).to_dict()
    assert json.loads(json.dumps(content, allow_nan=False))["images"] == 21
    assert set(content["counts"]["train"]) == {"two only", "Äpfel", "犬 и кошки"}


def test_arrays_are_inspected_like_files():
    found = inspect_data("digits")
    assert (found.kind, found.images, found.formats) == ("digits", 1797, {"array": 1797})
    assert found.widths.largest == found.heights.smallest == 8
    assert not found.unreadable


def test_nothing_readable_is_an_error(tmp_path):
    draw_folder(tmp_path, {"a": 2})
    splits = open_data(tmp_path)
    for path in (tmp_path / "a").iterdir():
        path.write_bytes(b"")
    with pytest.raises(InvalidData, match="None of the 2"):
        inspect_data(splits)


def test_samples_show_a_row_for_each_class_without_a_warning(tmp_path):
    draw_difficult_folder(tmp_path)
    odd = ["$x^{2$", "🐶 dogs", "a very long name that goes on and on 1", "two\nlines\t"]
    draw_folder(tmp_path, dict.fromkeys(odd, 2))
    images = open_data(tmp_path, validation_share=0).train
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = samples_figure(images)
        figure.savefig(tmp_path / "samples.png", dpi=60)
    rows = len(images.classes)
    assert len(figure.axes) == rows * COLUMNS
    shown = sum(len(ax.images) for ax in figure.axes)
    assert shown == np.minimum(images.counts(), COLUMNS).sum()
    texts = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert "unreadable" in texts
    assert any("…" in text for text in texts)


def test_of_many_classes_a_dozen_is_shown_and_the_seed_chooses(tmp_path):
    draw_folder(tmp_path, {f"class {i}": 2 for i in range(20)}, size=4)
    images = open_data(tmp_path, validation_share=0).train

    def names(seed):
        figure = samples_figure(images, seed=seed)
        assert f"{MOST_CLASSES} of the classes" in figure.get_suptitle()
        texts = [text.get_text() for ax in figure.axes for text in ax.texts]
        return [text for text in texts if text.startswith("class")]

    assert len(names(0)) == MOST_CLASSES
    assert names(0) == names(0)
    assert names(0) != names(1)


def test_large_and_single_images_can_be_shown(tmp_path):
    draw_folder(tmp_path, {"only": 1}, size=300)
    drawing(0, 1, size=300).crop((0, 0, 300, 200)).save(tmp_path / "only" / "wide.png")
    for count in (1, 2):
        figure = samples_figure(
            open_data(tmp_path, train_per_class=count, validation_share=0).train
        )
        figure.savefig(tmp_path / "samples.png", dpi=60)


def test_only_signs_without_a_font_are_replaced():
    assert drawable("Äpfel и кошки 3") == "Äpfel и кошки 3"
    assert drawable("a\nb\0c") == "a b c"
    assert drawable("\U0001fae8") == "□"
