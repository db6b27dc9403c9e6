import pytest
from torch.nn.functional import cosine_similarity

from dnc.centroids import Fidelity
from dnc.training import gallery
from dnc.training.features import features_of
from dnc.training.gallery import gallery_figure
from dnc.training.run import opened
from tests.training.models import small_recognizer
from tests.training.test_run import QUIET, small_recipe


@pytest.fixture(scope="module")
def looked_at():
    images = opened(small_recipe(), QUIET).train
    recognizer = small_recognizer(classes=images.classes)
    features = features_of(
        recognizer.model, images, recognizer.preprocessing, cache=None, workers=0
    )
    fidelity = Fidelity.of(recognizer.model.head, features.rows, features.labels)
    return recognizer, images, features, fidelity


def drawn(monkeypatch, looked_at):
    """The strips and the title of the picture."""
    kept = []
    monkeypatch.setattr(gallery, "strips_figure", lambda *given: kept.append(given))
    gallery_figure(*looked_at)
    return kept[0][1:]


def test_a_strip_has_the_training_images_nearest_to_its_case(monkeypatch, looked_at):
    recognizer, images, features, fidelity = looked_at
    strips, title = drawn(monkeypatch, looked_at)
    assert len(strips) == int(recognizer.model.head.occupied.sum())
    assert "classes" not in title
    for strip in strips:
        name, _, k = strip.name.rpartition("#")
        label = images.classes.index(name)
        case = recognizer.model.head.centroids[label, int(k)]
        cosine = cosine_similarity(features.rows, case[None])
        cosine[features.labels != label] = -2
        expected = features.ids[cosine.argsort(descending=True)[: len(strip.positions)]]
        assert images.ids[strip.positions].tolist() == expected.tolist()
        assert strip.note == f"{fidelity.held[label, int(k)]:,} images"


def test_of_many_classes_some_are_drawn_and_the_title_says_so(monkeypatch, looked_at):
    monkeypatch.setattr(gallery, "MOST_STRIPS", 8)
    strips, title = drawn(monkeypatch, looked_at)
    assert 4 <= len(strips) <= 8
    assert title.endswith("; 4 of 10 classes")


def test_the_picture_has_a_place_for_each_image(looked_at):
    figure = gallery_figure(*looked_at)
    assert sum(bool(ax.images) for ax in figure.axes) >= 20
