"""How many of the slips that people make in data files does `gpuplan specs check` find? Plants them one at a time.

Run `python -m tools.plant_faults` in the checkout; `--silent memory` lists what is not found.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict

from tests.check.desk import Desk
from tests.check.plant import Fault


def main() -> None:
    """Plant, check, and print the share found of each class."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=400, help="faults of each class")
    parser.add_argument("--only", default="", help="classes, with commas")
    parser.add_argument("--silent", type=int, default=0, help="how many that are not found are shown for each class")
    parser.add_argument(
        "--copy", action="store_true", help="in a folder with a copy of the one file, instead of in the shipped folder"
    )
    given = parser.parse_args()
    desk = Desk()
    planted: dict[str, list[Fault]] = defaultdict(list)
    for fault in desk.planter().faults(given.seed):
        planted[fault.group].append(fault)
    for group, faults in sorted(planted.items()):
        if given.only and group not in given.only.split(","):
            continue
        drawn = random.Random(given.seed).sample(faults, min(given.most, len(faults)))
        find = desk.found_in_copy if given.copy else desk.found
        silent = [fault for fault in drawn if not find(fault)]
        print(f"{group:12} {1 - len(silent) / len(drawn):6.1%} of {len(drawn)} (of {len(faults)})")
        by = Counter((fault.at[-1] if fault.at[-1] != "value" else fault.at[-2], fault.slip) for fault in silent)
        for (key, slip), count in by.most_common(given.silent):
            of = sum((fault.at[-1] if fault.at[-1] != "value" else fault.at[-2], fault.slip) == (key, slip) for fault in drawn)
            example = next(f for f in silent if (f.at[-1] if f.at[-1] != "value" else f.at[-2]) == key and f.slip == slip)
            print(f"    {count:3}/{of:<3} {key}, {slip}: {example}")


if __name__ == "__main__":
    main()
