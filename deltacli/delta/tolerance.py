"""What reading tolerates: most of it stops a write, some of it does not."""

from __future__ import annotations


class Remark(str):
    """A warning about something that a write does not make worse, or even mends.

    An unreadable hint or checkpoint, for instance: the state was rebuilt without it.
    """

    __slots__ = ()
