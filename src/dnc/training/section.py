"""What a section of a recipe is, and the ranges of its numbers."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from dnc.training.recipe_text import is_unicode

Share = Annotated[float, Field(ge=0, le=1)]
BelowOne = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=10**9)]


class Section(BaseModel):
    """A part of a recipe: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _words_are_unicode(cls, value: Any) -> Any:
        # Python reads file names of other encodings as words that no file can hold.
        words = value if isinstance(value, tuple) else (value,)
        if any(isinstance(word, str) and not is_unicode(word) for word in words):
            raise ValueError("it is not Unicode; rename what it names")
        return value
