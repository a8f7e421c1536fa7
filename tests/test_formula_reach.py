"""Is every formula used: by an estimate or another command, or, of those for `gpuplan calc` alone, by a published worked example?

Reached is what stands in the graph of an answer, down to the formulas inside formulas: those of all golden scenarios, of all model
cards, and of the questions below, which ask for what no golden scenario does.
"""

from __future__ import annotations

import ast
import inspect
import shlex
import textwrap
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gpuplan.cli.answer import of_question
from gpuplan.cli.main import run
from gpuplan.cli.nested_command import parsed_options
from gpuplan.formulas import every_formula
from gpuplan.machine.price import attention_seconds, matmul_seconds
from gpuplan.models.architecture import Architecture
from gpuplan.models.catalog import cards, find
from gpuplan.models.count import count
from gpuplan.models.mixers import Mla
from gpuplan.plan.ask import TrainAsk
from gpuplan.render.formula import is_reference
from gpuplan.search.ask import answered
from gpuplan.search.training import settled
from gpuplan.term import Source, Term
from gpuplan.work import Attention, Matmul
from tests.estimate.subjects import found, library
from tests.formula_calls import recorded
from tests.golden.test_golden import SCENARIOS, options

TESTS = Path(__file__).parent
QUESTIONS = {
    "serve llama-3-8b --on 2xh100 --engine vllm@0.6.1 --prompt 1024 --output 100 --batch 64 --tp 2": "ranks that one of them tells",
    "serve qwen3-embedding-0.6b --on 2xl4 --rate 60 --pp 2": "requests that are read together where several wait",
    "train mixtral-8x7b --on 64xh100 --capacity-factor 0.5": "tokens that experts drop",
    "serve llama-3.1-8b --on dgx-h100 --own 300000 --own-use 0.3 --rate 5": "a month of a machine that is used in part",
    "serve bge-m3 --on l4 --concurrency 8": "users who are read by turns",
    "serve vit-l-16 --on l4 --rate 5": "pictures that come at a rate",
    "serve clip-vit-large-patch14 --on 2xl4 --engine sglang --tp 1 --pp 2 --dp 1 --images 1 --prompt 1"
    " --concurrency 8": "pictures before stages",
    "serve llama-4-scout --on 8xh100 --prompt 4000 --output 100 --batch 1": "new tokens that see their chunk",
    "serve deepseek-v4-flash --on 8xb200 --prompt 4096 --output 100 --batch 1": "tokens that are seen compressed",
    "serve llama-3.1-8b --on h100 --engine tensorrt-llm": "caches in a share of what is left free",
    "serve llama-3.1-8b --on h100 --engine sglang --concurrency 16 --prompt 1024 --output 128": "waves where prompts go first",
    "serve llama-3.1-8b --on h100 --engine tensorrt-llm --concurrency 16 --prompt 1024 --output 128": "whole prompts of a pass",
    "serve llama-3-8b --on rtx-4090 --engine exllama --weights int4 --prompt 1024 --batch 1": "weights written out in 16 bits",
    "serve qwen2.5-7b --on l4 --engine vllm --weights int4 --awq-kernels --batch 32 --prompt 128": "weights that blocks widen anew",
    "serve llama-3-8b --on h100 --engine vllm@0.6.1 --concurrency 64 --recv-interval 8 --prompt 215 --output 198":
        "a server in the engine's process, which has the tokens of several steps together",
    "serve llama-3-8b --on h100 --engine nim@1.0.3 --concurrency 5 --requests 50 --prompt 2000 --output 200":
        "the first of those that come back together",
    "serve mixtral-8x7b --on 2xh100 --engine tensorrt-llm@0.9 --weights fp8 --batch 8": "experts in kernels of the chips before",
    "serve mistral-7b --on 16xh100 --engine tensorrt-llm@0.8 --batch 8": "decode attention on vector units but for some shapes",
    "train llama-3.1-8b --on 8xh100 --engine nanotron@2024-07 --tp 2": "parts of inputs that other ranks gave, kept whole",
    "train llama-3.1-8b --on 8xh100 --margin 5%": "memory that is to stay free",
    "serve llama-3.1-8b --on h100 --arrival burst --requests 640 --output-spread 1 --prompt 200 --output 200":
        "the burst of a run whose answers are of unlike lengths",
    "serve llama-3.1-8b --on h100 --rate 20/s --requests 500 --prompt 1024 --output 256": "the median of a run at a rate",
    "train llama-3.1-8b --on rtx-4090 --engine trl --lora 16 --documents 200 --document-spread 0.7 --padded":
        "samples that are padded to the longest of a micro-batch",
    "train qwen3-8b --on 8xh100 --engine megatron-bridge-recipes@2026-07 --documents 380 --tp 4 --cp 2 --cp-kind ulysses"
    " --seq-len 32k --global-batch 8 --micro-batch 1": "packed documents that are turned and sliced one by one",
    "serve gemma-2-9b --on a100 --batch 8 --prompt 4096 --output 256": "windows whose keys are not divided over a chip",
    "serve falcon-h1-34b --on h200 --batch 4": "states of recurrent layers in a server",
    "fit gpt-oss-20b --on h100": "experts that kernels want padded",
    "fit qwen2.5-vl-3b --on h100 --images 2 --engine sglang": "images that pass the encoder together",
    "serve llama-3.1-70b --on 4xh100 --prefill-workers 1 --decode-workers 1 --concurrency 64 --requests 640":
        "the burst of a run whose prompts are read elsewhere",
    "serve llama-3.1-70b --on 4xh100 --prefill-workers 1 --decode-workers 1 --prefill-tp 2 --prefill-pp 2 --batch 8":
        "prompts that follow each other through stages",
    "serve llama-3.1-70b --on 4xh100 --prefill-workers 1 --decode-workers 1 --rate 2/s": "prompts in turn",
    "serve llama-3.1-8b --on h100 --engine sglang --rate 6/s --prompt 1024 --output 256": "percentiles where prompts go first",
    "serve qwen3-30b-a3b --on 2xdgx-a100-640gb --tp 1 --attention-dp 16 --ep 16 --rate 8/s": "ranks that wait for each other",
    "serve llama-3.1-8b --on 2xh100 --engine litgpt --tp 2 --batch 1": "collectives that no graph holds",
    "serve llama-3.1-70b --on 4xh100 --engine tensorrt-llm --pp 2 --tp 2 --batch 16": "stages that the host serves one by one",
    "serve --on 8xh200 --command 'trtllm-serve deepseek-v3 --tp_size 8 --enable_attention_dp'": "tokens gathered for experts",
    "serve qwen3-30b-a3b --on rtx-4090 --engine llama-cpp --host-experts 12": "experts in the memory of the host",
    "serve llama-3.1-8b --on rtx-4090 --engine llama-cpp --gpu-layers 20": "layers in the memory of the host",
    "serve qwen2.5-7b --on rtx-4090+rtx-3090 --weights q4_k_m": "layers that unlike accelerators share",
    "serve llama-3.1-8b --on h100 --engine vllm@0.7.2 --max-context 64k": "prompts that were read in chunks",
    "serve llama-3.1-8b --on h100 --cache-tokens 64k": "a cache of so many tokens",
    "serve llama-2-7b --on m1-max --weights q4_k_m --batch 1": "stored weights that take arithmetic to widen",
    "train mixtral-8x7b --on tpu-v6e-256 --engine maxtext --ep 8 --zero-stage 3": "products over groups of rows",
    "train qwen2.5-0.5b --on 6xh100 --rl grpo --rollout-gpus 2 --staleness 4": "batches of responses beside each other",
    "train mixtral-8x7b --on 8xdgx-h100 --engine kempnerforge": "experts padded to the fullest",
    "train llama-3.1-8b --on 8xh100 --engine kempnerforge --zero-stage 3 --pp 1 --micro-batch 1 --global-batch 64":
        "gradients summed whole over micro-batches",
    "train llama-3.1-8b --on 2xdgx-h100 --engine nanotron --zero-stage 1 --tp 1": "slices copied one by one",
    "train llama-3.1-8b --on 2xdgx-h100 --engine internevo --zero-stage 1": "tensors broadcast by their owners",
    "train llama-3.1-8b --on 8xa100 --engine accelerate --zero-stage 3 --offload optimizer": "a thread for each rank's states",
    "train llama-3.1-8b --on 2xa100 --engine paddlenlp --tp 2": "inputs of matrices copied by tensor parallel ranks",
    "train llama-3.1-8b --on 6xa800-sxm-80gb --engine internevo --pp 6 --tp 1": "layers left over on the last stages",
    "train llama-3.1-405b --on 65536xh100-sxm-80gb@roce-400": "more accelerators than a published run has",
    "train llama-3.1-8b --on rtx-pro-6000-ws-2 --lora 16": "a level whose bus bandwidth was measured",
    "train qwen3-0.6b --on 8xh100 --engine trl --cp 8 --seq-len 1024k --global-batch 1 --recompute full --offload activations"
    " --chunked-loss": "keys and values of all ranks beside sums of gradients",
    "train llama-3.1-8b --on 4xgh200": "a module's limit less what its processor draws",
}  # fmt: skip
"""Questions beyond the golden ones, and what each of them reaches."""


def in_graphs(roots: Iterable[Term]) -> set[str]:
    """The formulas that made any term below the roots."""
    names: set[str] = set()
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        term = todo.pop()
        if id(term) not in seen:
            seen.add(id(term))
            todo += [part for _, part in term.args]
            if term.formula is not None:
                names.add(term.formula.name)
    return names


@cache
def inside(name: str) -> set[str]:
    """The formulas that the text of a formula calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(every_formula()[name].fn)))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return called & every_formula().keys()


def with_what_they_call(names: set[str]) -> set[str]:
    """Formulas, the formulas inside them, and those inside these."""
    found: set[str] = set()
    todo = list(names & every_formula().keys())
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += inside(name)
    return found


@cache
def of_answer(line: str) -> frozenset[str]:
    """The formulas of the answer to a command line, or to a golden scenario; its advice is of the same ones."""
    if line in SCENARIOS:
        task, given = options(line)
    else:
        task, *words = shlex.split(line)
        given = parsed_options(task, words)
    made = answered(task, of_question(given), advise=False)
    return frozenset(in_graphs([*made.figures.values(), *(one.total for one in made.breakdowns)]))


def of_answers() -> set[str]:
    return set().union(*(of_answer(one) for one in (*SCENARIOS, *QUESTIONS)))


def of_cards() -> set[str]:
    """What counts the parameters of all cards, and of a config.json whose `attention_bias` is true, which no card's is."""
    source, names = Source("docs", "a card"), set()
    known = [card.architecture for card in cards() if card.architecture is not None]
    for arch in [*known, biased_latent_attention()]:
        made = count(arch, source)
        names |= in_graphs([made.params_total, made.params_active])
    return names


def biased_latent_attention() -> Architecture:
    """DeepSeek-V2-Lite, had it biases."""
    plain = find("deepseek-v2-lite").architecture
    assert plain is not None
    (stack,) = plain.stacks
    blocks = {}
    for key, block in stack.blocks.items():
        assert isinstance(block.mixer, Mla)
        blocks[key] = block.replaced(mixer=block.mixer.replaced(bias=True))
    return plain.replaced(stacks=(stack.replaced(blocks=blocks),))


def of_kernels() -> set[str]:
    """`gpuplan calibrate` prices a decode kernel that runs again and again on the same data, and what a processor copies.

    A grid has prompts short and long, and batches that fill a chip and others that leave it to another kernel.
    """
    hw, other = (found("llama-3.1-8b", "h100", engine).subject.hw for engine in ("vllm", "tensorrt-llm"))
    value = {"sequences": 16.0, "q_len": 1.0, "kv_len": 4096.0, "heads": 32.0, "kv_heads": 8.0, "k_dim": 128.0, "v_dim": 128.0}
    leaves = {name: Term(name, number, "1", Source("definition", "a kernel")) for name, number in value.items()}
    element = Term("element", 2.0, "B", Source("definition", "a kernel"))
    item = Attention(name="row", **leaves, kv_element_bytes=element, dtype="bf16", causal=True)
    prompts = Term("q_len", np.array([1.0, 4096.0]), "1", Source("definition", "two candidates"))
    batches = item.replaced(
        sequences=Term("sequences", np.array([[1.0], [16.0]]), "1", Source("definition", "two candidates")),
        kv_heads=Term("kv_heads", np.array([8.0, 32.0]), "1", Source("definition", "two candidates")),
        kv_len=Term("kv_len", 256.0, "1", Source("definition", "a kernel")),
    )
    many = (attention_seconds(item.replaced(q_len=prompts), hw), attention_seconds(batches, other))
    pack = {"matmul.bf16.pack": Term("matmul.bf16.pack", 1.0, "1", Source("measured", "a processor"))}
    sides = {name: Term(name, 64.0, "1", Source("definition", "a kernel")) for name in ("m", "n", "k", "batch")}
    product = Matmul(name="row", **sides, dtype="bf16", left_bytes=element, right_bytes=element, out_bytes=element)
    copied = matmul_seconds(product, hw.replaced(parameters={**hw.parameters, **pack}))
    return in_graphs([attention_seconds(item, hw, replayed=True), *many, copied])


def of_roofline() -> set[str]:
    """`gpuplan specs roofline` takes the ridge as a number, so that no graph has it."""
    with recorded() as called:
        assert run(["specs", "roofline", "h100-sxm-80gb", "--csv"]) == 0
    return called


def of_plans() -> set[str]:
    """`gpuplan plan` takes numbers where a question leaves out how long a run is, and for its bounds."""
    with recorded() as called:
        assert run(["plan", "train", "gpt2", "--on", "1xh100", "--price", "2", "--csv"]) == 0
    return called


def of_searches() -> set[str]:
    """Arrays of plans hold some with pipelines and split logits and some without, which no single plan does."""
    names: set[str] = set()
    for engine in ("kempnerforge", "torchtitan", "nemo"):
        with recorded() as called:
            settled(TrainAsk(model="qwen3-30b-a3b", on="16xh100", engine=engine), library(), with_price=False)
        names |= called
    return names


@pytest.mark.slow
@pytest.mark.long
def test_every_formula_is_reached_and_no_question_is_asked_in_vain() -> None:
    """One test, so that no other process answers all golden scenarios once more."""
    reached = with_what_they_call(of_answers() | of_cards() | of_kernels() | of_roofline() | of_plans() | of_searches())
    live = {name for name, made in every_formula().items() if not is_reference(made)}
    assert sorted(live - reached) == [], "no command uses these: use them, make them reference formulas with a case, or delete them"
    assert sorted(reached - live) == [], "an estimate uses reference formulas: they belong with the live ones"
    golden: set[str] = set().union(*(of_answer(one) for one in SCENARIOS))
    for line in QUESTIONS:
        assert of_answer(line) - golden, f"a golden scenario reaches all that this does: {line}"


@cache
def named_in_tests() -> dict[str, frozenset[str]]:
    """The names that each test file imports, but for those of the formulas themselves."""
    made = {}
    for path in TESTS.rglob("*.py"):
        if path.parent.name != "formulas" and path.name != Path(__file__).name:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            made[str(path.relative_to(TESTS))] = frozenset(names)
    return made


@pytest.mark.parametrize("name", sorted(name for name, made in every_formula().items() if is_reference(made)))
def test_a_reference_formula_answers_a_published_case(name: str) -> None:
    """The exam asks it, a test holds estimates against it, or one that is asked is made of it."""
    users = {name} | {other for other in every_formula() if name in inside(other) and is_reference(every_formula()[other])}
    assert [file for file, names in named_in_tests().items() if names & users], f"nothing asks {name}: delete it"
