"""The ResNet-20 for 32x32 images, small enough to train on two cores."""

import torch
from torch import Tensor, nn


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
        return (self.second_norm(self.second(features)) + self.shortcut(images)).relu()


def resnet20_features() -> nn.Sequential:
    """Images `(n 3 32 32)` to features `(n 64)`."""
    blocks = [
        Block(inputs if index == 0 else outputs, outputs, stride if index == 0 else 1)
        for inputs, outputs, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2))
        for index in range(3)
    ]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def training_step(
    network: nn.Module,
    classifier: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Tensor,
    labels: Tensor,
) -> Tensor:
    """One step of stochastic gradient descent; the features that it was taken with."""
    features = network(batch)
    loss = nn.functional.cross_entropy(classifier(features), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return features.detach()
