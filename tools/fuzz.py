"""Which laws do answers break in so many minutes of random questions? Each kind of breach is listed once, with a question.

python tools/fuzz.py --minutes 20 --seed 1
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzz.laws import Said, broken, said
from tests.fuzz.questions import question

EACH = 200
"""Questions between two looks at the clock."""


def main() -> int:
    """Ask until the time is over; 1 where a law was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    end, kinds, questions = time.monotonic() + 60 * asked.minutes, Counter[str](), 0
    first: dict[str, str] = {}

    def look(words: list[str]) -> None:
        nonlocal questions
        questions += 1
        try:
            one = said([*words, "--json"])
            wrong = broken(one)
        except BaseException as error:  # what leaves `run` is a breach by itself
            one, wrong = Said(-1, "", "", 0.0), [f"{type(error).__name__}: {error}"]
        why = one.err.splitlines()[0] if one.err and one.code not in (0, 2, 3, 4, 5) else ""
        for text in wrong:
            kind = re.sub(r"[\d.]+(e[+-]?\d+)?", "N", f"{text} {why}")
            kinds[kind] += 1
            if kind not in first:
                first[kind] = shlex.join(words)
                print(f"{text} {why}\n    {first[kind]}", flush=True)

    number = asked.seed
    while time.monotonic() < end:
        number += 1
        shape = settings(
            max_examples=EACH, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
        )
        seed(number)(shape(given(st.one_of(question(odd=False), question(odd=True)))(look)))()
    print(f"{questions} questions, {sum(kinds.values())} breaches of {len(kinds)} kinds")
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}\n       {first[kind]}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
