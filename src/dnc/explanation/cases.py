"""The case base of a model: the training image behind each sub-centroid, traced to its file."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

from PIL import Image
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from dnc.data import Images, Scenes, open_data, read_image
from dnc.errors import DNCError, InvalidCheckpoint, UnreadableImage

FORMAT = 1
THUMBNAIL = 112  # pixels of the longer side
ARRAYS = ("digits", "cifar10", "cifar100")  # kinds of data that are no files of their own
SMALL = 64  # images up to this side are kept as they are, without loss

Text = Annotated[str, Field(max_length=10_000)]
Number = Annotated[int, Field(ge=0, lt=2**53)]
Cosine = Annotated[float, Field(ge=-1.001, le=1.001)]
# Nothing but a picture that is in the text itself: a page must not fetch what a file tells it to.
PICTURE = re.compile(r"data:image/(png|jpeg);base64,[A-Za-z0-9+/]+={0,2}")
Picture = Annotated[str, Field(pattern=rf"^{PICTURE.pattern}$", max_length=2**22)]


@dataclass(frozen=True)
class Case:
    """A sub-centroid and the training image that stands for it.

    Attributes:
        label: number of its class.
        subcentroid: which sub-centroid of the class.
        image: id of the image in its data set.
        file: path of the image, from the folder of the data set.
        sha256: of the file's bytes, or of the pixels where the source is an array.
        similarity: cosine of the image to the sub-centroid, before the two were made one.
        stands_for: training images of the class to which it is nearer than the class's other cases.
        of_these_right: how many of these are classified correctly.
        decides: training images of any class to which it is nearer than all other cases.
        rightly: how many of these are of its class.
        thumbnail: the image, small, as a data URI; None if it could not be read. Of a scene, what
            is around the place.
        at: row and column of the pixel in the middle of the place, where a case is a place in a
            scene and not a whole image.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    label: Number
    subcentroid: Number
    image: Number
    file: Text
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None
    similarity: Cosine
    stands_for: Number
    of_these_right: Number
    decides: Number
    rightly: Number
    thumbnail: Picture | None
    at: tuple[Number, Number] | None = None


@dataclass(frozen=True)
class CaseBase:
    """The cases of a model.

    Attributes:
        is_anchored: whether each sub-centroid is the feature of its image; else it is a mean of
            many, and the image is the one of its class that is nearest to it.
        root: folder of the data set when the model was made.
        kind: its layout.
        cases: in the order of their classes.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)

    is_anchored: bool
    root: Text
    kind: Annotated[str, Field(max_length=100)]
    cases: tuple[Case, ...]
    format: Literal[1] = 1

    @cached_property
    def by_place(self) -> Mapping[tuple[int, int], Case]:
        """The case of each sub-centroid, by its class and its number."""
        return {(case.label, case.subcentroid): case for case in self.cases}

    def to_json(self) -> str:
        """The whole case base as the text of a file."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=True, allow_nan=False)

    @classmethod
    def from_tree(cls, tree: Any, *, where: Path) -> "CaseBase":
        """A case base from what a JSON file holds, checked."""
        given = tree.get("format") if isinstance(tree, dict) else None
        if type(given) is int and given > FORMAT:
            raise InvalidCheckpoint(
                f"{where} has format {given}; this version of dnc reads formats up to {FORMAT}. "
                "Install a newer dnc."
            )
        try:
            made = _ADAPTER.validate_python(tree)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise InvalidCheckpoint(f"{where} is malformed: {place}: {first['msg']}.") from error
        if len(made.by_place) != len(made.cases):
            raise InvalidCheckpoint(f"{where} is malformed: it has a sub-centroid twice.")
        return made


_ADAPTER = TypeAdapter(CaseBase)


@dataclass(frozen=True)
class Verified:
    """Which files behind the cases are still what they were.

    Attributes:
        unchanged: cases whose file has the same bytes.
        changed: cases whose file has others.
        vanished: cases whose file is not there any more.
    """

    unchanged: tuple[Case, ...]
    changed: tuple[Case, ...]
    vanished: tuple[Case, ...]


def verified(cases: Sequence[Case], parts: Sequence[Images | Scenes]) -> Verified:
    """Compares the cases with the images of a data set, file by file."""
    places = {
        shown_name(name): (images, p) for images in parts for p, name in enumerate(images.names)
    }
    found: dict[str, list[Case]] = {"unchanged": [], "changed": [], "vanished": []}
    for case in cases:
        if case.file not in places:
            found["vanished"].append(case)
            continue
        try:
            same = sha256_of(*places[case.file]) == case.sha256
        except FileNotFoundError:
            found["vanished"].append(case)
        except OSError:
            found["changed"].append(case)
        else:
            found["unchanged" if same else "changed"].append(case)
    return Verified(**{name: tuple(of_name) for name, of_name in found.items()})


def shown_name(name: str) -> str:
    """A file's name as text: names need not be Unicode, JSON must."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def sha256_of(images: Images | Scenes, position: int) -> str:
    """The SHA-256 of an image's file, or of its pixels where the source is an array."""
    path = images.path(position)
    if path is None:
        assert isinstance(images, Images)
        assert images.pixels is not None
        return hashlib.sha256(images.pixels[position].tobytes()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def thumbnail(image: Image.Image, *, side: int = THUMBNAIL) -> str:
    """A small version of an image as a data URI; images that are small already keep every pixel."""
    if max(image.size) <= SMALL:
        return encoded(image, "PNG")
    small = image.copy()
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return encoded(small, "JPEG")


def encoded(image: Image.Image, form: Literal["PNG", "JPEG"]) -> str:
    """An image as a data URI."""
    buffer = BytesIO()
    options = {"quality": 85} if form == "JPEG" else {"optimize": True}
    image.save(buffer, form, **options)
    text = base64.b64encode(buffer.getvalue()).decode()
    return f"data:image/{form.lower()};base64,{text}"


def decoded(picture: str) -> Image.Image:
    """The image of a data URI."""
    content = base64.b64decode(picture.partition(",")[2])
    return Image.open(BytesIO(content)).convert("RGB")


def case_reader(cases: CaseBase | None, data: Path | None) -> Callable[[Case], Image.Image | None]:
    """A function that reads the whole image of a case, if it is there and still the same.

    Args:
        cases: the case base; None reads nothing.
        data: where the data set is now; None looks where it was when the model was made.
    """
    if cases is None:
        return lambda case: None
    place = Path(cases.root) if data is None else data
    if cases.kind in ARRAYS:
        return _array_reader(cases, place)

    def read(case: Case) -> Image.Image | None:
        try:
            path = place / case.file
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != case.sha256:
                    return None
            return read_image(path)
        except (OSError, ValueError, UnreadableImage):  # a name of a foreign system, say
            return None

    return read


def _array_reader(cases: CaseBase, place: Path) -> Callable[[Case], Image.Image | None]:
    """Reads images of a data set that is one array."""
    try:
        parts = open_data(place, kind=cases.kind, validation_share=0.0).parts()
    except (DNCError, OSError):
        return lambda case: None
    places = {name: (images, p) for images in parts.values() for p, name in enumerate(images.names)}

    def read(case: Case) -> Image.Image | None:
        images, position = places.get(case.file, (None, 0))
        if images is None or sha256_of(images, position) != case.sha256:
            return None
        return images.read(position)

    return read
