import json

import numpy as np
import pytest
import yaml
from PIL import Image

from dnc.data import IGNORED, default_colours, open_scenes
from dnc.errors import InvalidData
from tests.data.scenery import COLOURS, blocks, coloured, draw_scenes

NAMED = {
    "classes": [{"name": "sky", "colour": [128, 129, 130]}, "building", "tree", "road"],
    "ignore": [11, 255],
}


def opened(root, content, name="classes.yaml"):
    draw_scenes(root, 2)
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    (root / name).write_text(json.dumps(content) if name.endswith("json") else text)
    return open_scenes(root, validation_share=0)


@pytest.mark.parametrize("name", ["classes.yaml", "classes.yml", "classes.json"])
def test_a_file_names_the_classes_in_the_order_of_their_numbers(tmp_path, name):
    train = opened(tmp_path, NAMED, name).train
    assert train.classes == ("sky", "building", "tree", "road")
    assert train.colours[0] == (128, 129, 130)
    assert len(set(train.colours)) == 4
    labels = blocks(0)
    labels[0, :2] = (11, 255)
    Image.fromarray(labels).save(tmp_path / "masks" / "000.png")
    expected = np.where(labels > 10, IGNORED, labels.astype(np.int16))
    np.testing.assert_array_equal(train.read_mask(0), expected)


def test_masks_by_colour_give_the_same_classes_as_by_number(tmp_path):
    draw_scenes(tmp_path, 2)
    numbers = open_scenes(tmp_path, validation_share=0).train
    expected = [numbers.read_mask(i) for i in range(2)]
    for i in range(2):
        painted = np.array(coloured(expected[i]))
        painted[0, 0] = (1, 2, 3)
        Image.fromarray(painted).save(tmp_path / "masks" / f"{i:03}.png")
        expected[i][0, 0] = IGNORED
    classes = [{"name": n, "colour": list(c)} for n, c in zip("abcd", COLOURS, strict=False)]
    content = {"classes": classes, "ignore": [[1, 2, 3]], "masks": "colour"}
    (tmp_path / "classes.yaml").write_text(yaml.safe_dump(content))
    train = open_scenes(tmp_path, validation_share=0).train
    assert train.colours == COLOURS[:4]
    for i in range(2):
        np.testing.assert_array_equal(train.read_mask(i), expected[i])


def test_numbers_of_classes_may_be_said(tmp_path):
    content = {
        "classes": [{"name": "b", "number": 1}, {"name": "rest", "number": 3}],
        "ignore": [0, 2],
    }
    train = opened(tmp_path, content).train
    labels = blocks(0)
    expected = np.select([labels == 1, labels == 3], [0, 1], IGNORED)
    np.testing.assert_array_equal(train.read_mask(0), expected)


def test_255_is_ignored_unless_it_is_a_class(tmp_path):
    many = [f"class {i}" for i in range(300)]
    coding = opened(tmp_path, {"classes": many}).train.coding
    assert dict(coding.numbers)[255] == 255
    few = opened(tmp_path, {"classes": many[:4]}).train.coding
    assert dict(few.numbers)[255] == IGNORED


def test_own_colours_are_never_given_to_other_classes(tmp_path):
    taken = [list(colour) for colour in default_colours(2)]
    content = {"classes": ["a", {"name": "b", "colour": taken[0]}, "c", "d"]}
    colours = opened(tmp_path, content).train.colours
    assert len(set(colours)) == 4


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "None came"),
        ("[1, 2]", "mapping"),
        ("classes: [a, b]\nclases: 3", "'clases'; allowed are classes, ignore, masks"),
        ("ignore: [255]", "classes is None"),
        ("classes: []", "list of 1 to"),
        ("classes: {a: 1}", "list of 1 to"),
        ("classes: [a, a]", "two classes have the name 'a'"),
        ("classes: [a, yes]", "True; it must be text"),
        ("classes: [a, 3]", "3; it must be text"),
        ("classes: [a, '']", "must be text"),
        ("classes: [a, [b]]", "must be text"),
        ("classes: [{colour: [1, 2, 3]}, b]", "None; it must be text"),
        ("classes: [{name: a, color: [1, 2, 3]}]", "'color'; allowed are name, colour, number"),
        ("classes: [{name: a, colour: [1, 2]}]", "colour of 'a' is .1, 2."),
        ("classes: [{name: a, colour: [1, 2, 256]}]", "256"),
        ("classes: [{name: a, colour: [1, 2, 0.5]}]", "0.5"),
        ("classes: [{name: a, colour: red}]", "'red'"),
        ("classes: [{name: a, number: -1}]", "-1; it must be an integer in 0..65535"),
        ("classes: [{name: a, number: 1}, b]", "all or to none"),
        ("classes: [{name: a, number: 1}, {name: b, number: 1}]", "number 1"),
        ("classes: [a, b]\nmasks: color", "number or colour"),
        ("classes: [a, b]\nmasks: colour", "'a' has none"),
        (
            "classes: [{name: a, colour: [1, 1, 1]}, {name: b, colour: [1, 1, 1]}]\nmasks: colour",
            "two classes have the colour",
        ),
        ("classes: [{name: a, colour: [1, 1, 1], number: 3}]\nmasks: colour", "means nothing"),
        (
            "classes: [{name: a, colour: [1, 1, 1]}]\nmasks: colour\nignore: [255]",
            "255; it must be red",
        ),
        (
            "classes: [{name: a, colour: [1, 1, 1]}]\nmasks: colour\nignore: [[1, 1, 1]]",
            "which is a class",
        ),
        ("classes: [a, b]\nignore: 255", "255; it must be a list"),
        ("classes: [a, b]\nignore: [1]", "which is a class"),
        ("classes: [a, b]\nignore: [[1, 2, 3]]", "must be an integer"),
        ("classes: [a, b]\nignore: [true]", "True; it must be an integer"),
        ("classes: [a", "not text that can be read"),
        ("classes: !!python/object/apply:os.getcwd []", "not text that can be read"),
        ("[" * 5000, "not text that can be read"),
        ("classes: [a, b]\n" + "#" * 100_000, "100,000 bytes"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_path(tmp_path, content, said):
    with pytest.raises(InvalidData, match=said) as caught:
        opened(tmp_path, content)
    assert str(tmp_path / "classes.yaml") in str(caught.value)


def test_a_small_file_cannot_become_a_huge_message(tmp_path):
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]"
        for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
    ]
    with pytest.raises(InvalidData) as caught:
        opened(tmp_path, "\n".join(lines) + "\nclasses: [*k]")
    assert len(str(caught.value)) < 2000


def test_one_file_alone_names_the_classes(tmp_path):
    (tmp_path / "classes.json").write_text("{}")
    with pytest.raises(InvalidData, match=r"classes\.yaml and classes\.json"):
        opened(tmp_path, NAMED)
