"""Places in scenes, as pictures: what is around them, and where exactly they are."""

from PIL import Image, ImageDraw


def marked_crop(image: Image.Image, at: tuple[int, int], *, side: int) -> Image.Image:
    """A square of an image around a pixel, which is marked by a small ring.

    At the border of the image the square is moved, and in a smaller image it is as large as that.

    Args:
        image: the whole image.
        at: row and column of the pixel.
        side: of the square.
    """
    width, height = min(side, image.width), min(side, image.height)
    left = min(max(at[1] - width // 2, 0), image.width - width)
    top = min(max(at[0] - height // 2, 0), image.height - height)
    # Enlarged first, so that the ring is round and thin however small the square is.
    scale = max(1, -(-288 // max(width, height)))
    crop = image.crop((left, top, left + width, top + height))
    crop = crop.resize((width * scale, height * scale), Image.Resampling.BICUBIC)
    x, y = (at[1] - left + 0.5) * scale, (at[0] - top + 0.5) * scale
    draw, radius = ImageDraw.Draw(crop), max(crop.size) / 16
    for extent, colour, line in ((radius + 2, "black", 6), (radius + 1, "white", 3)):
        box = (x - extent, y - extent, x + extent, y + extent)
        draw.ellipse(box, outline=colour, width=line)
    return crop
