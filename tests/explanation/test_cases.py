import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from PIL import Image

from dnc.data import open_data
from dnc.errors import InvalidCheckpoint
from dnc.explanation.cases import (
    Case,
    CaseBase,
    case_reader,
    decoded,
    sha256_of,
    shown_name,
    thumbnail,
    verified,
)
from tests.data.drawings import draw_folder, drawing


@pytest.fixture
def folder(tmp_path):
    draw_folder(tmp_path / "images", {"red": 4, "green": 4})
    return tmp_path / "images"


def base_of(folder) -> CaseBase:
    images = open_data(folder, validation_share=0.0).train
    cases = tuple(
        Case(
            label=int(images.labels[p]),
            subcentroid=0,
            image=int(images.ids[p]),
            file=images.names[p],
            sha256=sha256_of(images, p),
            similarity=0.9,
            stands_for=3,
            of_these_right=2,
            decides=4,
            rightly=3,
            thumbnail=thumbnail(images.read(p)),
        )
        for p in (0, 5)
    )
    return CaseBase(False, str(folder), "folder", cases)


def test_a_case_base_survives_its_file(folder, tmp_path):
    base = base_of(folder)
    again = CaseBase.from_tree(json.loads(base.to_json()), where=tmp_path)
    assert again == base
    assert again.by_place[1, 0].file == base.cases[1].file


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("thumbnail", "https://example.org/x.png"),
        ("thumbnail", "data:text/html;base64,PHNjcmlwdD4="),
        ("thumbnail", 'data:image/png;base64,AAAA" onerror="alert(1)'),
        ("thumbnail", "data:image/png;base64,AAAA\n"),
        ("sha256", "abc"),
        ("label", -1),
        ("similarity", 3.0),
        ("file", "x" * 10_001),
        ("stands_for", float("nan")),
    ],
)
def test_a_hostile_case_base_is_refused(folder, tmp_path, place, value):
    tree = asdict(base_of(folder))
    tree["cases"] = list(tree["cases"])
    tree["cases"][0][place] = value
    with pytest.raises(InvalidCheckpoint, match=place):
        CaseBase.from_tree(tree, where=tmp_path)


def test_a_case_base_that_makes_no_sense_is_refused(folder, tmp_path):
    base = base_of(folder)
    for tree, told in (
        ([], "malformed"),
        ({**asdict(base), "format": 99}, "newer dnc"),
        ({**asdict(base), "more": 1}, "more"),
        (asdict(replace(base, cases=(base.cases[0],) * 2)), "twice"),
    ):
        with pytest.raises(InvalidCheckpoint, match=told):
            CaseBase.from_tree(tree, where=tmp_path)


def test_changed_and_vanished_files_are_told(folder):
    base = base_of(folder)
    images = open_data(folder, validation_share=0.0).train
    assert verified(base.cases, [images]).unchanged == base.cases
    drawing(0, 77).save(folder / base.cases[0].file)
    (folder / base.cases[1].file).unlink()
    for parts in ([images], [open_data(folder, validation_share=0.0).train]):
        found = verified(base.cases, parts)
        assert found.unchanged == ()
        assert found.changed == base.cases[:1]
        assert found.vanished == base.cases[1:]


def test_the_image_of_a_case_is_read_only_while_it_is_the_same(folder, tmp_path):
    base = base_of(folder)
    case = base.cases[0]
    whole = case_reader(base, None)(case)
    assert np.array_equal(np.asarray(whole), np.asarray(Image.open(folder / case.file)))
    folder.rename(tmp_path / "elsewhere")
    assert case_reader(base, None)(case) is None
    assert case_reader(base, tmp_path / "elsewhere")(case) is not None
    drawing(0, 77).save(tmp_path / "elsewhere" / case.file)
    assert case_reader(base, tmp_path / "elsewhere")(case) is None
    assert case_reader(None, None)(case) is None


def test_the_image_of_a_case_in_an_array_is_read_too(tmp_path):
    images = open_data("digits", kind="digits").train
    case = replace(base_of_digit(images, 7), sha256=sha256_of(images, 7))
    base = CaseBase(True, "digits", "digits", (case,))
    assert np.array_equal(np.asarray(case_reader(base, None)(case)), images.pixels[7])
    changed = replace(case, sha256="0" * 64)
    assert case_reader(base, None)(changed) is None
    assert case_reader(replace(base, kind="cifar10"), tmp_path)(case) is None


def base_of_digit(images, position) -> Case:
    return Case(
        label=int(images.labels[position]),
        subcentroid=0,
        image=int(images.ids[position]),
        file=images.names[position],
        sha256=None,
        similarity=1.0,
        stands_for=1,
        of_these_right=1,
        decides=1,
        rightly=1,
        thumbnail=None,
    )


def test_small_pictures_keep_every_pixel_and_large_ones_become_small():
    small, large = drawing(1, 0, size=32), drawing(1, 0, size=500)
    assert np.array_equal(np.asarray(decoded(thumbnail(small))), np.asarray(small))
    shrunk = decoded(thumbnail(large))
    assert shrunk.size == (112, 112)
    expected = np.asarray(large.resize((112, 112)), dtype=float)
    assert np.abs(np.asarray(shrunk, dtype=float) - expected).mean() < 12


def test_names_that_are_no_text_can_be_shown():
    assert shown_name("caf\udce9.jpg") == "caf\\xe9.jpg"
    assert shown_name("犬.jpg") == "犬.jpg"
