"""Pictures arranged on a sheet; Pillow."""

from collections.abc import Sequence

from PIL import Image

GAP = 8
LOWEST, HIGHEST = 180, 480


def levelled(pictures: Sequence[Image.Image]) -> list[Image.Image]:
    """Pictures of the height of the highest, which is enlarged or reduced to one that is seen."""
    highest = max(picture.height for picture in pictures)
    # A multiple, or the pixels of a small picture would become squares of different sizes.
    height = min(highest * -(-LOWEST // highest), HIGHEST)
    return [_scaled(picture.convert("RGB"), height) for picture in pictures]


def row_image(pictures: Sequence[Image.Image], widths: Sequence[int]) -> Image.Image:
    """Pictures of one height beside each other, each in the middle of its column."""
    row = Image.new("RGB", (row_width(widths), pictures[0].height), "white")
    left = 0
    for picture, width in zip(pictures, widths, strict=True):
        row.paste(picture, (left + (width - picture.width) // 2, 0))
        left += width + GAP
    return row


def row_width(widths: Sequence[int]) -> int:
    """How wide columns are together, with gaps between them."""
    return sum(widths) + GAP * (len(widths) - 1)


def stacked(parts: Sequence[Image.Image]) -> Image.Image:
    """Pictures of one width below each other, with a margin around them."""
    height = sum(part.height + GAP for part in parts) + GAP
    sheet = Image.new("RGB", (parts[0].width + 2 * GAP, height), "white")
    top = GAP
    for part in parts:
        sheet.paste(part, (GAP, top))
        top += part.height + GAP
    return sheet


def _scaled(picture: Image.Image, height: int) -> Image.Image:
    width = max(round(picture.width * height / picture.height), 1)
    # A picture of few colours is a map of classes, and a mixture of colours is that of no class.
    is_map = picture.getcolors(256) is not None
    is_sharp = is_map or height > picture.height
    resampling = Image.Resampling.NEAREST if is_sharp else Image.Resampling.LANCZOS
    return picture.resize((width, height), resampling)
