"""Who keeps what long work tells."""

from __future__ import annotations


class Kept:
    """A watcher that remembers: of each work how much was done of how much, and which were over."""

    def __init__(self) -> None:
        self.done: dict[str, list[tuple[float, float | None]]] = {}
        self.ended: list[str] = []

    def told(self, what: str, done: float, total: float | None) -> None:
        self.done.setdefault(what, []).append((done, total))

    def over(self, what: str) -> None:
        self.ended.append(what)
