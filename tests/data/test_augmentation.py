import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from dnc.data import Augmentation, Preprocessing
from dnc.data import augmentation as module
from dnc.data.augmentation import padded_crop, resized_crop, varied
from dnc.data.order import hashes

PLAIN = Preprocessing(size=16, resize=20, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
IDS = np.arange(200)


def pixels(n=200, side=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 256, (n, side, side, 3), dtype=torch.uint8, generator=generator)


def in_bytes(images):
    """Normalised images back as pixels `(n h w 3)` in 0..255."""
    return (images * 255).permute(0, 2, 3, 1)


def vary(images, augmentation, preprocessing=PLAIN, **changes):
    settings = {"seed": 0, "epoch": 0, "ids": IDS[: len(images)], **changes}
    return varied(images, preprocessing, augmentation, **settings)


def test_padded_crop_equals_the_slow_way():
    images = pixels(30)
    generator = torch.Generator().manual_seed(1)
    top, left = torch.randint(0, 9, (2, 30), generator=generator)
    mirrored = torch.rand(30, generator=generator) < 0.5
    cut = padded_crop(images, top, left, padding=2, size=16, mirrored=mirrored)
    for i in range(30):
        for y in range(16):
            for x in range(16):
                column = 15 - x if mirrored[i] else x
                from_y, from_x = y + int(top[i]) - 2, column + int(left[i]) - 2
                inside = 0 <= from_y < 20 and 0 <= from_x < 20
                expected = images[i, from_y, from_x] if inside else torch.zeros(3)
                assert torch.equal(cut[i, y, x].long(), expected.long())


def test_padded_crops_reach_every_place_and_nothing_else():
    # Pixels that tell where they come from; black is the padding.
    y, x = torch.meshgrid(torch.arange(20), torch.arange(20), indexing="ij")
    images = torch.stack([y, x, torch.full_like(y, 200)], dim=-1).byte().expand(3000, 20, 20, 3)
    augmentation = Augmentation("padded", padding=2, flip=False)
    cut = in_bytes(vary(images, augmentation, ids=np.arange(3000))).round()
    middle = cut[:, 8, 8, :2].long() - 8
    places, counts = middle.unique(dim=0, return_counts=True)
    assert places.min() == -2
    assert places.max() == 6
    assert len(places) == 81
    assert counts.min() > 10


def test_half_of_the_images_are_mirrored():
    images = pixels(2000, side=8)
    small = Preprocessing(size=8, resize=8, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    cut = in_bytes(vary(images, Augmentation(), small, ids=np.arange(2000))).round().byte()
    kept = (cut == images).flatten(1).all(1)
    mirrored = (cut == images.flip(2)).flatten(1).all(1)
    assert (kept ^ mirrored).all()
    assert 850 < mirrored.sum() < 1150


def test_resized_crop_of_whole_pixels_is_a_crop():
    images = pixels(6)
    boxes = torch.tensor([[0, 0], [4, 4], [0, 4], [1, 3], [2, 2], [4, 0]]) / 20
    boxes = torch.cat([boxes, torch.full((6, 2), 16 / 20)], dim=1)
    for mirrored in (False, True):
        cut = resized_crop(images, boxes, size=16, mirrored=torch.tensor([mirrored] * 6))
        for i in range(6):
            left, top = (boxes[i, :2] * 20).round().long().tolist()
            expected = images[i, top : top + 16, left : left + 16].float()
            expected = expected.flip(1) if mirrored else expected
            torch.testing.assert_close(cut[i], expected, atol=0.02, rtol=0)


def test_resized_crop_that_enlarges_equals_pillow():
    image = pixels(1)
    box = (3.0, 5.0, 12.0, 15.0)
    share = torch.tensor([[3, 5, 9, 10]]) / 20
    cut = resized_crop(image, share, size=16, mirrored=torch.tensor([False]))[0]
    whole = Image.fromarray(image[0].numpy())
    expected = np.asarray(whole.resize((16, 16), Image.Resampling.BILINEAR, box=box), np.float32)
    # Pillow rounds twice, and does not look beyond the box at its edge.
    np.testing.assert_allclose(cut[1:-1, 1:-1].numpy(), expected[1:-1, 1:-1], atol=1.01)


def test_boxes_have_the_areas_and_ratios_that_were_asked_for():
    draws = module._Draws.of(module.uniforms(0, 0, np.arange(5000), 13))
    augmentation = Augmentation("resized", scale=(0.1, 0.5), ratio=(0.5, 2.0))
    left, top, width, height = module._boxes(draws, augmentation).unbind(1)
    area, ratio = width * height, width / height
    assert 0.1 <= area.min() < 0.11
    assert 0.49 < area.max() <= 0.5 + 1e-9
    assert 0.5 - 1e-9 <= ratio.min() < 0.51
    assert 1.95 < ratio.max() <= 2 + 1e-9
    for corner, extent in ((left, width), (top, height)):
        assert corner.min() >= 0
        assert (corner + extent).max() <= 1 + 1e-9


def test_jitter_equals_torchvision_in_the_same_order():
    images = pixels(12)
    draws = module._Draws.of(module.uniforms(0, 0, np.arange(12), 13))
    jittered = module._jittered(images, draws, 0.4)
    for i in range(12):
        image = images[i].permute(2, 0, 1).float() / 255
        for change, drawn in (
            (v2.functional.adjust_brightness, draws.brightness),
            (v2.functional.adjust_contrast, draws.contrast),
            (v2.functional.adjust_saturation, draws.saturation),
        ):
            image = change(image, 0.6 + 0.8 * float(drawn[i]))
        torch.testing.assert_close(jittered[i], image.permute(1, 2, 0) * 255, atol=0.05, rtol=0)


def test_erasing_leaves_one_rectangle_of_the_mean_colour():
    images = pixels(2000, side=16)
    preprocessing = Preprocessing(size=16, resize=16, mean=(-1.0,) * 3, std=(1.0,) * 3)
    cut = vary(images, Augmentation(flip=False, erasing=0.5), preprocessing, ids=np.arange(2000))
    erased = (cut == 0).all(dim=1)
    touched = erased.flatten(1).any(1)
    assert 900 < touched.sum() < 1100
    assert erased.any(dim=0).all()
    for mask in erased[touched][:100]:
        rows, columns = mask.any(1), mask.any(0)
        assert torch.equal(mask, rows[:, None] & columns)
        assert rows.diff().sum() <= 2
        assert columns.diff().sum() <= 2
    share = erased[touched].float().mean(dim=(1, 2))
    assert share.min() < 0.05
    assert 0.25 < share.max() < 0.4


def test_randaugment_is_torchvisions_under_the_seed_of_each_image():
    images = pixels(8, side=16)
    square = Preprocessing(size=16, resize=16, mean=(0.5, 0.4, 0.3), std=(1.0, 1.0, 1.0))
    augmentation = Augmentation(flip=False, randaugment=2)
    cut = vary(images, augmentation, square)
    transform = v2.RandAugment(
        2, 9, interpolation=v2.InterpolationMode.BILINEAR, fill=[128, 102, 76]
    )
    seeds = hashes(0, 0, IDS[:8], purpose="randaugment")
    for i in range(8):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seeds[i]) >> 1)
            expected = np.array(transform(Image.fromarray(images[i].numpy())))
        mean = torch.tensor(square.mean)[:, None, None]
        got = ((cut[i] + mean) * 255).round().byte().permute(1, 2, 0)
        np.testing.assert_array_equal(got.numpy(), expected)


ALL_ON = Augmentation(
    "padded", colour_jitter=0.4, randaugment=2, erasing=0.5, mixup=0.2, cutmix=1.0
)


@pytest.mark.parametrize("augmentation", [ALL_ON, Augmentation("resized"), Augmentation()])
def test_an_image_is_varied_alike_in_any_batch(augmentation):
    images = pixels(20)
    whole = vary(images, augmentation)
    some = vary(images[[7, 3]], augmentation, ids=np.array([7, 3]))
    torch.testing.assert_close(some, whole[[7, 3]])
    assert not torch.equal(vary(images, augmentation, epoch=1), whole)
    assert not torch.equal(vary(images, augmentation, seed=1), whole)


@pytest.mark.parametrize("augmentation", [ALL_ON, Augmentation("resized"), Augmentation()])
def test_no_image_at_all_can_be_varied(augmentation):
    assert vary(pixels(0), augmentation).shape == (0, 3, 16, 16)
