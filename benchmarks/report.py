"""A report of 1,000 classes and 4,000 cases: how long it takes, how large it is, how it opens.

`python -m benchmarks.report [FILE]`; the features are synthetic, the pictures are noise and so as
large as pictures get. Opening is measured in Chromium if it is installed.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dnc.centroids import SubCentroidHead, normalised
from dnc.data import Images, Preprocessing
from dnc.models import Classifier
from dnc.recognition import Recognizer
from dnc.report.looking import Looked
from dnc.report.writing import Report
from dnc.training.casebase import case_base
from dnc.training.features import Features

CLASSES, K, DIM, TRAINED, TESTED, SIDE = 1000, 4, 512, 20, 10, 96


def drawn(each: int, *, seed: int) -> Images:
    """Images of blurred noise."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (CLASSES * each, SIDE // 4, SIDE // 4, 3), dtype=np.uint8)
    pixels = coarse.repeat(4, axis=1).repeat(4, axis=2)
    pixels ^= rng.integers(0, 32, pixels.shape, dtype=np.uint8)
    return Images(
        root=Path("drawn"),
        names=tuple(f"class {i // each}/{seed}-{i}.jpg" for i in range(CLASSES * each)),
        labels=np.repeat(np.arange(CLASSES), each),
        ids=np.arange(CLASSES * each),
        classes=tuple(f"class number {c}" for c in range(CLASSES)),
        pixels=pixels,
    )


def seen(images: Images, *, seed: int) -> Features:
    """Features around four directions of each class."""
    centres = torch.randn(CLASSES, K, DIM, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(seed)
    labels = torch.from_numpy(images.labels)
    heap = torch.randint(K, (len(images),), generator=generator)
    rows = normalised(centres)[labels, heap]
    rows = rows + 0.12 * torch.randn(len(images), DIM, generator=generator)
    return Features(rows, labels, torch.from_numpy(images.ids), ())


def opening_seconds(path: Path) -> float | None:
    """Until the page is loaded and its first case can be seen; None without a browser."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(path.absolute().as_uri())
        page.locator("details.class").first.wait_for(state="visible")
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        taken = time.perf_counter() - began
        began = time.perf_counter()
        page.fill("#search", "number 77")
        found = page.locator("details.class:visible").count()
        print(f"search: {found} classes in {time.perf_counter() - began:.2f} s")
        browser.close()
    return taken


def main() -> None:
    """Prints the figures."""
    trained, tested = drawn(TRAINED, seed=1), drawn(TESTED, seed=2)
    features = seen(trained, seed=1)
    head = SubCentroidHead(DIM, CLASSES, subcentroids=K, momentum=0.1, only_correct=False)
    head.start_from(features.rows, features.labels)
    head.absorb(features.rows, features.labels, features.ids)
    preprocessing = Preprocessing(SIDE, SIDE, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    model = Classifier(nn.Identity(), head).eval()
    plain = Recognizer(model, None, trained.classes, preprocessing, {})
    cases = case_base(plain, trained, features, "folder")
    recognizer = Recognizer(model, None, trained.classes, preprocessing, {}, cases)
    numbers = torch.arange(CLASSES)
    began = time.perf_counter()
    report = Report(
        recognizer,
        Looked.of(head, "test", tested, seen(tested, seed=2), numbers),
        Looked.of(head, "train", trained, features, numbers),
        title="1,000 classes",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "report.html"
        written = report.write(path)
        taken = time.perf_counter() - began
        sizes = [len(case.thumbnail or "") for case in cases.cases]
        print(f"{len(cases.cases):,} cases, pictures of {np.mean(sizes) / 1000:.1f} kB as text")
        print(f"written in {taken:.1f} s, {written.size / 1e6:.1f} MB")
        opened = opening_seconds(path)
        print("no Chromium here" if opened is None else f"opened in {opened:.2f} s")


if __name__ == "__main__":
    main()
