"""A value whose source is not on record is marked as assumed wherever it shows."""

import json
import re
from pathlib import Path

import pytest

from gpuplan.specs.catalog import shipped_folder
from tests.cli.conftest import Call


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A folder with an H100 of which nothing says how fast its memory is."""
    folder = tmp_path / "accelerators" / "nvidia"
    folder.mkdir(parents=True)
    text = (shipped_folder() / "accelerators/nvidia/h100-sxm-80gb.yaml").read_text(encoding="utf-8")
    text = re.sub(r"^(aliases|driver_names|default_system):.*\n", "", text, flags=re.M).replace("id: h100-sxm-80gb", "id: mine")
    text, count = re.subn(r"\nmemory:\n  source: \S+\n", "\nmemory:\n", text)
    assert count == 1
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def test_explain_says_that_no_source_is_on_record(call: Call, specs: Path) -> None:
    ask = ("serve", "llama-3.1-8b", "--prompt", "1000", "--output", "100", "--specs", str(specs))
    said = call(*ask, "--on", "mine", "--explain", "hw.hbm_bandwidth").out
    assert "source not on record" in said
    shipped = call(*ask, "--on", "h100-sxm-80gb", "--explain", "hw.hbm_bandwidth").out
    assert "source not on record" not in shipped


def test_json_counts_it_as_assumed(call: Call, specs: Path) -> None:
    ask = ("serve", "llama-3.1-8b", "--prompt", "1000", "--output", "100", "--specs", str(specs), "--on", "mine", "--json=full")
    sources = json.loads(call(*ask).out)["sources"].values()
    assert any(one["kind"] == "assumed" and one["title"] == "source not on record" for one in sources)


def test_a_spec_page_marks_it(call: Call, specs: Path) -> None:
    said = call("specs", "show", "mine", "--specs", str(specs)).out
    assert re.search(r"bandwidth +3\.35 TB/s +\[\?\]", said)
    assert re.search(r"\[\?\] assumed, source not on record", said)
    assert "[?]" not in call("specs", "show", "dgx-h100").out
