"""What a conversion between Delta and Paimon does not carry over."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltacli.errors import Refused


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that is not there any more; of a column, or of the table."""

    column: str | None
    message: str


@dataclass
class Losses:
    """Losses as they are found; grave ones need to be allowed."""

    allows_grave: bool = False
    found: list[Loss] = field(default_factory=list)

    def add(self, column: str | None, message: str) -> None:
        self.found.append(Loss(column, message))

    def add_grave(self, column: str, message: str, hint: str) -> None:
        """Raises Refused unless such losses are allowed."""
        if not self.allows_grave:
            raise Refused(f"{column}: {message}", hint=f"--allow-lossy {hint}")
        self.add(column, message)
