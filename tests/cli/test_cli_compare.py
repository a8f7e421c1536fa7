"""Does `gpuplan compare` ask every combination of what has several values, and say what is best, by how much and why?"""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

import gpuplan
from gpuplan.estimate.slower import behind, dearer
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import by_key
from gpuplan.search.variants import Axis, variants
from tests.cli.cli_calls import Call

SERVE = ("compare", "serve", "llama-3.1-8b", "--prompt", "512", "--output", "128")


def document(call: Call, *words: str) -> dict[str, object]:
    said = call(*words, "--json")
    made: dict[str, object] = json.loads(said.out)
    return made


def test_every_combination_is_asked_and_stands_in_order(call: Call) -> None:
    made = document(call, *SERVE, "--on", "h100,l40s", "--weights", "bf16", "--weights", "fp8")
    rows = made["rows"]
    assert {row["name"] for row in rows} == {"h100, bf16", "h100, fp8", "l40s, bf16", "l40s, fp8"}
    speeds = [row["figures"]["tokens_per_s"]["value"] for row in rows]
    assert speeds == sorted(speeds, reverse=True)
    assert made["winner"][0]["name"] == rows[0]["name"]
    assert rows[0]["speed_against_first"] is None
    assert rows[1]["speed_against_first"] == pytest.approx(speeds[1] / speeds[0])
    alone = gpuplan.serve("llama-3.1-8b", on="l40s", weights="fp8", prompt=512, output=128, advise=False)
    assert (
        next(row for row in rows if row["name"] == "l40s, fp8")["figures"]["tokens_per_s"]["value"] == alone["tokens_per_s"].value
    )


def test_the_price_says_whose_it_is(call: Call) -> None:
    made = document(call, *SERVE, "--on", "aws:p5.48xlarge", "--on", "m3-ultra")
    prices = {row["name"]: row["price"] for row in made["rows"]}
    assert prices["m3-ultra"] is None
    assert {key: prices["aws:p5.48xlarge"][key] for key in ("provider", "kind")} == {"provider": "aws", "kind": "on_demand"}
    assert prices["aws:p5.48xlarge"]["date"].startswith("20")
    text = call(*SERVE, "--on", "aws:p5.48xlarge", "--on", "m3-ultra").out
    assert "no price (m3-ultra): no current on-demand price of apple-m3-ultra is on record" in " ".join(text.split())


def test_parts_that_may_change_places_say_what_was_not_measured(call: Call) -> None:
    words = ("compare", "serve", "gpt-oss-120b", "--on", "mi300x,b200")
    for form in ("--brief", "--plain", "--md", "--full"):
        assert "attention kernels of AMD Instinct MI300X" in call(*words, form).out, form
    screen = call(*words).out
    assert "Not measured, so that which is faster is not sure\n  attention kernels of AMD Instinct MI300X\n" in screen
    assert "ot measured" not in call("compare", "serve", "llama-3.1-8b", "--on", "h100,l40s").out


@pytest.mark.parametrize(
    ("task", "options", "places"),
    [
        ("serve", {"prompt": 2000, "output": 300}, ("4xh100", "8xl40s")),
        ("train", {"tokens": 1e12}, ("8xh100", "8xa100-sxm-80gb")),
    ],
)
def test_the_parts_sum_to_the_whole_difference(task: str, options: dict[str, object], places: tuple[str, str]) -> None:
    best, own = (getattr(gpuplan, task)("llama-3.1-8b", on=on, advise=False, **options).estimate for on in places)
    found = behind(places[0], own, best)
    assert found is not None
    assert found.times == pytest.approx(float(best.figures["tokens_per_s"].value) / float(own.figures["tokens_per_s"].value))
    assert sum(part.share for part in found.parts) == pytest.approx(
        found.times - 1, abs=0.03
    )  # what is below half a percent is left out
    # The first input that would help, told by working the answer out again with the value of the best.
    put = next(one for one in found.inputs if one.times > 1)
    again = gpuplan.api.Answer(own, None).estimate.figures["tokens_per_s"].given({put.name: put.best})  # type: ignore[arg-type]
    assert float(again.value) / float(own.figures["tokens_per_s"].value) == pytest.approx(put.times)
    cost = dearer(places[0], own, best)
    assert cost is not None
    assert cost.times == pytest.approx(cost.price_times * cost.time_times)


def test_stages_of_a_pipeline_stand_beside_a_plan_without() -> None:
    """The slowest stage is what a step takes: its parts carry the difference, under the names that a plan without stages has."""
    made = [gpuplan.train("llama-3.1-70b", on="64xdgx-h100", tp=8, pp=pp, tokens=1e12, advise=False).estimate for pp in (1, 4)]
    best, own = sorted(made, key=lambda one: -float(one.figures["tokens_per_s"].value))
    found = behind("best", own, best)
    assert found is not None
    assert not any("stage" in part.name for part in found.parts)
    assert not [part for part in found.parts if part.name == "the rest"]
    assert sum(part.share for part in found.parts) == pytest.approx(found.times - 1, abs=0.03)


def test_another_figure_may_decide(call: Call) -> None:
    made = document(call, *SERVE, "--on", "h100,l4,l40s", "--by", "cost_usd_per_million_output_tokens")
    costs = [row["figures"]["cost_usd_per_million_output_tokens"]["value"] for row in made["rows"]]
    assert costs == sorted(costs)
    said = call(*SERVE, "--on", "h100,l4", "--by", "cost")
    assert said.code == 2
    assert "no answer has such a figure" in said.err
    assert "cost_usd_per_million_output_tokens" in said.err


def test_what_cannot_be_asked_hides_nothing(call: Call) -> None:
    words = ("compare", "train", "llama-3.1-8b", "--on", "8xh100", "--tp", "1,3")
    said = call(*words)
    assert said.code == 0, said.err
    assert "No answer\n  tp 3: tp 3 does not divide the 8 accelerators" in said.out
    rows = document(call, *words)["rows"]
    assert [row["answered"] for row in rows] == [True, False]
    assert call("compare", "train", "llama-3.1-8b", "--on", "8xh100", "--tp", "3,5").code == 2
    assert call(*SERVE, "--on", "h100,h1000").code == 5


def test_terms_models_and_switches_are_options_too(call: Call) -> None:
    made = document(
        call, *SERVE, "qwen3-14b", "--on", "h100", "--set", "hw.hbm_bandwidth=3 TB/s", "--set", "hw.hbm_bandwidth=4 TB/s"
    )
    assert {row["name"] for row in made["rows"]} == {
        f"{model}, hw.hbm_bandwidth {rate} TB/s" for model in ("llama-3.1-8b", "qwen3-14b") for rate in (3, 4)
    }
    made = document(call, "compare", "train", "llama-3.1-8b", "--on", "8xh100", "--graphs", "--no-graphs")
    assert [row["changed"]["graphs"] for row in made["rows"]] in (["true", "false"], ["false", "true"])


def test_rows_for_many_and_a_spreadsheet(call: Call) -> None:
    words = (*SERVE, "--on", "h100,l40s", "--weights", "bf16,fp8", "--batch", "1,8")
    page = call(*words, "--full").out
    assert page.count("  fits ") == 8
    assert "more figures with --csv and --json" in page
    assert max(map(len, page.splitlines())) <= 80
    rows = list(csv.DictReader(io.StringIO(call(*words, "--csv").out)))
    assert len({row["estimate"] for row in rows}) == 8
    assert {row["section"] for row in rows} >= {"verdict", "figure", "price"}
    assert call(*words, "--md").out.startswith("|  | h100, fp8, batch 8 |")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("serve llama-3.1-8b --on h100,l40s", ["tokens/s", "cost of 1M output tokens", "price kind", "Why behind h100"]),
        ("serve llama-3.1-8b --on h100,l40s --weights bf16,fp8 --batch 1,8,16,32", ["4 more answers", "Why behind h100, fp8"]),
        ("train llama-3.1-8b --on 8xh100,8xb200,tpu-v5e-64 --tokens 1T", ["relative", "Prices of one accelerator", "2.25 PFLOP/s"]),
        ("fit llama-3.1-405b --on l4,h100", ["none fits", "Why behind h100", "Differs"]),
        ("serve llama-3.1-8b --on l40s,m3-ultra,h1000 --batch 4", ["no price (m3-ultra)", "No answer"]),
    ],
)
def test_a_comparison_is_one_screen(call: Call, words: str, told: list[str]) -> None:
    said = call("compare", *words.split())
    lines = said.out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert [one for one in told if one not in said.out] == []
    assert re.findall(r"\b(?:hw|engine|plan)\.\w+|\b[a-z]+_[a-z]+_[a-z]+\b", said.out.replace("minimal_with_context", "")) == []
    whole = call("compare", *words.split(), "--full").out
    assert len(whole.splitlines()) > len(lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--on h100 --context 4,096", "--context 4,096 could be one number or several"),
        ("--on h100 --price 3,5", "--price 3,5 could be one number or several"),
        ("--on h100,,l4", "nothing stands between two commas"),
        ("--on h100 --weights bf16,fp9", "--weights fp9: no such choice"),
        ("--on h100", "a comparison wants two or more of something"),
        ("--on h100,l4 --emit compose", "--emit means nothing to a comparison"),
        ("--on h100,l4 --require fitz", "--require"),
        ("--on h100,l4 --by", "--by: which figure?"),
        ("--on h100 --on h100", "--on h100 is given twice"),
    ],
)
def test_what_is_no_comparison(call: Call, words: str, said: str) -> None:
    made = call("compare", "serve", "llama-3.1-8b", *words.split())
    assert made.code == 2
    assert said in made.err


@pytest.mark.parametrize(
    ("require", "code", "told"),
    [
        ("fits and tokens_per_s > 10", 0, []),
        ("fits and tokens_per_s > 1000", 4, ["l4: `fits and tokens_per_s > 1000` does not hold"]),
        ("ttft_p99_s < 1 s", 5, ["h100: whether", "l4: whether"]),
    ],
)
def test_an_assertion_must_hold_of_every_answer(call: Call, require: str, code: int, told: list[str]) -> None:
    made = call(*SERVE, "--on", "h100,l4", "--require", require)
    assert made.code == code, made.err
    assert made.err.count("error: ") == len(told)
    assert [one for one in told if one not in made.err] == []


def test_there_are_not_too_many() -> None:
    axes = [Axis.of("serve", "batch", range(1, 22)), Axis.of("serve", "prompt", range(1, 22))]
    with pytest.raises(gpuplan.UsageError, match="21 of batch x 21 of prompt are 441 questions: 400 at most"):
        variants({}, axes)
    assert len(variants({}, axes, most=441)) == 441


def test_python_takes_lists_of_anything() -> None:
    made = gpuplan.compare(gpuplan.fit, ["llama-3.1-8b", "qwen3-14b"], on="rtx-4090", weights=["bf16", "int4"])
    assert len(made) == 4
    assert made["llama-3.1-8b, int4"].fits
    assert not made["qwen3-14b, bf16"].fits
    assert made.to_dict()["schema"] == "gpuplan/comparison/1"
    assert made.winners[0].word == "most room"
    pinned = gpuplan.compare("fit", "llama-3.1-8b", on="h100", set={"hw.memory_capacity": ["40 GiB", "80 GiB"]})
    assert list(pinned) == ["hw.memory_capacity 80 GiB", "hw.memory_capacity 40 GiB"]
    assert by_key(ASKS["fit"])["weights"].kind == "word"


def test_all_that_are_equally_fast_are_named(call: Call) -> None:
    """Every machine carries a small rate: none of the three is ahead of the others."""
    said = call("compare", "serve", "llama-3.1-8b", "--on", "8xh100,8xh200,8xa100-sxm-80gb", "--rate", "1/s")
    first = said.out.splitlines()[0]
    assert first.startswith("equally fast: ")
    assert all(name in first for name in ("8xh100", "8xh200", "8xa100-sxm-80gb"))


def test_a_model_where_a_command_belongs_is_told_the_command(call: Call) -> None:
    said = call("compare", "llama-3.3-70b", "--on", "2xh200,4xl40s", "--rate", "1/s")
    assert said.code == 2
    assert "`gpuplan compare serve llama-3.3-70b --on 2xh200,4xl40s --rate 1/s`" in said.err


def test_readers_and_pictures_have_a_cheapest_and_a_fastest(call: Call) -> None:
    read = call("compare", "serve", "bge-m3", "--on", "l4,t4", "--rate", "40").out
    assert "cheapest: t4" in read
    assert "quickest: l4" in read
    drawn = " ".join(call("compare", "serve", "flux.1-dev", "--on", "4090,h100").out.split())
    assert drawn.startswith("fastest: h100")
    assert "cheapest: " in drawn
    assert "time for an image: denoise" in drawn
    assert "images per hour" in drawn
    assert "images/s" not in drawn  # the same once more


def test_where_one_answer_tells_no_percentiles_all_are_compared_by_means(call: Call) -> None:
    """An A100 that may not keep five requests a second has means alone, an H100 both."""
    said = call("compare", "serve", "llama-3.1-8b", "--on", "h100,a100", "--rate", "5").out
    assert re.search(r"^  TTFT +[\d.]+ ms \* +[\d.]+ ms \*$", said, re.MULTILINE)
    assert "p99" not in said
    assert "Empty cells" not in said
    assert "TTFT p99" in call("compare", "serve", "llama-3.1-8b", "--on", "h100,2xh100", "--rate", "5").out
