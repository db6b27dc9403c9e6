"""A classifier that exists already, turned into one that decides by sub-centroids."""

import torch
from torch import nn

from dnc.errors import InvalidModel
from dnc.models.classification import Classifier
from dnc.models.heads import DEFAULT_HEAD, HeadSettings, subcentroid_head
from dnc.models.last_layer import (
    inputs_and_outputs,
    last_layers,
    named_layer,
    require_convertible,
    without,
)


def convert(
    model: nn.Module,
    classes: int | None = None,
    *,
    layer: str | None = None,
    head: HeadSettings = DEFAULT_HEAD,
    generator: torch.Generator | None = None,
) -> Classifier:
    """A classifier with the model's own weights that decides by sub-centroids.

    The last layer goes away and nothing else does. The model that is given stays as it is, last
    layer included, and shares all its other weights with the result: training one trains the
    other. Give `copy.deepcopy(model)` to keep them apart. Device, precision and training mode
    stay; sub-centroids are float32 always.

    Args:
        model: a classifier of timm, of torchvision or of one's own; the output of its last layer
            must be its output, but for pooling and flattening.
        classes: number of classes; None takes as many as the last layer had.
        layer: name of the last layer, such as "classifier.6"; None finds it: timm says which one
            it is, in other networks it is the last one with parameters, in the order in which
            they were registered.
        head: settings of the sub-centroids.
        generator: source of their random start.

    """
    layers = last_layers(model) if layer is None else named_layer(model, layer)
    if not layers:
        raise InvalidModel(
            f"{type(model).__name__} has no last layer to take away (it was made with "
            "num_classes=0); make it with classes, or put its features under a Classifier."
        )
    last = next(iter(layers.values()))
    require_convertible(model, last)
    dim, outputs = inputs_and_outputs(last)
    if dim == 0:
        raise InvalidModel(
            "The last layer does not know its input dimension yet; run the network once first."
        )
    new = subcentroid_head(dim, outputs if classes is None else classes, head, generator=generator)
    new.to(last.weight.device).train(model.training)
    converted = Classifier(without(model, list(layers)), new)
    # Not train() on the whole: a network may hold parts in evaluation mode on purpose.
    converted.training = model.training
    converted.projection.train(model.training)
    converted.centring.train(model.training)
    return converted
