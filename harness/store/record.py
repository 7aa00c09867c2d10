"""The base of every record, and a number that may be absent for a stated reason."""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(gt=0)]


class Record(BaseModel):
    """Immutable; an unknown key, a NaN or an infinity anywhere is a validation error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Reading(Record):
    """A number, or the reason why there is none; never both, never a NaN.

    value:  unit as stated by the field that holds the reading
    reason: e.g. "n/a: no test views"
    """

    value: float | None = None
    reason: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.value is None) == (self.reason is None):
            raise ValueError("a reading holds either a value or the reason why there is none")
        if self.reason is not None and not self.reason.strip():
            raise ValueError("the reason of an absent reading is empty")
        return self

    @classmethod
    def of(cls, value: float) -> Reading:
        """A number. Raises ValueError (pydantic) when it is not finite."""
        return cls(value=float(value))

    @classmethod
    def absent(cls, reason: str) -> Reading:
        """No number, and why."""
        return cls(reason=reason)

    @classmethod
    def ratio(cls, above: float, below: float, zero: str) -> Reading:
        """above / below; absent with the reason `zero` when `below` is 0 or the quotient overflows."""
        if below == 0.0 or not math.isfinite(above / below):
            return cls.absent(f"n/a: {zero}")
        return cls.of(above / below)

    @classmethod
    def mean(cls, readings: list[Reading], empty: str) -> Reading:
        """Arithmetic mean; absent where one of them is (its reason) or where there are none (`empty`)."""
        if not readings:
            return cls.absent(f"n/a: {empty}")
        missing = next((r for r in readings if r.value is None), None)
        if missing is not None:
            return missing
        return cls.of(math.fsum(r.value for r in readings if r.value is not None) / len(readings))

    def minus(self, other: Reading) -> Reading:
        """self − other; absent where either is."""
        if self.value is None:
            return self
        return other if other.value is None else Reading.of(self.value - other.value)

    def text(self, form: str = ".3f", scale: float = 1.0, unit: str = "") -> str:
        """For a table: the number times `scale` in that format with its unit, or the reason."""
        return f"{self.value * scale:{form}}{unit}" if self.value is not None else str(self.reason)
