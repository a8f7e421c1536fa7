"""Keep what is made of the code true: the typed keywords of the Python API, and the reference pages in docs/.

`python tools/options.py` rewrites, `python tools/options.py --check` exits with 1 when a file is out of date.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from reference_pages import commands_page, formulas_page, schemas_page

from gpuplan.plan.signature import page, typed
from gpuplan.scenarios.figures import page as figures_page

ROOT = Path(__file__).parent.parent
PLAN = ROOT / "gpuplan" / "plan"
DOCS = ROOT / "docs"
FILES = {
    PLAN / "keywords.py": partial(typed, "fit", "train"), PLAN / "keywords_serve.py": partial(typed, "serve"),
    DOCS / "options.md": page, DOCS / "commands.md": commands_page, DOCS / "formulas.md": formulas_page,
    DOCS / "schemas.md": schemas_page, DOCS / "figures.md": figures_page,
}  # fmt: skip


def main() -> int:
    """Rewrite or check; the exit code says whether the files were true."""
    stale = [path for path, text in FILES.items() if not path.exists() or path.read_text(encoding="utf-8") != text()]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(FILES[path](), encoding="utf-8")
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run `python tools/options.py`", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
