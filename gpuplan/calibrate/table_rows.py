"""Which measured kernels does a folder of CSV files hold, as work items with their measured seconds?

The columns are those of the op tables of ai-dynamo/aiconfigurator (https://github.com/ai-dynamo/aiconfigurator,
aic-core/src/aiconfigurator_core/systems/data), saved as `<system>-<table>.csv`: latency in milliseconds, message sizes in
elements. A folder may hold whole tables or samples of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.errors import Problem, UsageError, install
from gpuplan.files.csv_text import rows_of
from gpuplan.files.read import TABLE_BYTES, bytes_of, text_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_WINDOW = 1e9
"""Stands for a window where queries see all keys."""
ELEMENT_BYTES = {"half": 2.0, "int8": 1.0, "bfloat16": 2.0}


@dataclass(frozen=True)
class Rows:
    """Columns of measured work and the seconds that each row took; `held_back` marks the shapes that no fit may see."""

    columns: Mapping[str, NDArray[np.float64]]
    seconds: NDArray[np.float64]
    held_back: NDArray[np.bool_]
    software: str

    def __len__(self) -> int:
        """How many rows."""
        return len(self.seconds)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows that a mask picks."""
        return Rows({key: col[mask] for key, col in self.columns.items()}, self.seconds[mask], self.held_back[mask], self.software)


class TableRow(dict[str, str]):
    """One row of a table by its columns, which knows where it stands."""

    where = ""

    def __missing__(self, key: str) -> str:
        """There is no such column."""
        hint = "is it a table of this kind, of a newer version of the package?"
        raise UsageError(Problem("calibrate.no-column", f"the table has no column `{key}`", hint, self.where))

    def number(self, key: str) -> float:
        """A cell as a number, in its table's unit; nothing is 0.

        Raises:
            UsageError: it is no finite number.
        """
        try:
            if isfinite(value := float(self[key] or 0)):
                return value
        except ValueError:
            pass
        raise UsageError(Problem("calibrate.bad-cell", f"{key}: `{self[key]}` is no number", "give the table whole", self.where))


MOST_ROWS = 60_000
"""So many rows of a table are enough where all of them are of one kind."""


def table(folder: Path, system: str, name: str, *, fullest: bool = False, most: int = MOST_ROWS) -> list[TableRow]:
    """The rows of one table, as text: of a CSV file, or of the tables of an installed `aiconfigurator-core` by their folder.

    Of each framework of a package the newest version counts; `fullest`: the newest of those that hold half as many rows as any,
    whole. Otherwise `most` rows of a package are taken at most, evenly spread.

    Raises:
        UsageError: the table does not exist or is empty, or the reader of its format is not installed.
    """
    if (folder / system).is_dir():
        return _of_package(folder / system, name, fullest=fullest, most=most)
    path = folder / f"{system}-{name}.csv"
    if not path.is_file():
        hint = "give the folder with the measured tables, named <system>-<table>.csv"
        raise UsageError(Problem("calibrate.no-table", f"there is no `{path.name}` in {folder}", hint, str(path)))
    lines = rows_of(text_of(path, most=TABLE_BYTES, code="calibrate"), str(path), code="calibrate")
    _, heads = next(lines, (0, []))
    rows = []
    for number, cells in lines:
        if len(cells) != len(heads):
            what = f"the row has {len(cells)} cells, and the head {len(heads)}"
            raise UsageError(Problem("calibrate.bad-row", what, "give the table whole", f"{path}:{number}"))
        row = TableRow(zip(heads, cells, strict=True))
        row.where = f"{path}:{number}"
        rows.append(row)
    if not rows:
        raise UsageError(Problem("calibrate.empty-table", f"`{path.name}` has no rows", where=str(path)))
    return rows


def _of_package(place: Path, name: str, *, fullest: bool, most: int) -> list[TableRow]:
    """The rows of a table in `<family>/<framework>/<version>/<name>_perf.parquet`, of one version of each framework."""
    found: dict[str, list[Path]] = {}
    for path in place.glob(f"*/*/*/{name}_perf.parquet"):
        found.setdefault(path.parts[-3], []).append(path)
    if not found:
        hint = "name the folder `systems/data` of the package"
        raise UsageError(Problem("calibrate.no-table", f"there is no `{name}` table in {place}", hint, str(place)))
    try:
        from pyarrow import parquet
    except ImportError:
        hint = f"{install('tables')} brings it"
        raise UsageError(Problem("calibrate.no-parquet", "reading parquet tables needs pyarrow", hint)) from None
    newest: dict[str, Path] = {}
    for framework, paths in found.items():
        counts = {path: parquet.read_metadata(_bytes(path)).num_rows if fullest else 1 for path in paths}
        enough = [path for path in paths if 2 * counts[path] >= max(counts.values())]
        newest[framework] = max(enough, key=lambda path: _version(path.parts[-2]))
    rows: list[TableRow] = []
    for path in newest.values():
        columns = parquet.read_table(_bytes(path)).to_pydict()
        count = len(next(iter(columns.values()), ()))
        step = 1.0 if fullest else max(count * len(newest) / most, 1.0)
        picked = [int(at * step) for at in range(int(count / step))]
        texts = {key: ["" if values[at] is None else str(values[at]) for at in picked] for key, values in columns.items()}
        rows += [TableRow(zip(texts, row, strict=True)) for row in zip(*texts.values(), strict=True)]
        for row in rows:
            row.where = row.where or str(path)
    return rows


def _bytes(path: Path) -> BytesIO:
    return BytesIO(bytes_of(path, most=TABLE_BYTES, code="calibrate"))


def matmul_rows(rows: Iterable[TableRow], dtype: str, backends: Sequence[str]) -> Rows:
    """Matmuls of one data type (as the table names it) by the frameworks named; the weight shape decides what is held back."""
    picked = [row for row in rows if row["gemm_dtype"] == dtype and row["framework"] in backends]
    cols = {key: numbers(picked, key) for key in ("m", "n", "k")}
    return _made(picked, cols, ("n", "k"))


LATENT, NOPE, VALUE = 512.0, 128.0, 128.0
"""The widths of DeepSeek-V3's attention (arXiv 2412.19437, 4.2), of which all rows of MLA are."""


ABSORBED = ("flash_attention", "triton")
"""Kernels of SGLang that the table of prompts times over the latent itself (601 TFLOP/s on H100 so, 177 over what is widened)."""


def head_product_rows(rows: Iterable[TableRow], dtype: str, framework: str) -> Rows:
    """Products of each head into the latent of MLA (`mla_gen_pre`) and out of it; the heads and the direction are held back."""
    picked = [row for row in rows if row["bmm_dtype"] == dtype and row["framework"] == framework]
    into = np.array([row["op_name"] == "mla_gen_pre" for row in picked], dtype=bool)
    cols = {
        "m": numbers(picked, "num_tokens"), "n": np.where(into, LATENT, VALUE), "k": np.where(into, NOPE, LATENT),
        "batch": numbers(picked, "num_heads"),
    }  # fmt: skip
    return _made(picked, cols, ("n", "batch"))


def attention_rows(rows: Iterable[TableRow], dtype: str, stored: str, kernels: Sequence[str]) -> Rows:
    """Prefill or decode attention by the kernels named; heads and head dimension decide what is held back."""
    picked = [
        row for row in rows if row["attn_dtype"] == dtype and row["kv_cache_dtype"] == stored and row["kernel_source"] in kernels
    ]
    cols = {key: numbers(picked, name) for key, name in _ATTENTION.items()}
    windows = "window_size" in picked[0] if picked else False  # Older tables have no windows.
    cols["window"] = numbers(picked, "window_size") if windows else np.zeros(len(picked))
    cols["kv_heads"] = np.where(cols["kv_heads"] > 0, cols["kv_heads"], cols["heads"])
    cols["kv_len"] = cols["q_len"] + cols["cached"]
    cols["window"] = np.where(cols["window"] > 0, cols["window"], NO_WINDOW)
    return _made(picked, cols, ("heads", "kv_heads", "dim"))


_ATTENTION = {
    "sequences": "batch_size", "q_len": "isl", "cached": "step", "heads": "num_heads", "kv_heads": "num_key_value_heads",
    "dim": "head_dim",
}  # fmt: skip


def encoder_rows(rows: Iterable[TableRow], dtype: str, framework: str) -> Rows:
    """Attention without a mask by one framework; heads and head dimensions decide what is held back."""
    picked = [row for row in rows if row["attn_dtype"] == dtype and row["framework"] == framework]
    cols = {key: numbers(picked, _ATTENTION[key]) for key in ("sequences", "q_len", "heads", "dim")}
    return _made(picked, cols, ("heads", "dim"))


def widened_rows(rows: Iterable[TableRow], dtype: str, stored: str, framework: str) -> Rows:
    """Prefill over keys and values widened from MLA's latent by one framework; heads and sequences decide what is held back."""
    picked = [
        row for row in rows if row["mla_dtype"] == dtype and row["kv_cache_dtype"] == stored and row["framework"] == framework
    ]
    picked = [row for row in picked if row["kernel_source"] not in ABSORBED]
    cols = {key: numbers(picked, _ATTENTION[key]) for key in ("sequences", "q_len", "heads")}
    cols["kv_len"] = cols["q_len"] + numbers(picked, "step")
    return _made(picked, cols, ("sequences", "heads"))


def latent_rows(rows: Iterable[TableRow], stored: str, framework: str) -> Rows:
    """Decode over the latent of MLA (DeepSeek-V3: 512 + 64 wide) by one framework; heads and sequences decide what is held back."""
    picked = [row for row in rows if row["kv_cache_dtype"] == stored and row["framework"] == framework]
    cols = {key: numbers(picked, name) for key, name in (("sequences", "batch_size"), ("heads", "num_heads"))}
    cols["kv_len"] = numbers(picked, "isl") + numbers(picked, "step")
    return _made(picked, cols, ("sequences", "heads"))


def collective_rows(rows: Iterable[TableRow], kind: str) -> Rows:
    """Collectives of one kind as nccl-tests runs them; message size and ranks decide what is held back."""
    picked = [row for row in rows if row["op_name"] == kind]
    newest = max((_version(row["version"]) for row in picked), default=())
    picked = [row for row in picked if _version(row["version"]) == newest]
    element = np.array([_element(row) for row in picked])
    cols = {"size": numbers(picked, "message_size") * element, "group": numbers(picked, "num_gpus")}
    return _made(picked, cols, ("size", "group"))


def _element(row: TableRow) -> float:
    name = row["nccl_dtype"]
    if name not in ELEMENT_BYTES:
        hint = f"known are {', '.join(ELEMENT_BYTES)}"
        raise UsageError(Problem("calibrate.bad-cell", f"nccl_dtype: no data type is called `{name}`", hint, row.where))
    return ELEMENT_BYTES[name]


def own_all_reduce_rows(rows: Iterable[TableRow], kernels: tuple[str, ...], *, graphs: bool = True) -> Rows:
    """All-reduces of an engine in a graph, or called by itself, whose kernels' names begin so.

    Two message sizes in five are held back, in turn and others for each number of ranks: where an engine turns to the library
    is seen between neighbouring sizes.
    """
    picked = [row for row in rows if row["kernel_source"].startswith(kernels) and row["kernel_source"].endswith("eager") != graphs]
    newest = max((_version(row["version"]) for row in picked), default=())
    picked = [row for row in picked if _version(row["version"]) == newest]
    cols = {"size": numbers(picked, "message_size") * 2.0, "group": numbers(picked, "num_gpus")}
    found = _made(picked, cols, ("size", "group"))
    turn = np.round(np.log2(np.maximum(cols["size"], 1.0))) + 2 * np.round(np.log2(np.maximum(cols["group"], 1.0)))
    return replace(found, held_back=turn % 5 < 2)


def stream_rows(rows: Iterable[TableRow], kernel: str) -> Rows:
    """Memory-bound kernels of one kind from the layer tables of vidur (milliseconds, in steps of 1 us).

    `kernel`: `add` (residual), `mlp_act` (gated activation), `input_layernorm`, `attn_rope`. The model's width and its
    parallelism decide what is held back.
    """
    size: list[float] = []
    seconds: list[float] = []
    shape: list[float] = []
    for row in rows:
        tokens, width, inner, tp, heads, kv_heads = (
            row.number(key)
            for key in ("num_tokens", "n_embd", "n_expanded_embd", "num_tensor_parallel_workers", "n_head", "n_kv_head")
        )
        passes = {
            "add": 3 * width, "mlp_act": (3 if row["use_gated_mlp"] == "True" else 2) * inner / tp, "input_layernorm": 2 * width,
            "attn_rope": 2 * (heads + kv_heads) / tp * width / heads,
        }  # fmt: skip
        text = row.get(f"time_stats.{kernel}.median", "")
        if text:
            size.append(2.0 * tokens * passes[kernel])
            seconds.append(row.number(f"time_stats.{kernel}.median") * 1e-3)
            shape.append(width + inner * tp)
    cols = {"size": np.array(size), "shape": np.array(shape)}
    return Rows(cols, np.array(seconds), held_back([cols["shape"]]), f"vidur {kernel}")


def _made(picked: Sequence[TableRow], cols: dict[str, NDArray[np.float64]], shape: Sequence[str]) -> Rows:
    made = sorted({f"{row['framework']} {row['version']} {row['kernel_source']}" for row in picked})
    return Rows(cols, numbers(picked, "latency") * 1e-3, held_back([cols[key] for key in shape]), ", ".join(made))


def numbers(rows: Sequence[TableRow], key: str) -> NDArray[np.float64]:
    """A column as numbers, in its table's unit."""
    return np.array([row.number(key) for row in rows])


def held_back(keys: Sequence[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Two shapes in five, by a hash of the shape, so that all rows of a shape fall on one side."""
    mixed = np.zeros(len(keys[0]), dtype=np.uint64)
    for key in keys:
        mixed = (mixed * np.uint64(1_000_003) + key.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(20)) % np.uint64(5) < np.uint64(2)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))
