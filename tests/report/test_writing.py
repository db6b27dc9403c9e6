import re

import pytest

from dnc.report import pictures
from dnc.report.writing import Report
from tests.report.models import made_features, made_images, made_looked, made_recognizer
from tests.training.models import small_recognizer

CLASSES = ("red", "green", "blue", "grey")


@pytest.fixture(scope="module")
def report():
    trained = made_images(CLASSES, 30, seed=1)
    features = made_features(trained, noise=0.35, seed=2)
    recognizer = made_recognizer(trained, features)
    tested = made_images(CLASSES, 20, seed=2)
    tested.pixels[5] = trained.pixels[70]
    return Report(
        recognizer,
        made_looked(recognizer, "test", tested, made_features(tested, noise=0.35, seed=3)),
        made_looked(recognizer, "train", trained, features),
        title="a model",
    )


@pytest.fixture(scope="module")
def page(report):
    return report.html()


def test_every_case_is_in_the_gallery_and_every_link_leads_to_one(page, report):
    cards = set(re.findall(r'id="(case-\d+-\d+)"', page))
    assert cards == {f"case-{c}-{k}" for c, k in report.subject.places}
    assert set(re.findall(r'href="#(case-\d+-\d+)"', page)) <= cards
    sections = set(re.findall(r'<section id="(\w+)"', page))
    assert set(re.findall(r'href="#(\w+)"', page)) == sections


def test_the_figures_are_those_of_the_evaluation(page, report):
    evaluation = report.subject.evaluation
    right = float(
        (report.subject.evaluated.decision.label == report.subject.evaluated.labels).double().mean()
    )
    assert evaluation.top1 == pytest.approx(right)
    assert f"<b>{100 * evaluation.top1:.2f} %</b>of images right" in page
    wrong = int((report.subject.trained.decision.label != report.subject.trained.labels).sum())
    assert f"{wrong} of 120 training images lie nearer to a case of another class" in page


def test_an_image_in_both_sets_is_told_with_its_contradicting_labels(page):
    assert "1 of the 80 test images are training images too" in page
    assert re.search(r"labelled\s+<bdi>red</bdi> and <bdi>blue</bdi>", page)


def test_nothing_is_loaded_and_only_the_script_of_the_page_may_run(page):
    assert re.search(r"default-src 'none'; img-src data:; .*script-src 'sha256-", page)
    assert page.count("<script>") == 1
    for source in re.findall(r'(?:src|href)="([^"]*)"', page):
        assert source.startswith(("data:image/", "#")), source[:80]


def test_pictures_have_alternative_texts(page):
    for tag in re.findall(r"<img[^>]*>", page):
        assert re.search(r'alt="[^"]+"', tag)


def test_the_size_is_told(page):
    told = re.search(r"This file has (\d+\.\d) MB", page)
    assert told
    assert float(told[1]) == pytest.approx(len(page.encode()) / 1e6, abs=0.1)


def test_pictures_beyond_the_bound_are_left_out_and_that_is_told(report, monkeypatch):
    one = len(report.subject.recognizer.cases.cases[0].thumbnail)
    monkeypatch.setattr(pictures, "MOST_PICTURE_BYTES", 3 * one)
    small = Report(report.subject.recognizer, report.subject.evaluated, None, title="bounded")
    assert 0 < len(small.subject.pictures) < len(small.subject.places)
    assert len(small.subject.pictures) + small.subject.dropped == len(small.subject.places)
    text = small.html()
    assert f"{small.subject.dropped} pictures of cases were left out" in text
    assert "training images are not part of these data" in text


def test_a_report_is_written_whole_or_not_at_all(report, tmp_path):
    written = report.write(tmp_path / "new" / "report.html")
    assert written.size == written.path.stat().st_size
    with pytest.raises(IsADirectoryError):
        report.write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_softmax_model_has_nothing_to_report():
    with pytest.raises(ValueError, match="of kind 'softmax'"):
        _ = small_recognizer(kind="softmax").model.subcentroid_head
