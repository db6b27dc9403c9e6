"""Images that are drawn, and a model that `dnc fit` has made of them."""

import pytest

from tests.cli.commands import CLASSES, run
from tests.data.drawings import draw_folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images") / "photos"
    draw_folder(folder, CLASSES)
    return folder


@pytest.fixture(scope="module")
def model(images, tmp_path_factory):
    root = tmp_path_factory.mktemp("fit")
    result = run("fit", images, "-o", root / "run", "--size", 64, "-k", 2, "--cache", root / "c")
    assert result.exit_code == 0, result.output
    return root / "run"
