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
    """Losses as they are found, grave ones among them only if such are allowed.

    What stands in the way is gathered too: all of it is told at once.
    """

    allows_grave: bool = False
    found: list[Loss] = field(default_factory=list)
    obstacles: list[tuple[str, str]] = field(default_factory=list)

    def add(self, column: str | None, message: str) -> None:
        self.found.append(Loss(column, message))

    def add_grave(self, column: str, message: str, hint: str) -> None:
        if self.allows_grave:
            self.add(column, message)
        else:
            self.refuse(f"{column}: {message}", f"--allow-lossy {hint}")

    def refuse(self, message: str, hint: str) -> None:
        self.obstacles.append((message, hint))

    def check(self) -> None:
        """Raise Refused if anything stands in the way."""
        if self.obstacles:
            messages, hints = zip(*self.obstacles, strict=True)
            raise Refused("; ".join(messages), hint="; ".join(dict.fromkeys(hints)))
