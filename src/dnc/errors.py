"""The exceptions of dnc: one tree, each saying what came, what is allowed and what to do."""


class DNCError(Exception):
    """Root of every error that dnc raises on purpose."""


class InvalidInput(DNCError, ValueError):
    """An argument that cannot be used as it is."""


class InvalidSetting(InvalidInput):
    """A setting of an algorithm outside its range."""


class InvalidFeatures(InvalidInput):
    """Features of a wrong type or shape."""


class NonFiniteFeatures(InvalidFeatures):
    """Features that hold NaN or infinite values."""


class InvalidLabels(InvalidInput):
    """Labels or ids of a wrong type, shape or range."""


class NothingAbsorbed(DNCError, RuntimeError):
    """A decision was asked for before any training row was absorbed."""


class InvalidData(InvalidInput):
    """A data set that cannot be used: nothing there, a wrong layout, labels that make no sense."""


class UnreadableImage(InvalidData):
    """An image file that cannot be decoded, or is refused because of its size."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type["UnreadableImage"], tuple[object, str]]:
        """Both arguments, for a copy of the error in another process."""
        return type(self), (self.path, self.reason)


class InvalidModel(InvalidInput):
    """A network or its weights that cannot be used: an unknown name, a file that does not fit."""


class InvalidRecipe(InvalidInput):
    """A recipe with unknown or impossible settings."""


class InvalidStudy(InvalidInput):
    """A study cannot be what its file says."""


class InvalidCheckpoint(InvalidInput):
    """A checkpoint that is malformed, incomplete or of a format that is not known."""


class PeerFailed(DNCError, RuntimeError):
    """Another process of the same training cannot go on, so this one stops too."""
