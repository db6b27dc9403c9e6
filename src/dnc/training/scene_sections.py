"""The sections of a recipe that are for scenes alone."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dnc.data import SceneAugmentation
from dnc.models import Architecture, DecoderSettings, Norm
from dnc.training.section import BelowOne, Count, NotNegative, Positive, Section, Share


class Segmenter(Section):
    """What a segmenter has between its network and its head (task: segmentation)."""

    architecture: Architecture = Field("deeplabv3", description="the decoder")
    output_stride: Literal[8, 16, 32] | None = Field(
        None,
        description="pixels between two positions of the network's last map, by dilation; left "
        "out: the network's own, mostly 32",
    )
    channels: Count = Field(256, description="dimension of the features of a pixel")
    separable: bool = Field(
        False, description="cheap 3x3 convolutions in fcn and deeplabv3, for small machines"
    )
    dropout: BelowOne = Field(
        0.1, description="of what the last 3x3 convolution of fcn and deeplabv3 sees in training"
    )
    norm: Norm = Field(
        "batch", description="statistics of the batch, or of each image (for small batches)"
    )
    embedding: Count | None = Field(
        None,
        description="dimension of a last linear layer before the head, behind which features may "
        "have any sign (head.start: close); left out: no such layer",
    )
    auxiliary: NotNegative = Field(
        0.0,
        description="weight of the loss of a linear classifier on the last map but one (deep "
        "supervision); 0: none",
    )
    contrast: NotNegative = Field(
        0.0,
        description="weight of a loss that draws pixels of a class together and away from those of "
        "others (ContrastiveSeg, a rival: with model.classifier softmax and 0.1); 0: none",
    )
    contrast_temperature: Positive = Field(0.1, description="of that loss")
    contrast_pixels: Count = Field(50, description="most positions of a class that it compares")

    def decoder(self) -> DecoderSettings:
        """The same for `dnc.models`."""
        return DecoderSettings(
            self.architecture,
            self.channels,
            self.separable,
            self.dropout,
            self.norm,
            self.embedding,
        )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self.decoder()
        return self


class Scene(Section):
    """How scenes are cut out, varied and looked at (task: segmentation)."""

    crop: Annotated[int, Field(ge=16, le=8192)] = Field(
        512, description="side of the squares that are trained on"
    )
    scale: tuple[Positive, Positive] = Field((0.5, 2.0), description="range of random scaling")
    flip: bool = Field(True, description="left and right")
    colour_jitter: Share = Field(0.0, description="brightness, contrast and saturation")
    hue: Annotated[float, Field(ge=0, le=0.5)] = Field(0.0, description="of colours")
    shorter_side: Annotated[int, Field(ge=16, le=8192)] | None = Field(
        None, description="to which images are scaled; left out: they stay as large as they are"
    )
    window: Annotated[int, Field(ge=16, le=8192)] | None = Field(
        None,
        description="side of the windows in which an image is looked at in evaluation; left out: "
        "the whole image at once",
    )
    pixels_per_class: Count | None = Field(
        2000,
        description="most positions of a class that a batch brings to the clustering, drawn by "
        "lot (training.seed); left out: 2000, null: all",
    )

    @model_validator(mode="after")
    def _ranges_begin_below_their_end(self) -> Self:
        self.augmentation()
        return self

    def augmentation(self) -> SceneAugmentation:
        """The same for `dnc.data`."""
        return SceneAugmentation(self.crop, self.scale, self.flip, self.colour_jitter, self.hue)
