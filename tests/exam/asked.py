"""Answers of the real estimator: the exam asks `fit`, `serve` and `train` as the command line does, for a model on a machine.

Every number that an answer takes from a graph of terms is worked out again from the formulas of that graph, so that a formula that
is changed in production (or by the mutation test) changes the answer.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpuplan.cli.answer import estimate
from gpuplan.cli.nested_command import parsed_options
from gpuplan.estimate.result import Estimate
from gpuplan.term import Term

ROOTS: list[Term] = []
"""The terms that answers were read from since the list was cleared."""
_FOLDER = tempfile.TemporaryDirectory(prefix="gpuplan-exam-")


def read(term: Term | None) -> float:
    """The value of a term, worked out anew from the leaves of its graph."""
    assert term is not None
    ROOTS.append(term)
    return _worked_out(term, {})


def _worked_out(term: Term, done: dict[int, float]) -> float:
    if id(term) not in done:
        made = term.formula
        done[id(term)] = float(term.value if made is None else made.fn(**{key: _worked_out(part, done) for key, part in term.args}))
    return done[id(term)]


@cache
def asked(line: str) -> Estimate:
    """The estimate that answers a command line, without its advice being looked at."""
    task, *words = shlex.split(line)
    return estimate(task, parsed_options(task, words))


def term(line: str, name: str) -> float:
    """One term of the answer to a command line."""
    return read(asked(line).find(name))


@cache
def _config(**fields: Any) -> str:
    """The path of a config.json of Llama's form, as `fit` takes one in place of a card."""
    text = json.dumps({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5, "hidden_act": "silu",
        "tie_word_embeddings": False, **fields,
    })  # fmt: skip
    path = Path(_FOLDER.name) / f"{abs(hash(text)):x}" / "config.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def config(shape: Mapping[str, Any], tokens: int) -> str:
    """The config.json of a model of the shape that a question states, which takes so many tokens."""
    heads, kv_heads = shape.get("heads", shape["kv_heads"]), shape["kv_heads"]
    return _config(
        num_hidden_layers=shape["layers"], hidden_size=shape.get("d_model", heads * shape["head_dim"]),
        intermediate_size=shape.get("d_ff", 4 * heads * shape["head_dim"]), num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=shape["head_dim"], vocab_size=shape.get("vocab", 32000),
        max_position_embeddings=tokens,
    )  # fmt: skip


def kv_bytes(shape: Mapping[str, Any], element: str, tokens: int) -> float:
    """What `fit` says that one sequence of so many tokens takes of the cache."""
    return card_kv_bytes(config(shape, tokens), tokens, element)


def card_kv_bytes(model: str, tokens: int, element: str = "bf16") -> float:
    """The same for a model with a card or a config.json."""
    line = f"fit {model} --on b300 --tp 1 --pp 1 --context {tokens} --batch 1 --kv-cache {element}"
    return term(line, "kv_cache_bytes_per_sequence")


def cache_read(shape: Mapping[str, Any], on: str, chips: int, element: str, tokens: int, batch: int) -> float:
    """What `serve` says that all chips read of the caches in a decode step that sees so many tokens of each sequence."""
    line = f"serve {config(shape, 2 * tokens)} --on {chips}x{on} --weights {element} --kv-cache {element} --tp {chips}"
    return chips * term(f"{line} --batch {batch} --prompt {tokens - 1} --output 2", "decode.cache_read")


def fits(line: str) -> bool:
    """Whether a question is answered with yes."""
    return asked(line).verdict.fits
