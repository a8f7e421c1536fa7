"""The published JSON: valid by its schema, complete to the last source, and stable in its names."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from gpuplan.estimate.result import Verdict
from gpuplan.render.csv import COLUMNS, estimate_csv
from gpuplan.render.json import SCHEMA, EstimateJson, document, estimate_json, schema
from tests.render.render_sample import sample

PUBLISHED = Path(__file__).parents[2] / "gpuplan" / "render" / "schema" / "estimate-2.schema.json"


def test_the_document_keeps_its_schema() -> None:
    made = json.loads(estimate_json(sample()))
    TypeAdapter(EstimateJson).validate_python(made, strict=True)
    assert made["schema"] == SCHEMA


def test_the_document_is_valid_for_an_independent_validator() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.validate(json.loads(estimate_json(sample())), schema())


def test_the_published_schema_is_the_generated_one() -> None:
    text = json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
    assert PUBLISHED.read_text(encoding="utf-8") == text, "run: gpuplan specs schema estimate > " + str(PUBLISHED)


def test_keys_of_figures_end_in_their_unit() -> None:
    ends = {
        "s": "_s",
        "B": "_bytes",
        "USD": "_usd",
        "FLOP": "_flop",
        "FLOP/s": "_flop_per_s",
        "B/s": "_bytes_per_s",
        "1/s": "_per_s",
    }
    for key, figure in document(sample())["figures"].items():
        if figure["unit"] in ends:
            assert re.search(rf"{ends[figure['unit']]}(_|$)", key), key


def test_every_reference_resolves() -> None:
    made = document(sample())
    terms, formulas, sources = made["terms"], made["formulas"], made["sources"]
    for figure in made["figures"].values():
        assert figure["term"] in terms
    for term in terms.values():
        assert term["source"] in sources
        assert term["formula"] is None or term["formula"] in formulas
        assert all(part in terms for part in term["args"].values())
        if term["formula"] not in (None, "sum", "max"):
            assert set(term["args"]) == set(formulas[term["formula"]]["parameters"])
    for formula in formulas.values():
        assert formula["source"] in sources
    for breakdown in made["breakdowns"]:
        assert sum(part["share"] or 0 for part in breakdown["parts"]) == pytest.approx(1)


def test_a_narrow_fit_is_a_fit_that_says_so() -> None:
    estimate = sample()
    narrow = estimate.replaced(verdict=Verdict(True, "fits narrowly: 79 of 80 GiB", "memory.peak", narrowly=True))
    verdict = json.loads(estimate_json(narrow))["verdict"]
    assert (verdict["fits"], verdict["narrowly"]) == (True, True)
    assert json.loads(estimate_json(estimate))["verdict"]["narrowly"] is False


def test_csv_has_its_listed_columns_and_a_row_for_every_number() -> None:
    estimate = sample()
    rows = list(csv.DictReader(io.StringIO(estimate_csv([estimate, estimate]))))
    assert tuple(rows[0]) == COLUMNS
    parts = sum(len(breakdown.parts) + 1 for breakdown in estimate.breakdowns)
    assert len(rows) == 2 * (2 + len(estimate.figures) + parts)
    assert float(next(row for row in rows if row["name"] == "mfu")["value"]) == estimate.figures["mfu"].value
