import numpy as np
import pytest

from dnc.data import open_data
from dnc.data.coarse import coarse_of, coarse_text, read_coarse_classes, shipped_coarse_classes
from dnc.errors import InvalidData
from tests.data.drawings import draw_folder
from tests.data.test_published import write_cifar100

BREEDS = {"tabby": 4, "siamese": 3, "poodle": 5, "pug": 4}
COARSE = "fine,coarse\ntabby,cat\nsiamese,cat\npoodle,dog\npug,dog\nlion,cat\n"


def name_of(images, position: int) -> tuple[str, str]:
    return (
        images.classes[images.labels[position]],
        images.fine_classes[images.fine_labels[position]],
    )


@pytest.fixture
def breeds(tmp_path):
    draw_folder(tmp_path / "pets", BREEDS)
    (tmp_path / "coarse.csv").write_text(COARSE)
    return tmp_path / "pets", str(tmp_path / "coarse.csv")


def test_a_table_gives_coarse_classes_and_keeps_the_finer_ones(breeds):
    folder, table = breeds
    fine = open_data(folder, validation_share=0.25)
    splits = open_data(folder, validation_share=0.25, coarse=table)
    assert splits.classes == ("cat", "dog")
    for name, images in splits.parts().items():
        before = fine.parts()[name]
        assert images.names == before.names  # the parts are those of the finer classes
        assert np.array_equal(images.fine_labels, before.labels)
        for position, file in enumerate(images.names):
            own = file.split("/")[0]
            above = "cat" if own in ("tabby", "siamese") else "dog"
            assert name_of(images, position) == (above, own)


def test_a_part_of_the_images_keeps_its_finer_classes(breeds):
    folder, table = breeds
    train = open_data(folder, validation_share=0, coarse=table).train
    chosen = train.subset([5, 0])
    assert name_of(chosen, 0) == name_of(train, 5)
    assert name_of(chosen, 1) == name_of(train, 0)


def test_folders_inside_those_of_the_classes_are_finer_classes(tmp_path):
    for part in ("train", "test"):
        for coarse, fine in (("cat", ("tabby", "other")), ("dog", ("pug", "other"))):
            draw_folder(tmp_path / part / coarse, dict.fromkeys(fine, 2))
    splits = open_data(tmp_path, coarse="folders", validation_share=0)
    assert splits.classes == ("cat", "dog")
    assert splits.train.fine_classes == ("cat/other", "cat/tabby", "dog/other", "dog/pug")
    assert splits.test.fine_classes == splits.train.fine_classes
    for position, file in enumerate(splits.test.names):
        _, coarse, fine, _ = file.split("/")
        assert name_of(splits.test, position) == (coarse, f"{coarse}/{fine}")


def test_images_without_a_finer_folder_are_told_by_name(tmp_path):
    draw_folder(tmp_path / "cat", {"tabby": 1})
    draw_folder(tmp_path, {"dog": 1})
    with pytest.raises(InvalidData, match=r"dog/0000\.png is not in a folder inside"):
        open_data(tmp_path, coarse="folders", validation_share=0)


def test_what_was_used_can_be_used_again_without_the_file(breeds):
    folder, table = breeds
    train = open_data(folder, validation_share=0, coarse=table).train
    again = open_data(folder, validation_share=0, coarse=coarse_of(train, table)).train
    assert again.fingerprint() == train.fingerprint()
    assert np.array_equal(again.fine_labels, train.fine_labels)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("fine,coarse\ntabby,cat\n", r"say nothing of poodle, pug, siamese \(3 of 4 classes\)"),
        ("name,coarse\ntabby,cat\n", "must name fine and coarse"),
        ("fine;coarse\ntabby;cat\n", "names the columns 'fine;coarse'; .* with a comma"),
        (COARSE + "lynx,Cat\n", "has the coarse classes Cat and cat; write them alike"),
        ("fine,coarse\ntabby,\n", "line 2: fine is 'tabby' and coarse ''"),
        (COARSE + "pug,cat\n", "line 7: 'pug' belongs to two coarse classes"),
        (COARSE + "husky,dog, domestic\n", "line 7 has more values than the first line has names"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(breeds, text, told):
    folder, table = breeds
    with open(table, "w", encoding="utf-8") as file:
        file.write(text)
    with pytest.raises(InvalidData, match=told):
        open_data(folder, coarse=table)


def test_a_table_that_is_not_there_is_told_with_those_that_are(breeds):
    with pytest.raises(InvalidData, match="pets-cats-dogs"):
        open_data(breeds[0], coarse="nowhere.csv")


def test_only_cifar100_has_published_coarse_classes(breeds):
    with pytest.raises(InvalidData, match="only cifar100"):
        open_data(breeds[0], coarse="published")


def test_shipped_tables_can_be_read():
    sizes = {name: len(read_coarse_classes(name)) for name in shipped_coarse_classes()}
    assert sizes == {"cifar10-animals-vehicles": 10, "pets-cats-dogs": 37}


def test_cifar100_has_coarse_classes_of_its_own(tmp_path):
    write_cifar100(tmp_path / "cifar-100-binary")
    splits = open_data(tmp_path, kind="cifar100", validation_share=0, coarse="published")
    coarse = open_data(tmp_path, kind="cifar100-coarse", validation_share=0)
    fine = open_data(tmp_path, kind="cifar100", validation_share=0)
    for name, images in splits.parts().items():
        above, below = coarse.parts()[name], fine.parts()[name]
        for position in range(len(images)):
            found = name_of(images, position)
            assert found == (
                above.classes[above.labels[position]],
                below.classes[below.labels[position]],
            )


def test_blanks_around_the_names_of_columns_do_no_harm(breeds, tmp_path):
    folder, _ = breeds
    table = tmp_path / "blanks.csv"
    table.write_text(COARSE.replace("fine,coarse", " fine, coarse"))
    train = open_data(folder, validation_share=0, coarse=str(table)).train
    assert coarse_text(train) == "2 coarse classes: cat (2 finer), dog (2 finer)"


def test_names_are_the_same_however_their_letters_are_composed(tmp_path):
    draw_folder(tmp_path / "pets", {"b\u00e9b\u00e9": 2, "adulte": 2})
    table = tmp_path / "coarse.csv"
    text = "fine,coarse\nbe\u0301be\u0301,cafe\u0301\nadulte,cafe\u0301\n"
    table.write_text(text, encoding="utf-8")
    assert open_data(tmp_path / "pets", coarse=str(table)).classes == ("caf\u00e9",)


def test_images_that_have_the_coarse_classes_already_stay_as_they_are(breeds, tmp_path):
    _, table = breeds
    draw_folder(tmp_path / "plain", {"cat": 2, "dog": 2})
    for coarse in (table, "folders"):
        splits = open_data(tmp_path / "plain", coarse=coarse, coarse_known=("cat", "dog"))
        assert splits.classes == ("cat", "dog")
        assert splits.train.fine_labels is None
        with pytest.raises(InvalidData):
            open_data(tmp_path / "plain", coarse=coarse)
