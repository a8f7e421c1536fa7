"""How many pages of a replica's caches do its sequences take, now and some decode steps later?"""

from __future__ import annotations

from gpuplan.load.rules import Rules


class Pages:
    """Pages of sequences that gain a token in each decode step, which begin new ones at known steps."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.grows = rules.page_tokens > 0 and not rules.reserves_output
        self._phase = [0] * max(rules.page_tokens, 1)
        """How many decoding sequences begin a new page in the same steps."""

    def held(self, length: int, whole: int) -> float:
        """Pages of a decoding sequence of so many tokens, which has `whole` at its end."""
        return self.rules.room(whole if self.rules.reserves_output else length)

    def enters(self, length: int, step: int) -> None:
        """A sequence of so many tokens begins to decode after so many steps."""
        if self.grows:
            self._phase[(length - step) % self.rules.page_tokens] += 1

    def leaves(self, length: int, step: int) -> None:
        """One that decoded no longer does."""
        if self.grows:
            self._phase[(length - step) % self.rules.page_tokens] -= 1

    def begun(self, rows: int, step: int, steps: int) -> float:
        """Pages that the next decode steps of all sequences begin."""
        if not self.grows:
            return 0
        page = self.rules.page_tokens
        whole, part = divmod(steps, page)
        return whole * rows + sum(self._phase[-(step + one) % page] for one in range(part))

    def lasts(self, rows: int, step: int, free: float, most: int) -> int:
        """Decode steps for which so many free pages are enough, `most` at most."""
        page = self.rules.page_tokens
        if not self.grows or free >= rows * (most // page + 1):
            return most
        whole = min(int(free // rows), most // page)
        free -= whole * rows
        done = whole * page
        while done < most:
            free -= self._phase[-(step + done) % page]
            if free < 0:
                break
            done += 1
        return done


class MeanPages(Pages):
    """Pages of sequences that gain some tokens in each step, as many in the mean: half of their last page is free in the mean."""

    def __init__(self, rules: Rules, growth: float) -> None:
        super().__init__(rules)
        self.growth = growth

    def held(self, length: int, whole: int) -> float:
        """Pages in the mean of all sequences of about that length."""
        page = self.rules.page_tokens
        if not self.grows:
            return super().held(length, whole)
        return self.rules.fixed_pages + length / page + (page - 1) / (2 * page)

    def enters(self, length: int, step: int) -> None:
        """Nothing is kept of it: all of them grow evenly."""

    def leaves(self, length: int, step: int) -> None:
        """As `enters`."""

    def begun(self, rows: int, step: int, steps: int) -> float:
        """Pages that the next decode steps of all sequences begin in the mean."""
        return rows * steps * self.growth / self.rules.page_tokens if self.grows else 0.0

    def lasts(self, rows: int, step: int, free: float, most: int) -> int:
        """Decode steps for which so many free pages are enough in the mean, `most` at most."""
        each = self.begun(rows, step, 1)
        return most if each * most <= free else max(int(free / each), 0)
