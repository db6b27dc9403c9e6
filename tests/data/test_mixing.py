import numpy as np
import pytest
import torch

from dnc.data import Augmentation
from dnc.data.mixing import batch_of, drawn_mixture

ROWS, SIZE = 400, 12


def mixed(augmentation, classes=3, rows=ROWS):
    images = torch.randn(rows, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(rows) % classes
    batch = batch_of(
        images,
        labels,
        torch.arange(rows),
        augmentation=augmentation,
        generator=np.random.default_rng(5),
    )
    mixture = drawn_mixture(rows, SIZE, augmentation, np.random.default_rng(5))
    return images, labels, batch, mixture


def test_mixup_blends_pixels_as_it_blends_labels():
    images, labels, batch, mixture = mixed(Augmentation(mixup=0.5))
    share = batch.share[:, None, None, None]
    expected = share * images + (1 - share) * images[mixture.partner]
    torch.testing.assert_close(batch.images, expected)
    blended = batch.share < 1
    assert torch.equal(batch.other_labels[blended], labels[mixture.partner][blended])
    assert torch.equal(batch.images[~blended], images[~blended])
    assert ROWS * 0.4 < blended.sum() < ROWS * 0.6


def test_cutmix_share_is_exactly_the_area_that_is_left():
    images, labels, batch, mixture = mixed(Augmentation(cutmix=1.0, mix_probability=1.0))
    own = (batch.images == images).all(dim=1)
    pasted = (batch.images == images[mixture.partner]).all(dim=1)
    is_mixed = batch.share < 1
    assert is_mixed.sum() > ROWS * 0.8
    assert (own | pasted).all()
    left = own[is_mixed].flatten(1).sum(1) / SIZE**2
    assert torch.equal(left, batch.share[is_mixed])
    assert torch.equal(batch.other_labels[is_mixed], labels[mixture.partner][is_mixed])
    for mask in pasted[is_mixed][:50]:
        assert torch.equal(mask, mask.any(1)[:, None] & mask.any(0))


def test_both_take_turns():
    images, _, batch, mixture = mixed(Augmentation(mixup=1.0, cutmix=1.0, mix_probability=1.0))
    is_mixed = batch.share < 1
    own = (batch.images == images).all(dim=1)
    pasted = (batch.images == images[mixture.partner]).all(dim=1)
    cut = (own | pasted).flatten(1).all(1)[is_mixed]
    assert 0.35 < cut.float().mean() < 0.6


def test_rows_that_are_not_mixed_have_share_one_and_one_label():
    _, labels, batch, _ = mixed(Augmentation(mixup=0.2, cutmix=0.2, mix_probability=0.3))
    alone = batch.share == 1
    assert alone.any()
    assert torch.equal(batch.other_labels[alone], labels[alone])
    assert ((batch.share >= 0) & (batch.share <= 1)).all()
    single = alone | (batch.labels == batch.other_labels)
    assert torch.equal(batch.single_label, single)
    assert (single & ~alone).any()
    assert (~single).any()


@pytest.mark.parametrize("rows", [0, 1])
def test_a_row_alone_is_not_mixed(rows):
    images, _, batch, _ = mixed(Augmentation(mixup=1.0, mix_probability=1.0), rows=rows)
    assert torch.equal(batch.images, images)
    assert batch.single_label.all()


def test_without_mixing_everything_stays():
    for augmentation in (None, Augmentation()):
        images = torch.randn(4, 3, 2, 2)
        labels = torch.arange(4)
        batch = batch_of(
            images,
            labels,
            labels,
            augmentation=augmentation,
            generator=np.random.default_rng(0),
        )
        assert torch.equal(batch.images, images)
        assert torch.equal(batch.other_labels, labels)
        assert torch.equal(batch.share, torch.ones(4))
        assert batch.images.is_contiguous(memory_format=torch.channels_last)
