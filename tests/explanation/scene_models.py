"""Small segmenters with cases that can be shown, made on the spot."""

from pathlib import Path

import torch

from dnc.data import ScenePreprocessing, open_scenes
from dnc.models import DecoderSettings, HeadSettings, Kind, segmenter
from dnc.recognition import Network
from dnc.scene_recognition import SceneRecognizer
from dnc.training.scene_anchoring import anchored_scenes
from dnc.training.scene_casebase import with_scene_cases
from dnc.training.scene_features import ShownScenes


def drawn_scene_recognizer(
    folder: Path,
    *,
    kind: Kind = "dnc",
    is_anchored: bool = False,
    keep_length: bool = False,
    shorter_side: int | None = None,
    subcentroids: int = 3,
    seed: int = 0,
) -> SceneRecognizer:
    """A recognizer of the scenes in a folder, by a network that was never trained."""
    splits = open_scenes(folder, validation_share=0.0)
    torch.manual_seed(seed)
    model, _ = segmenter(
        "test_resnet",
        len(splits.classes),
        decoder=DecoderSettings("fcn", 32, norm="group"),
        kind=kind,
        head=HeadSettings(
            subcentroids=subcentroids, only_correct=False, momentum=0.3, keep_length=keep_length
        ),
        output_stride=8,
        image_size=64,
        generator=torch.Generator().manual_seed(seed),
    )
    recognizer = SceneRecognizer(
        model=model.eval(),
        network=Network("test_resnet", 64),
        output_stride=8,
        classes=splits.classes,
        colours=splits.train.colours,
        preprocessing=ScenePreprocessing(
            (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), shorter_side=shorter_side
        ),
        notes={"data": {"fingerprint": splits.train.fingerprint()}},
    )
    if kind == "softmax":
        return recognizer
    shown = ShownScenes(splits.train, recognizer, 0)
    features = shown.features(model, divided=False)
    for _ in range(5):
        model.head.absorb(features.rows, features.labels)
    if is_anchored:
        return anchored_scenes(recognizer, splits, workers=0)
    return with_scene_cases(recognizer, splits, features)
