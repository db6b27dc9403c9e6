"""Networks for images of 32x32: the paper's ResNets with another start, and small ones."""

import timm
from torch import Tensor, nn

SMALL_DIM = 64


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outputs)
        self.shortcut = (
            nn.Identity()
            if inputs == outputs
            else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )
        )

    def forward(self, images: Tensor) -> Tensor:
        """The block's features."""
        features = self.first_norm(self.first(images)).relu()
        shortcut: Tensor = self.shortcut(images)
        residual: Tensor = self.second_norm(self.second(features))
        return (residual + shortcut).relu()


def small_resnet(blocks_per_stage: int) -> nn.Sequential:
    """Images `(n 3 h w)` to features `(n 64)`, for two cores.

    Three stages: one block each is a ResNet-8 (0.08 million parameters), three are a ResNet-20
    (0.27 million).
    """
    blocks = [
        Block(inputs if index == 0 else outputs, outputs, stride if index == 0 else 1)
        for inputs, outputs, stride in ((16, 16, 1), (16, 32, 2), (32, SMALL_DIM, 2))
        for index in range(blocks_per_stage)
    ]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def for_small_images(architecture: str, *, drop_path: float) -> nn.Module:
    """A ResNet of timm whose first layers keep the size of the image.

    One 3x3 convolution of stride 1 and no pooling; otherwise a 32x32 image would be 8x8 before
    the first block.
    """
    network = timm.create_model(architecture, drop_path_rate=drop_path or None)
    stem = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    network.conv1 = stem
    network.maxpool = nn.Identity()
    return network
