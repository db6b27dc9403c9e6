import os
import random
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from dnc.data import Augmentation, Batch, Images, Preprocessing, loader, open_data, prepared
from dnc.data.disk import DiskLoader
from dnc.data.memory import MemoryLoader
from dnc.errors import InvalidData, InvalidSetting
from tests.data.drawings import draw_difficult_folder, draw_folder, drawing

SETTINGS = Preprocessing(size=24, resize=28, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
VARIED = Augmentation("padded", colour_jitter=0.2, erasing=0.5, mixup=0.2, cutmix=1.0)
EVERYTHING = Augmentation("resized", colour_jitter=0.2, randaugment=1, erasing=0.5, mixup=0.2)
STORES = pytest.mark.parametrize("store", ["memory", "disk"])


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    draw_folder(root, {"a": 7, "b": 9, "c": 5}, size=32)
    Image.fromarray(np.asarray(drawing(0, 50, size=64))[:40]).save(root / "a" / "wide.png")
    Image.fromarray(np.asarray(drawing(0, 51, size=64))[:, :30]).save(root / "b" / "narrow.jpg")
    return open_data(root, validation_share=0).train


def make(images, store="memory", **settings):
    return loader(images, SETTINGS, **{"batch_size": 4, "workers": 0, "store": store, **settings})


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one, other, strict=True)
        for name in ("images", "labels", "ids", "other_labels", "share")
    )


@STORES
@pytest.mark.parametrize("augmentation", [None, VARIED, EVERYTHING])
def test_the_same_seed_and_epoch_give_the_same_batches(images, store, augmentation):
    def epoch(number, seed=0):
        batches = make(images, store, shuffle=True, augmentation=augmentation, seed=seed)
        batches.set_epoch(number)
        return list(batches)

    one_sitting = make(images, store, shuffle=True, augmentation=augmentation)
    for number in (0, 1):
        one_sitting.set_epoch(number)
        assert same(list(one_sitting), epoch(number))
    assert not same(epoch(0), epoch(1))
    assert not same(epoch(0), epoch(0, seed=1))


@STORES
def test_every_image_comes_once_over_all_ranks(images, store):
    for world in (1, 2, 5):
        ranks = [
            list(make(images, store, shuffle=True, rank=rank, world=world, augmentation=VARIED))
            for rank in range(world)
        ]
        assert len({len(batches) for batches in ranks}) == 1
        ids = torch.cat([batch.ids for batches in ranks for batch in batches])
        assert sorted(ids.tolist()) == images.ids.tolist()


@STORES
def test_ranks_together_give_what_one_process_gives(images, store):
    augmentation = Augmentation("resized", erasing=0.3)
    alone = list(make(images, store, shuffle=True, batch_size=8, augmentation=augmentation))
    ranks = [
        list(make(images, store, shuffle=True, rank=rank, world=2, augmentation=augmentation))
        for rank in range(2)
    ]
    for whole, *parts in zip(alone, *ranks, strict=True):
        torch.testing.assert_close(torch.cat([part.images for part in parts]), whole.images)
        assert torch.equal(torch.cat([part.ids for part in parts]), whole.ids)


@STORES
@pytest.mark.parametrize("augmentation", [None, VARIED, EVERYTHING])
def test_no_global_generator_is_touched(images, store, augmentation):
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    list(make(images, store, shuffle=True, augmentation=augmentation))
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert random.getstate() == states[2]


@STORES
@pytest.mark.parametrize("augmentation", [None, VARIED, EVERYTHING])
def test_batches_are_normalised_channels_last_and_carry_ids(images, store, augmentation):
    for batch in make(images, store, shuffle=True, augmentation=augmentation):
        assert batch.images.shape[1:] == (3, 24, 24)
        assert batch.images.dtype == torch.float32
        assert batch.images.is_contiguous(memory_format=torch.channels_last)
        assert batch.labels.dtype == batch.ids.dtype == batch.other_labels.dtype == torch.long
        assert batch.share.dtype == torch.float32
        assert batch.labels.tolist() == images.labels[batch.ids].tolist()


def test_memory_and_disk_evaluate_alike_and_so_does_prediction(images):
    of_memory, of_disk = (list(make(images, store, batch_size=30)) for store in ("memory", "disk"))
    assert same(of_memory, of_disk)
    read = [images.read(i) for i in range(len(images))]
    torch.testing.assert_close(prepared(read, SETTINGS), of_memory[0].images)


def test_evaluation_scales_the_shorter_side_and_cuts_the_middle_as_torchvision_does(images):
    transform = v2.Compose(
        [
            v2.Resize(28, interpolation=v2.InterpolationMode.BICUBIC),
            v2.CenterCrop(24),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(SETTINGS.mean, SETTINGS.std),
        ]
    )
    smooth = drawing(1, 0, size=12).resize((88, 56), Image.Resampling.BICUBIC)
    got = prepared([smooth], SETTINGS)[0]
    torch.testing.assert_close(got, transform(smooth), atol=0.05, rtol=0)


@STORES
def test_images_of_the_wanted_size_keep_their_pixels(store):
    digits = open_data("digits").test
    plain = Preprocessing(size=8, resize=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    for batch in loader(digits, plain, batch_size=100, store=store, workers=0):
        pixels = digits.pixels[np.searchsorted(digits.ids, batch.ids.numpy())]
        np.testing.assert_allclose(batch.images.permute(0, 2, 3, 1) * 255, pixels, atol=1e-3)


def test_a_line_of_pixels_does_not_grow_without_bound():
    line = Image.new("RGB", (60_000, 1), (255, 0, 0))
    large = Preprocessing(size=512, resize=512, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    assert prepared([line], large).shape == (1, 3, 512, 512)


def test_loading_leaves_the_pixels_of_the_source_alone():
    digits = open_data("digits").test
    before = digits.pixels.copy()
    digits.pixels.flags.writeable = False
    plain = Preprocessing(size=8, resize=8, mean=(0.5, 0.5, 0.5), std=(1.0, 1.0, 1.0))
    for augmentation in (None, VARIED):
        list(loader(digits, plain, batch_size=64, augmentation=augmentation))
    np.testing.assert_array_equal(digits.pixels, before)


@STORES
def test_files_that_cannot_be_decoded_are_left_out_and_named_once(tmp_path, store):
    bad = draw_difficult_folder(tmp_path)
    splits = open_data(tmp_path, check=False, validation_share=0)
    batches = make(splits.train, store, shuffle=True)
    for epoch in range(3):
        batches.set_epoch(epoch)
        ids = torch.cat([batch.ids for batch in batches]).tolist()
        names = {splits.listing[i] for i in ids}
        assert len(ids) == len(names)
        assert names == set(splits.train.names) - bad
    assert sorted(file.path for file in batches.bad_files) == sorted(bad)
    assert all(file.reason for file in batches.bad_files)


def test_a_batch_without_any_readable_file_comes_empty(tmp_path):
    draw_folder(tmp_path, {"a": 3, "b": 3})
    images = open_data(tmp_path, validation_share=0).train
    for path in (tmp_path / "a").iterdir():
        path.write_bytes(b"")
    for augmentation in (None, VARIED, EVERYTHING):
        batches = make(images, "disk", batch_size=3, augmentation=augmentation)
        empty, whole = list(batches)
        assert empty.images.shape == (0, 3, 24, 24)
        assert len(empty) == len(empty.single_label) == 0
        assert len(whole) == 3
        assert len(batches.bad_files) == 3


def test_nothing_readable_at_all_is_an_error_in_memory(tmp_path):
    draw_folder(tmp_path, {"a": 2})
    images = open_data(tmp_path, validation_share=0).train
    for path in (tmp_path / "a").iterdir():
        path.write_bytes(b"")
    with pytest.raises(InvalidData, match="None of the 2"):
        make(images, "memory")


def test_the_store_is_chosen_by_size(images):
    needed = len(images) * 28 * 28 * 3
    held = loader(images, SETTINGS, batch_size=4, memory_limit_bytes=needed)
    read = loader(images, SETTINGS, batch_size=4, memory_limit_bytes=needed - 1)
    assert isinstance(held, MemoryLoader)
    assert isinstance(read, DiskLoader)


def test_progress_of_decoding_is_told(images):
    told = []
    make(images, on_progress=lambda done, total: told.append((done, total)))
    assert told == [(i + 1, len(images)) for i in range(len(images))]


def test_what_cannot_be_loaded_is_refused(images):
    for settings in ({"batch_size": 0}, {"workers": -1}, {"store": "tape"}, {"rank": 2}):
        with pytest.raises(InvalidSetting):
            make(images, **settings)
    with pytest.raises(InvalidData, match="no image"):
        make(images.subset([]))


def test_a_batch_moves_whole(images):
    batch = next(iter(make(images, augmentation=VARIED))).to("meta")
    assert isinstance(batch, Batch)
    assert {value.device.type for value in vars(batch).values()} == {"meta"}


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_workers_give_what_one_process_gives_epoch_after_epoch(images, start_method):
    expected = make(images, "disk", shuffle=True, augmentation=VARIED)
    batches = make(images, "disk", shuffle=True, augmentation=VARIED, workers=1)
    batches._answers.multiprocessing_context = start_method
    state = torch.get_rng_state()
    for epoch in (0, 4):
        expected.set_epoch(epoch)
        batches.set_epoch(epoch)
        assert same(list(batches), list(expected))
    # Left in the middle and begun again in another epoch.
    next(iter(batches))
    for one in (batches, expected):
        one.set_epoch(7)
    assert same(list(batches), list(expected))
    assert torch.equal(torch.get_rng_state(), state)


INTERRUPTED = """
import signal, sys
from dnc.data import Preprocessing, loader, open_data

def note(number, frame):
    interrupts.append(number)

if __name__ == "__main__":
    interrupts = []
    images = open_data(sys.argv[1], validation_share=0).train
    settings = Preprocessing(24, 28, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    batches = loader(images, settings, batch_size=2, store="disk", workers=2)
    signal.signal(signal.SIGINT, note)
    while not interrupts:
        for batch in batches:
            sys.stdout.write("batch\\n")
            sys.stdout.flush()
    assert sum(map(len, batches)) == len(images)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdout.write("whole\\n")
        sys.stdout.flush()
        while True:
            list(batches)
    except KeyboardInterrupt:
        sys.exit(7)
"""


def test_interrupts_leave_the_workers_alone_and_the_end_of_the_parent_ends_them(images):
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(images.root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout.readline() == "batch\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
        assert "whole\n" in iter(process.stdout.readline, "")
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 7, errors
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)
    finally:
        process.kill()
        process.wait()


def test_images_that_do_not_fit_together_are_refused(images):
    labels, ids = images.labels, images.ids
    with pytest.raises(InvalidData, match="each image"):
        Images(images.root, images.names, labels[:-1], ids, images.classes)
    with pytest.raises(InvalidData, match="0 to 1"):
        Images(images.root, images.names, labels, ids, images.classes[:2])
    with pytest.raises(InvalidData, match="uint8"):
        Images(
            images.root, images.names, labels, ids, images.classes, np.zeros((len(ids), 4, 4, 3))
        )
