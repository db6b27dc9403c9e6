import itertools
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from dnc.data import prepared
from dnc.errors import InvalidData, InvalidInput, NothingAbsorbed, UnreadableImage
from dnc.models import classifier
from dnc.recognition import Prediction, class_map
from tests.data.drawings import drawing
from tests.training.models import CLASSES, small_recognizer


@pytest.fixture(scope="module")
def recognizer():
    return small_recognizer(subcentroids=(1, 2, 3))


@pytest.fixture(scope="module")
def softmax():
    return small_recognizer(kind="softmax")


@pytest.fixture(scope="module")
def pictures():
    return [drawing(number % 5, number, size=30 + number) for number in range(7)]


@pytest.fixture
def paths(pictures, tmp_path):
    paths = [tmp_path / f"Bild {number} ü.png" for number in range(len(pictures))]
    for picture, path in zip(pictures, paths, strict=True):
        picture.save(path)
    return paths


def without_source(predictions):
    return [replace(prediction, source="") for prediction in predictions]


def features_of(recognizer, pictures):
    """Each by itself, since the last bits depend on the size of a batch."""
    images = prepared(pictures, recognizer.preprocessing)
    with torch.no_grad():
        return recognizer.model.features(images)


def test_paths_pictures_arrays_and_tensors_are_predicted_alike(recognizer, pictures, paths):
    arrays = [np.asarray(picture) for picture in pictures]
    as_tensors = [torch.from_numpy(array.copy()).movedim(-1, 0) for array in arrays]
    wide = [array.astype(np.uint16) * 257 for array in arrays]
    floats = [array.astype(np.float32) / 255 for array in arrays]
    double = [tensor.double() / 255 for tensor in as_tensors]
    expected = without_source(recognizer.predict(pictures))
    assert {prediction.error for prediction in expected} == {None}
    for images in (paths, map(str, paths), arrays, as_tensors, wide, floats, double, iter(arrays)):
        assert without_source(recognizer.predict(images)) == expected


def test_one_image_gives_one_prediction(recognizer, pictures, paths):
    array = np.asarray(pictures[0])
    tensor = torch.from_numpy(array.copy()).movedim(-1, 0)
    for image in (pictures[0], paths[0], str(paths[0]), array, tensor):
        (prediction,) = recognizer.predict(image)
        assert prediction.label in CLASSES
    grey = np.asarray(pictures[0].convert("L"))
    (from_grey,) = recognizer.predict(grey)
    (from_colours,) = recognizer.predict(np.stack([grey] * 3, axis=-1))
    assert from_grey == from_colours


def test_a_stack_of_images_is_several(recognizer):
    stack = np.stack([np.asarray(drawing(number, 0)) for number in range(4)])
    expected = recognizer.predict(list(stack))
    assert recognizer.predict(stack) == expected
    assert recognizer.predict(torch.from_numpy(stack).movedim(-1, 1)) == expected
    assert recognizer.predict([]) == []


def test_the_source_is_the_path_or_the_position(recognizer, pictures, paths):
    predicted = recognizer.predict([paths[0], pictures[1], str(paths[2]), np.asarray(pictures[3])])
    assert [each.source for each in predicted] == [str(paths[0]), "1", str(paths[2]), "3"]


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_the_order_is_kept_in_batches_of_any_size(recognizer, paths, batch_size):
    shuffled = [paths[number] for number in (3, 0, 6, 2, 5, 1, 4, 3)]
    predicted = recognizer.predict(shuffled, batch_size=batch_size)
    assert [each.source for each in predicted] == [str(path) for path in shuffled]
    alone = [recognizer.predict(path)[0] for path in shuffled]
    assert [each.case for each in predicted] == [each.case for each in alone]
    for each, single in zip(predicted, alone, strict=True):
        assert each.similarity == pytest.approx(single.similarity, abs=1e-5)


def test_predictions_come_one_by_one(recognizer, pictures):
    endless = itertools.cycle(pictures)
    first = list(itertools.islice(recognizer.predictions(endless, batch_size=2), 5))
    assert [each.source for each in first] == ["0", "1", "2", "3", "4"]


def test_unreadable_files_do_not_end_the_predictions(recognizer, paths, tmp_path):
    text = tmp_path / "text.jpg"
    text.write_text("hello")
    whole = BytesIO()
    drawing(0, 0, size=90).save(whole, format="png")
    cut = Image.open(BytesIO(whole.getvalue()[:2000]))
    missing = tmp_path / "missing.png"
    images = [text, paths[0], cut, missing, paths[1], tmp_path, "a\0b", paths[2]]
    predicted = list(recognizer.predictions(images, batch_size=3))
    assert [each.error is None for each in predicted] == [
        *(False, True, False, False, True, False, False, True),
    ]
    for each in predicted:
        if each.error is not None:
            assert each == Prediction(each.source, error=each.error)
    readable = [each for each in predicted if each.error is None]
    assert [each.source for each in readable] == [str(path) for path in paths[:3]]
    assert list(recognizer.predictions([text, missing]))[1].label is None
    with pytest.raises(UnreadableImage, match=r"text\.jpg") as caught:
        recognizer.predict([paths[0], text])
    assert caught.value.path == str(text)


def test_case_rival_and_margin_are_the_decision(recognizer, pictures):
    decision = recognizer.model.head.decide(features_of(recognizer, pictures))
    for row, each in enumerate(recognizer.predict(pictures)):
        label, rival = int(decision.label[row]), int(decision.rival_label[row])
        assert each.label == CLASSES[label]
        assert each.case == f"{CLASSES[label]}#{int(decision.subcentroid[row])}"
        assert each.rival == f"{CLASSES[rival]}#{int(decision.rival_subcentroid[row])}"
        assert each.similarity == pytest.approx(float(decision.similarity[row]), abs=1e-5)
        assert each.margin == pytest.approx(float(decision.margin[row]), abs=1e-5)
        assert each.rival.partition("#")[0] != each.label


@pytest.mark.parametrize("kind", ["dnc", "softmax"])
def test_the_probability_is_the_softmax_of_the_scores(kind, pictures):
    recognizer = small_recognizer(kind=kind)
    with torch.no_grad():
        scores = recognizer.model(prepared(pictures, recognizer.preprocessing))
    shares = scores.softmax(dim=1)
    predicted = recognizer.predict(pictures)
    assert [each.label for each in predicted] == [CLASSES[label] for label in scores.argmax(dim=1)]
    for each, share in zip(predicted, shares.amax(dim=1).tolist(), strict=True):
        assert each.probability == pytest.approx(share, abs=1e-5)
        assert 1 / len(CLASSES) <= each.probability <= 1


def test_a_softmax_classifier_has_no_cases(softmax, pictures):
    for each in softmax.predict(pictures):
        assert (each.case, each.similarity, each.margin, each.rival) == (None,) * 4


def test_one_class_alone_has_no_rival(pictures):
    only = small_recognizer(classes=("only",))
    for each in only.predict(pictures):
        assert (each.label, each.probability, each.rival) == ("only", 1.0, None)


def test_a_picture_is_seen_as_its_file_is(recognizer, tmp_path):
    colour = drawing(1, 1, size=48)
    transparent = colour.convert("RGBA")
    transparent.putalpha(Image.linear_gradient("L").resize(colour.size))
    deep = Image.fromarray(np.asarray(colour.convert("L")).astype(np.uint16) * 200)
    turned = Image.Exif()
    turned[0x0112] = 6
    for number, (picture, exif) in enumerate(
        [(transparent, None), (deep, None), (colour.quantize(16), None), (colour, turned)]
    ):
        path = tmp_path / f"{number}.png"
        picture.save(path, **({} if exif is None else {"exif": exif}))
        with Image.open(path) as opened:
            from_picture = recognizer.predict(opened)
        assert without_source(from_picture) == without_source(recognizer.predict(path))


def test_predicting_changes_no_picture(recognizer):
    picture = drawing(0, 0)
    picture.info["own"] = 1
    before = picture.tobytes()
    recognizer.predict(picture)
    assert picture.info == {"own": 1}
    assert picture.tobytes() == before


@pytest.mark.parametrize(
    "image",
    [
        *(np.zeros((4, 4, 2), dtype=np.uint8), np.zeros((0, 4, 3), dtype=np.uint8)),
        *(np.zeros(5), np.zeros((4, 4), dtype=np.int64), np.full((4, 4), 7.0)),
        *(torch.zeros(2, 4, 4), np.full((4, 4, 3), np.nan)),
    ],
    ids=lambda image: f"{tuple(image.shape)} {image.dtype}",
)
def test_an_array_that_is_no_image_is_refused(recognizer, image):
    with pytest.raises(InvalidData):
        recognizer.predict([image])


@pytest.mark.parametrize("image", [3, None, b"bytes", [[1, 2]], {"a": 1}], ids=repr)
def test_what_is_no_image_at_all_is_refused(recognizer, image):
    with pytest.raises(InvalidInput):
        recognizer.predict([image])
    with pytest.raises(InvalidInput):
        list(recognizer.predictions([image]))


def test_neither_a_number_nor_nothing_is_an_image(recognizer):
    for wrong in (3, None):
        with pytest.raises(InvalidInput):
            recognizer.predict(wrong)


def test_an_image_without_pixels_is_unreadable(recognizer):
    with pytest.raises(UnreadableImage, match="no pixels"):
        recognizer.predict(Image.new("RGB", (0, 5)))


def test_a_batch_holds_at_least_one_image(recognizer, pictures):
    with pytest.raises(InvalidInput, match="batch_size"):
        recognizer.predict(pictures, batch_size=0)


def test_without_cases_nothing_is_predicted(recognizer, pictures):
    model, _ = classifier("resnet20-cifar", 3)
    with pytest.raises(NothingAbsorbed):
        replace(recognizer, model=model).predict(pictures)


def test_predicting_evaluates_and_changes_no_byte(recognizer, pictures):
    model = recognizer.model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = recognizer.predict(pictures)
    assert recognizer.predict(pictures) == first
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_a_recognizer_moves_to_its_device(recognizer):
    assert recognizer.to("cpu").device == torch.device("cpu")


def test_classes_are_matched_by_name(recognizer):
    assert class_map(recognizer.classes, CLASSES) == [0, 1, 2]
    assert class_map(recognizer.classes, CLASSES[::-1]) == [2, 1, 0]
    assert class_map(recognizer.classes, CLASSES[1:2]) == [1]


def test_numbered_classes_are_matched_by_number_to_wordnet_ids_alone(recognizer):
    imagenet = replace(recognizer, classes=("n01440764", "n01443537", "n01484850"))
    assert class_map(imagenet.classes, ["0", "1", "2"]) == [0, 1, 2]
    digits = replace(recognizer, classes=("2", "1", "0"))
    assert class_map(digits.classes, ["0", "1", "2"]) == [2, 1, 0]
    for wrong in (["0", "1"], ["0", "1", "3"], ["1", "0", "2"], ["0", "1", "2", "3"]):
        with pytest.raises(InvalidInput, match="does not know"):
            class_map(imagenet.classes, wrong)
    with pytest.raises(InvalidInput, match="does not know"):
        class_map(recognizer.classes, ["0", "1", "2"])


def test_unknown_classes_are_told(recognizer):
    with pytest.raises(InvalidInput, match=r"1 classes that the model does not know: cats.*Äpfel"):
        class_map(recognizer.classes, ["Äpfel", "cats"])
