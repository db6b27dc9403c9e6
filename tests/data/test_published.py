import tarfile

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.datasets import load_digits

from dnc.data import KINDS, open_data
from dnc.data import published as published_module
from dnc.errors import InvalidData
from tests.data.drawings import draw_folder, drawing


def write_cifar10(folder, records=30):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    written = {}
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        pixels = rng.integers(0, 256, (records, 3, 32, 32), dtype=np.uint8)
        labels = (np.arange(records) % 10).astype(np.uint8)
        content = np.concatenate([labels[:, None], pixels.reshape(records, -1)], axis=1)
        (folder / name).write_bytes(content.tobytes())
        written[name] = labels, pixels
    (folder / "batches.meta.txt").write_text("\n".join(f"class{i}" for i in range(10)) + "\n\n")
    return written


def write_cifar100(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, records in (("train.bin", 200), ("test.bin", 100)):
        fine = np.arange(records) % 100
        content = np.zeros((records, 3074), np.uint8)
        content[:, 0], content[:, 1] = fine // 5, fine
        content[:, 2:] = fine[:, None]
        (folder / name).write_bytes(content.tobytes())
    (folder / "fine_label_names.txt").write_text("\n".join(f"fine{i}" for i in range(100)))
    (folder / "coarse_label_names.txt").write_text("\n".join(f"coarse{i}" for i in range(20)))


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-bin"])
def test_cifar10_gives_exactly_its_pixels(tmp_path, inside):
    written = write_cifar10(tmp_path / "data" / inside)
    splits = open_data(tmp_path / "data", validation_share=0)
    assert splits.kind == "cifar10"
    assert splits.classes == tuple(f"class{i}" for i in range(10))
    assert (len(splits.train), splits.validation, len(splits.test)) == (150, None, 30)
    assert splits.train.names[35] == "data_batch_2.bin#5"
    assert splits.test.ids.tolist() == list(range(150, 180))
    labels, pixels = written["data_batch_2.bin"]
    assert splits.train.labels[35] == labels[5]
    np.testing.assert_array_equal(splits.train.pixels[35], pixels[5].transpose(1, 2, 0))
    np.testing.assert_array_equal(np.asarray(splits.train.read(35)), pixels[5].transpose(1, 2, 0))
    assert splits.train.path(0) is None


def test_cifar100_has_fine_and_coarse_labels(tmp_path):
    write_cifar100(tmp_path / "cifar-100-binary")
    fine = open_data(tmp_path, validation_share=0)
    coarse = open_data(tmp_path, kind="cifar100-coarse", validation_share=0)
    assert (fine.kind, len(fine.classes), len(coarse.classes)) == ("cifar100", 100, 20)
    np.testing.assert_array_equal(fine.train.labels // 5, coarse.train.labels)
    np.testing.assert_array_equal(fine.train.pixels[:, 0, 0, 0], fine.train.labels)


def test_damaged_cifar_is_refused(tmp_path):
    write_cifar10(tmp_path)
    names, batch = tmp_path / "batches.meta.txt", tmp_path / "data_batch_3.bin"
    whole = batch.read_bytes()
    for content, said in ((whole[:-1], "3073"), (b"", "3073"), (b"\x0a" + whole[1:], "label 10")):
        batch.write_bytes(content)
        with pytest.raises(InvalidData, match=said):
            open_data(tmp_path)
    batch.write_bytes(whole)
    for content in (b"one two", b"\xff"):
        names.write_bytes(content)
        with pytest.raises(InvalidData, match="10"):
            open_data(tmp_path)


def test_missing_cifar_says_what_to_fetch(tmp_path):
    for kind, archive in (
        ("cifar10", "cifar-10-binary.tar.gz"),
        ("cifar100-coarse", "cifar-100-binary.tar.gz"),
    ):
        with pytest.raises(InvalidData, match=archive):
            open_data(tmp_path, kind=kind)


def test_pickled_cifar_is_never_read(tmp_path):
    for folder, name, archive in (
        ("cifar-10-batches-py", "batches.meta", "cifar-10-binary"),
        ("cifar-100-python", "meta", "cifar-100-binary"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
        with pytest.raises(InvalidData, match=f"pickle.*{archive}"):
            open_data(tmp_path / folder)


def test_two_data_sets_in_one_folder_need_a_kind(tmp_path):
    write_cifar10(tmp_path / "cifar-10-batches-bin")
    write_cifar100(tmp_path / "cifar-100-binary")
    with pytest.raises(InvalidData, match="cifar10, cifar100"):
        open_data(tmp_path)
    assert len(open_data(tmp_path, kind="cifar100").classes) == 100


def test_a_download_that_fails_says_so(tmp_path, monkeypatch):
    def refuse(address, root, md5):
        raise OSError("no way out")

    monkeypatch.setattr("dnc.data.fetching.download_and_extract_archive", refuse)
    for kind in ("cifar10", "cifar100", "cub200"):
        with pytest.raises(InvalidData, match=r"https://.* could not be fetched .*no way out"):
            open_data(tmp_path, kind=kind, download=True)


def test_a_download_is_unpacked_and_opened(tmp_path, monkeypatch):
    asked = []

    def fetch(address, root, md5):
        asked.append((address, md5))
        write_cifar10(tmp_path / "cifar-10-batches-bin")

    monkeypatch.setattr("dnc.data.fetching.download_and_extract_archive", fetch)
    for _ in range(2):
        assert len(open_data(tmp_path, kind="cifar10", download=True).test) == 30
    address = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert asked == [(address, "c32a1d4ab5d03f1284b67883e8d87530")]


def test_digits_are_those_of_scikit_learn_and_their_test_part_never_changes():
    first, other = open_data("digits"), open_data("anything", kind="digits", seed=7)
    values, labels = load_digits(return_X_y=True)
    assert first.test.names == other.test.names
    assert first.train.names != other.train.names
    assert sum(map(len, first.parts().values())) == 1797
    for images in first.parts().values():
        np.testing.assert_array_equal(images.labels, labels[images.ids])
        grey = images.pixels[..., 0].reshape(len(images), -1)
        np.testing.assert_allclose(grey, values[images.ids] * 255 / 16, atol=0.5)
        assert images.pixels.shape[1:] == (8, 8, 3)


WNIDS = ("n01440764", "n01443537", "n02102040")


def write_imagenet(root, flat):
    draw_folder(root / "train", dict.fromkeys(WNIDS, 3), size=8)
    if not flat:
        draw_folder(root / "val", dict.fromkeys(WNIDS, 2), size=8)
        return
    (root / "val").mkdir()
    for number in range(1, 7):
        image = drawing(0, number, size=8)
        image.save(root / "val" / f"ILSVRC2012_val_{number:08}.JPEG", format="JPEG")
    devkit = root / "ILSVRC2012_devkit_t12" / "data"
    devkit.mkdir(parents=True)
    numbers = "2 1 3 3 1 2"
    (devkit / "ILSVRC2012_validation_ground_truth.txt").write_text(numbers.replace(" ", "\n"))
    fields = [("ILSVRC2012_ID", "O"), ("WNID", "O"), ("words", "O"), ("gloss", "O")]
    synsets = np.zeros((4, 1), dtype=[*fields, ("num_children", "O")])
    # Their numbers do not follow the order of the names; an inner node comes last.
    for row, (number, wnid) in enumerate(((1, WNIDS[1]), (2, WNIDS[0]), (3, WNIDS[2]), (4, "n0"))):
        synsets[row, 0] = (number, wnid, "a, b", "text", 0 if row < 3 else 2)
    savemat(devkit / "meta.mat", {"synsets": synsets})


@pytest.mark.parametrize("flat", [False, True])
def test_imagenet_has_its_own_validation_and_is_not_split(tmp_path, flat):
    write_imagenet(tmp_path, flat)
    splits = open_data(tmp_path)
    assert (splits.kind, splits.classes) == ("imagenet", WNIDS)
    assert (len(splits.train), len(splits.validation), splits.test) == (9, 6, None)
    if flat:
        assert splits.validation.labels.tolist() == [0, 1, 2, 2, 1, 0]


def test_imagenet_without_its_validation_images_is_not_split_either(tmp_path):
    draw_folder(tmp_path / "train", dict.fromkeys(WNIDS, 3), size=8)
    splits = open_data(tmp_path, kind="imagenet")
    assert (len(splits.train), splits.validation) == (9, None)


def test_flat_imagenet_needs_its_development_kit(tmp_path):
    write_imagenet(tmp_path, flat=True)
    truth = tmp_path / "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
    truth.write_text("9")
    with pytest.raises(InvalidData, match="damaged"):
        open_data(tmp_path)
    truth.write_text("1")
    with pytest.raises(InvalidData, match="00000002"):
        open_data(tmp_path)
    truth.unlink()
    with pytest.raises(InvalidData, match=r"ILSVRC2012_devkit_t12\.tar\.gz"):
        open_data(tmp_path)


def test_missing_imagenet_says_which_archives_go_where(tmp_path):
    for download in (False, True):
        with pytest.raises(InvalidData, match=r"ILSVRC2012_img_train\.tar.*image-net\.org"):
            open_data(tmp_path, kind="imagenet", download=download)


def test_a_damaged_archive_of_imagenet_is_refused(tmp_path):
    (tmp_path / "ILSVRC2012_devkit_t12.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InvalidData, match="md5"):
        open_data(tmp_path, kind="imagenet", download=True)
    (tmp_path / "ILSVRC2012_devkit_t12.tar.gz").unlink()
    (tmp_path / "ILSVRC2012_img_train.tar").write_bytes(b"no archive")
    with pytest.raises(InvalidData, match="unpacked"):
        open_data(tmp_path, kind="imagenet", download=True)


def test_archives_of_imagenet_are_unpacked(tmp_path, monkeypatch):
    write_imagenet(tmp_path / "made", flat=True)
    root = tmp_path / "root"
    root.mkdir()
    with tarfile.open(root / "ILSVRC2012_devkit_t12.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "made" / "ILSVRC2012_devkit_t12", "ILSVRC2012_devkit_t12")
    with tarfile.open(root / "ILSVRC2012_img_val.tar", "w") as tar:
        for path in (tmp_path / "made" / "val").iterdir():
            tar.add(path, path.name)
    with tarfile.open(root / "ILSVRC2012_img_train.tar", "w") as tar:
        for wnid in WNIDS:
            with tarfile.open(tmp_path / f"{wnid}.tar", "w") as inner:
                for path in (tmp_path / "made" / "train" / wnid).iterdir():
                    inner.add(path, path.name)
            tar.add(tmp_path / f"{wnid}.tar", f"{wnid}.tar")
    monkeypatch.setattr(published_module, "check_integrity", lambda path, md5: True)
    monkeypatch.setattr("torchvision.datasets.imagenet.check_integrity", lambda path, md5: True)
    for _ in range(2):
        splits = open_data(root, kind="imagenet", download=True)
        assert (len(splits.train), len(splits.validation)) == (9, 6)
        by_name = dict(
            zip(
                (name.rsplit("/", 1)[-1] for name in splits.validation.names),
                splits.validation.labels.tolist(),
                strict=True,
            )
        )
        assert [by_name[f"ILSVRC2012_val_{i:08}.JPEG"] for i in range(1, 7)] == [0, 1, 2, 2, 1, 0]


def test_divided_folders_named_by_wnids_keep_their_test_part(tmp_path):
    for part in ("train", "val", "test"):
        draw_folder(tmp_path / part, dict.fromkeys(WNIDS, 2), size=8)
    splits = open_data(tmp_path)
    assert splits.kind == "folder"
    assert len(splits.test) == 6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("imagenetv2")])
def test_imagenetv2_is_ordered_by_number(tmp_path, kind):
    folder = tmp_path / f"{kind}-format-val"
    draw_folder(folder, {"10": 1, "2": 2, "999": 1}, size=8)
    for path in (tmp_path, folder):
        splits = open_data(path)
        assert splits.kind == kind
        assert (splits.train, splits.validation) == (None, None)
        assert splits.test.labels.tolist() == [2, 2, 10, 999]
        assert splits.classes == tuple(map(str, range(1000)))
    (folder / "cats").mkdir()
    with pytest.raises(InvalidData, match="cats"):
        open_data(tmp_path)
    with pytest.raises(InvalidData, match=rf"{kind}\.tar\.gz"):
        open_data(tmp_path / "elsewhere", kind=kind)


def write_cub(folder):
    draw_folder(folder / "images", {"002.Laysan": 3, "001.Black": 3}, size=8)
    names = [f"{c}/{i:04}.png" for c in ("001.Black", "002.Laysan") for i in range(3)]
    (folder / "images.txt").write_text("".join(f"{i} {n}\n" for i, n in enumerate(names, 1)))
    (folder / "image_class_labels.txt").write_text("1 1\n2 1\n3 1\n4 2\n5 2\n6 2\n")
    (folder / "train_test_split.txt").write_text("1 1\n2 1\n3 0\n4 1\n5 0\n6 1\n")
    (folder / "classes.txt").write_text("1 001.Black\n2 002.Laysan\n")


def test_cub_is_divided_as_its_own_file_says(tmp_path):
    write_cub(tmp_path / "CUB_200_2011")
    for path in (tmp_path, tmp_path / "CUB_200_2011"):
        splits = open_data(path, validation_share=0)
        assert splits.kind == "cub200"
        assert splits.classes == ("001.Black", "002.Laysan")
        assert splits.test.names == ("images/001.Black/0002.png", "images/002.Laysan/0001.png")
        assert splits.train.labels.tolist() == [0, 0, 1, 1]
        assert splits.train.read(0).size == (8, 8)


def test_cub_with_lists_that_do_not_fit_is_refused(tmp_path):
    with pytest.raises(InvalidData, match=r"CUB_200_2011\.tgz"):
        open_data(tmp_path, kind="cub200")
    write_cub(tmp_path)
    parts = tmp_path / "train_test_split.txt"
    for content in ("1 1\n", "1 7\n2 1\n3 0\n4 1\n5 0\n6 1\n"):
        parts.write_text(content)
        with pytest.raises(InvalidData, match="no class or part"):
            open_data(tmp_path)
    parts.write_text("1\n")
    with pytest.raises(InvalidData, match="a number and a word"):
        open_data(tmp_path)
    parts.write_bytes(b"\xff")
    with pytest.raises(InvalidData, match="no text"):
        open_data(tmp_path)
