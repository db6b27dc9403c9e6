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
