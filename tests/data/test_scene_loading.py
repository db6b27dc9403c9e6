import pickle
import random
from itertools import chain

import numpy as np
import pytest
import torch

from dnc.data import (
    IGNORED,
    SceneAugmentation,
    SceneBatch,
    ScenePreprocessing,
    Scenes,
    open_scenes,
    scene_loader,
    varied_scene,
    whole_scenes,
)
from dnc.data.order import hashes
from dnc.data.scene_making import SceneRequest
from dnc.errors import InvalidData, InvalidSetting
from tests.data.scenery import coloured, draw_difficult_scenes, draw_scene, draw_scenes

SETTINGS = ScenePreprocessing((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
VARIED = SceneAugmentation(24, colour_jitter=0.3, hue=0.1)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    root = tmp_path_factory.mktemp("scenes")
    draw_scenes(root, 9)
    draw_scene(root / "images/wide.png", root / "masks/wide.png", seed=50, size=(70, 20))
    draw_scene(root / "images/tiny.png", root / "masks/tiny.png", seed=51, size=(13, 14))
    (root / "classes.yaml").write_text("classes: [a, b, c, d]")
    return open_scenes(root, validation_share=0).train


@pytest.fixture
def difficult(tmp_path):
    bad = draw_difficult_scenes(tmp_path)
    (tmp_path / "classes.yaml").write_text("classes: [a, b, c, d]")
    splits = open_scenes(tmp_path, validation_share=0, check=False)
    return splits.train, bad - {file.path for file in splits.set_aside}


def make(scenes, **settings):
    plain = {"batch_size": 4, "workers": 0, "augmentation": VARIED}
    return scene_loader(scenes, SETTINGS, **{**plain, **settings})


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one, other, strict=True)
        for name in ("images", "labels", "ids")
    )


def test_the_same_seed_and_epoch_give_the_same_batches(scenes):
    def epoch(number, seed=0):
        batches = make(scenes, shuffle=True, seed=seed)
        batches.set_epoch(number)
        return list(batches)

    one_sitting = make(scenes, shuffle=True)
    for number in (0, 1, 0):
        one_sitting.set_epoch(number)
        assert same(list(one_sitting), epoch(number))
    assert not same(epoch(0), epoch(1))
    assert not same(epoch(0), epoch(0, seed=1))


def test_a_square_hangs_on_seed_epoch_and_id_alone(scenes):
    part = scenes.subset([7, 2, 5])
    batches = make(part, seed=3)
    batches.set_epoch(6)
    (batch,) = batches
    seeds = hashes(3, 6, part.ids, purpose="augmentation")
    for row in range(3):
        image = part.read(row)
        expected = varied_scene(image, part.read_mask(row), SETTINGS, VARIED, int(seeds[row]))
        assert torch.equal(batch.images[row], expected[0])
        assert torch.equal(batch.labels[row], expected[1])


def test_every_scene_comes_once_over_all_ranks(scenes):
    for world in (1, 2, 5):
        ranks = [list(make(scenes, shuffle=True, rank=r, world=world)) for r in range(world)]
        assert len({len(batches) for batches in ranks}) == 1
        ids = torch.cat([batch.ids for batches in ranks for batch in batches])
        assert sorted(ids.tolist()) == scenes.ids.tolist()


def test_ranks_together_give_what_one_process_gives(scenes):
    alone = list(make(scenes, shuffle=True, batch_size=8))
    ranks = [list(make(scenes, shuffle=True, rank=rank, world=2)) for rank in range(2)]
    for whole, *parts in zip(alone, *ranks, strict=True):
        for name in ("images", "labels", "ids"):
            joined = torch.cat([getattr(part, name) for part in parts])
            assert torch.equal(joined, getattr(whole, name))


def test_a_last_batch_that_is_not_full_can_be_left_out(scenes):
    assert [len(batch) for batch in make(scenes)] == [4, 4, 3]
    dropped = make(scenes, drop_last=True)
    assert len(dropped) == 2
    assert [len(batch) for batch in dropped] == [4, 4]


def test_no_global_generator_is_touched(scenes):
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    list(make(scenes, shuffle=True))
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert random.getstate() == states[2]


def test_batches_are_normalised_channels_last_and_carry_ids(scenes):
    for batch in make(scenes, shuffle=True):
        assert batch.images.shape[1:] == (3, 24, 24)
        assert batch.images.dtype == torch.float32
        assert batch.images.is_contiguous(memory_format=torch.channels_last)
        assert batch.labels.shape == (len(batch), 24, 24)
        assert batch.labels.dtype == batch.ids.dtype == torch.long
        assert set(batch.labels.unique().tolist()) <= {IGNORED, 0, 1, 2, 3}


@pytest.mark.parametrize("limit", [0, 48 * 36 * 6 * 3, 1 << 30])
def test_holding_scenes_changes_nothing_but_how_often_they_are_read(scenes, limit, monkeypatch):
    read = []
    original = Scenes.read

    def counted(self, position):
        read.append(position)
        return original(self, position)

    expected = list(make(scenes, shuffle=True, memory_limit_bytes=0))
    monkeypatch.setattr(Scenes, "read", counted)
    batches = make(scenes, shuffle=True, memory_limit_bytes=limit)
    for _ in range(2):
        assert same(list(batches), expected)
    first, second = read[:11], read[11:]
    assert sorted(first) == list(range(11))
    held = 11 - len(second)
    assert held == {0: 0, 1 << 30: 11}.get(limit, held)
    if 0 < limit < 1 << 30:  # room for three of most of them
        assert 3 <= held < 11


def test_what_cannot_be_decoded_is_left_out_and_named_once(difficult):
    scenes, bad = difficult
    batches = make(scenes, shuffle=True)
    for epoch in range(3):
        batches.set_epoch(epoch)
        ids = torch.cat([batch.ids for batch in batches]).tolist()
        assert len(ids) == len(set(ids)) == len(scenes) - len(bad)
    assert sorted(file.path for file in batches.bad_files) == sorted(bad)
    assert all(file.reason for file in batches.bad_files)


def test_a_batch_without_any_readable_scene_comes_empty(tmp_path):
    draw_scenes(tmp_path, 6)
    scenes = open_scenes(tmp_path, validation_share=0).train
    for position in range(3):
        scenes.mask_path(position).write_bytes(b"")
    batches = make(scenes, batch_size=3)
    empty, whole = list(batches)
    assert empty.images.shape == (0, 3, 24, 24)
    assert empty.labels.shape == (0, 24, 24)
    assert empty.labels.dtype == empty.ids.dtype == torch.long
    assert (len(empty), len(whole)) == (0, 3)
    assert {file.path for file in batches.bad_files} == set(scenes.masks[:3])


def test_workers_give_what_one_process_gives_epoch_after_epoch(scenes):
    expected = make(scenes, shuffle=True)
    batches = make(scenes, shuffle=True, workers=2)
    for epoch in (0, 4, 4):
        expected.set_epoch(epoch)
        batches.set_epoch(epoch)
        assert same(list(batches), list(expected))


def test_what_makes_batches_can_be_sent_to_a_worker(scenes):
    maker = make(scenes)._answers.dataset
    request = SceneRequest(np.array([3, 10, 0]), seed=5, epoch=2)
    sent = pickle.loads(pickle.dumps(maker))
    assert same([sent[request].batch], [maker[request].batch])


def test_a_batch_moves_whole(scenes):
    batch = next(iter(make(scenes))).to("meta")
    assert isinstance(batch, SceneBatch)
    assert {value.device.type for value in vars(batch).values()} == {"meta"}


def test_what_cannot_be_loaded_is_refused(scenes):
    for settings in ({"batch_size": 0}, {"workers": -1}, {"rank": 2}):
        with pytest.raises(InvalidSetting):
            make(scenes, **settings)
    with pytest.raises(InvalidData, match="no scene"):
        make(scenes.subset([]))
    for settings in ({"workers": -1}, {"rank": 2}, {"world": 0}):
        with pytest.raises(InvalidSetting):
            whole_scenes(scenes, **settings)


@pytest.mark.parametrize("workers", [0, 1, 3, None])
def test_whole_scenes_come_in_order_as_large_as_they_are(scenes, workers):
    part = scenes.subset([9, 10, 3, 0])
    read = whole_scenes(part, workers=workers)
    assert len(read) == 4
    for _ in range(2):
        for position, scene in enumerate(read):
            assert (scene.position, scene.id) == (position, part.ids[position])
            np.testing.assert_array_equal(scene.mask, part.read_mask(position))
            np.testing.assert_array_equal(scene.image, coloured(scene.mask))
        assert position == 3
    assert not read.bad_files


@pytest.mark.parametrize("world", [1, 2, 3, 20])
def test_ranks_share_the_whole_scenes(scenes, world):
    shares = [whole_scenes(scenes, workers=1, rank=rank, world=world) for rank in range(world)]
    ids = [[scene.id for scene in share] for share in shares]
    assert list(chain(*ids)) == scenes.ids.tolist()
    assert [len(share) for share in shares] == [len(own) for own in ids]
    assert max(map(len, ids)) - min(map(len, ids)) <= 1


@pytest.mark.parametrize("workers", [0, 2])
def test_whole_scenes_that_cannot_be_decoded_are_left_out_and_named_once(difficult, workers):
    scenes, bad = difficult
    read = whole_scenes(scenes, workers=workers)
    for _ in range(2):
        assert len(list(read)) == len(scenes) - len(bad)
    assert sorted(file.path for file in read.bad_files) == sorted(bad)


def test_no_more_is_read_ahead_than_the_threads_need(tmp_path, monkeypatch):
    draw_scenes(tmp_path, 40, size=(12, 12))
    scenes = open_scenes(tmp_path, validation_share=0).train
    read = []
    original = Scenes.read

    def counted(self, position):
        read.append(position)
        return original(self, position)

    monkeypatch.setattr(Scenes, "read", counted)
    ahead = iter(whole_scenes(scenes, workers=2))
    for _ in range(5):
        next(ahead)
    ahead.close()
    assert len(read) <= 5 + 2 * 2 + 1
