"""Which measured file gives each kernel parameter: the accelerator's own, its family's, or another data type's?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuplan.errors import Note, Problem, SpecError, UnknownError
from gpuplan.record import Record, replace
from gpuplan.schema import Schema
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import CollectiveFit, Fabric, Leaves, MatmulFit, Measured
from gpuplan.specs.measured_base import Residual
from gpuplan.specs.measured_machine import WRITTEN, MeasuredMachine
from gpuplan.specs.quantity import Sourced
from gpuplan.strict_yaml import read_text
from gpuplan.term import Term

MATMUL_LIKE: Mapping[str, tuple[str, ...]] = {
    "bf16": ("fp16",), "fp16": ("bf16",), "tf32": ("bf16", "fp16"), "fp32": ("bf16", "fp16"), "fp64": ("fp32", "bf16", "fp16"),
    "fp8": ("int8", "bf16"), "int8": ("fp8", "bf16", "fp16"), "fp4": ("fp8", "bf16"), "int4": ("int8", "fp8", "bf16", "fp16"),
}  # fmt: skip
"""Whose matmul parameters stand in for a data type that was not measured, nearest first."""
WEIGHT_ONLY = ("int8_wo", "int4_wo", "mxfp4_wo", "mxfp4_a8", "coded_wo")
KINDS_OF: Mapping[str, tuple[str, ...]] = {"fp8": ("fp8_block",), "bf16": WEIGHT_ONLY, "fp16": WEIGHT_ONLY}
"""Kinds of matmul beyond the plain one that a data type is multiplied in; nothing stands in for one that was not measured."""
TORCH_LINEAR = ("torch.nn.functional.linear", "torch_linear")
"""What published tables call PyTorch's own linear layer where an engine runs it."""
ON_EIGHT_BITS = "bf16_on_fp8"
"""16-bit queries over 8-bit keys and values, which some kernels convert on the way."""


USUAL = ("bf16", "fp16")
"""The types whose matmuls stand for those of a chip."""


class Link(Record):
    """A measured file in the order of its claim, and how much its residual ranges are widened."""

    file: Measured
    widen: float
    borrowed: bool


def drafted(catalog: Catalog, ident: str) -> bool:
    """Whether an earlier calibration wrote the spec of an accelerator, of which then nothing but what it measured is known."""
    path = catalog.paths("accelerators").get(ident)
    return path is not None and catalog.rank(path) > 0 and read_text(path).startswith(WRITTEN)


def withheld(machine: MeasuredMachine, catalog: Catalog, ident: str, *, local: bool) -> str:
    """Why what a calibration wrote does not count for a target; nothing where it does.

    It counts for the machine that it was made on (`local`), for accelerators that no datasheet describes, and, where it is asked
    for, for others too, unless it is true of that machine alone.
    """
    if local or drafted(catalog, ident):
        return ""
    if not catalog.calibrated:
        return "it was not asked for"
    return "; ".join(machine.only_here)


def chain_of(
    catalog: Catalog, ident: str, family: str, given: Measured | None, *, silicon: str | None = None, local: bool = False
) -> tuple[Link, ...]:  # fmt: skip
    """The files that may give parameters, nearest first: given, the accelerator's, its chip's, the family's; what each is like.

    What `gpuplan calibrate` wrote is one of them for `local` targets, and for others as `withheld` says.

    Raises:
        UnknownError: none of them exists.
        SpecError: a file is wrong, or files are like each other in a circle.
    """
    paths = catalog.paths("measured")
    first = [given] if given is not None else []
    for name in (ident, *([silicon] if silicon else []), family):
        for path in catalog.layers("measured", name):
            file = catalog.read(Measured, path)
            if file.machine is None:
                first.append(file)
                break  # What `gpuplan calibrate` wrote adds to what is shipped; what a human wrote replaces it.
            if not withheld(file.machine, catalog, ident, local=local):
                first.append(file)
    if not first:
        hint = "run `gpuplan calibrate` on the machine, or give a measured file with `like:` a similar accelerator"
        raise UnknownError(Problem("hw.not-measured", f"nothing is measured of {ident} or of its family `{family}`", hint, ident))
    links: list[Link] = []
    for start in first:
        file, widen, seen = start, 1.0, {start.id}
        borrowed = file is not given and file.id != ident
        links.append(Link(file, widen, borrowed))
        while file.like is not None:
            if file.like not in paths:
                raise SpecError(
                    Problem("spec.unknown-like", f"{file.id} is like `{file.like}`, which does not exist", where=file.id)
                )
            widen *= file.widen.value if file.widen is not None else 1.0
            file = catalog.read(Measured, paths[file.like])
            if file.id in seen:
                raise SpecError(Problem("spec.like-circle", f"{start.id} is like `{file.id}` in a circle", where=start.id))
            seen.add(file.id)
            links.append(Link(file, widen, True))
    if "generic" in paths:
        links.append(Link(catalog.read(Measured, paths["generic"]), 1.0, True))
    return tuple(links)


def lender(chain: Sequence[Link]) -> Link | None:
    """The file whose matmuls are a chip's: the nearest with some of 16 bits, else with any; None: no file has any."""
    some = [link for link in chain if link.file.matmul]
    return next((link for link in some if any(one in link.file.matmul for one in USUAL)), some[0] if some else None)


def of_its_time(chain: Sequence[Link], engine: str | None, then: str | None) -> tuple[Link, ...]:
    """The files with the kernels that an engine had under another name, in place of those of today where they hold them."""
    if engine is None or then is None:
        return tuple(chain)
    return tuple(
        link.replaced(file=link.file.replaced(engines={**link.file.engines, engine: link.file.engines[then]}))
        if then in link.file.engines
        else link
        for link in chain
    )


def terms_of(link: Link, prefix: str, fit: Schema, note: str = "") -> Iterator[tuple[str, Term]]:
    """Each number of a set of parameters as a term `hw.<prefix>.<key>`, by its dotted name without `hw.`."""
    told = f"measured on {link.file.name}" if link.borrowed else ""
    for key in fit.field_names():
        value = getattr(fit, key)
        if isinstance(value, Sourced):
            name = f"{prefix}.{key}"
            yield name, Term(f"hw.{name}", value.value, value.unit, link.file.source_of(value, told, note))


def matmul_terms(
    chain: Sequence[Link], dtypes: Sequence[str], engine: str | None, matmuls_of: Mapping[str, str] | None = None
) -> tuple[dict[str, Term], dict[str, Note]]:
    """The matmul parameters of each data type and kind, and notes on those that another data type or chip lends.

    `matmuls_of`: the engines whose matmuls of a kind stand for those of `engine`.
    """
    found: dict[str, Term] = {}
    notes: dict[str, Note] = {}
    others = {} if matmuls_of is None else matmuls_of
    for dtype in dtypes:
        for like in (dtype, *MATMUL_LIKE[dtype]):
            hit = _fit_of(chain, "matmul", like, others.get(like, engine))
            if hit is not None:
                told = "" if like == dtype else f"of {like} matmuls, since {dtype} was not measured"
                found |= dict(terms_of(hit[0], f"matmul.{dtype}", hit[1], told))
                if told:
                    text = f"no {dtype} matmuls were measured: the efficiencies of {like} are used"
                    notes[dtype] = Note("hw.dtype-not-measured", text, "run `gpuplan calibrate` on the machine")
                break
        for kind in KINDS_OF.get(dtype, ()):
            found |= _exactly(chain, "matmul", kind, others.get(kind, engine))
    return found, notes


def grouped_terms(
    chain: Sequence[Link], dtypes: Sequence[str], engine: str | None, *, fused: bool = True
) -> dict[str, Term]:  # fmt: skip
    """The parameters of matmuls over experts, of the data types and kinds for which they were measured.

    Not `fused`: those of the engine itself alone, also for narrower types than it has them of.
    """
    found: dict[str, Term] = {}
    own = [link for link in chain if engine in link.file.engines]
    for dtype in dtypes:
        for kind in (dtype, *KINDS_OF.get(dtype, ())):
            found |= _exactly(chain, "grouped", kind, engine) if fused else _own_grouped(own, kind, engine)
            found |= _variant(own, "grouped_few", kind, engine)
            # Whether layers without a gate run on another kernel is told by the file that tells of those with one.
            told = [link for link in own if engine is not None and kind in link.file.engines[engine].grouped]
            found |= _variant(told[:1], "grouped_ungated", kind, engine)
    return found


def batched_terms(chain: Sequence[Link], dtypes: Sequence[str], engine: str | None) -> dict[str, Term]:
    """The parameters of an engine's products by heads, of the data types and kinds for which they were measured."""
    own = [(link, link.file.engines[engine]) for link in chain if engine in link.file.engines] if engine else []
    found: dict[str, Term] = {}
    for kind in (kind for dtype in dtypes for kind in (dtype, *KINDS_OF.get(dtype, ()))):
        hit = _first(own, "batched", kind)
        found |= {} if hit is None else dict(terms_of(hit[0], f"batched.{kind}", hit[1]))
    return found


def _variant(own: Sequence[Link], section: str, kind: str, engine: str | None) -> dict[str, Term]:
    """The parameters of another kernel over experts of the engine: for few tokens, or for experts without a gate."""
    tables = [(link, link.file.engines[engine]) for link in own] if engine else []
    hit = _first(tables, section, kind)
    return dict(terms_of(hit[0], f"{section}.{kind}", hit[1])) if hit is not None else {}


def _own_grouped(own: Sequence[Link], kind: str, engine: str | None) -> dict[str, Term]:
    tables = [(link, link.file.engines[engine].grouped) for link in own] if engine else []
    for like in (kind, *MATMUL_LIKE.get(kind, ())):
        hit = next(((link, table[like]) for link, table in tables if like in table), None)
        if hit is not None:
            return dict(terms_of(hit[0], f"grouped.{kind}", hit[1]))
    return {}


def _exactly(chain: Sequence[Link], section: str, kind: str, engine: str | None) -> dict[str, Term]:
    hit = _fit_of(chain, section, kind, engine)
    return dict(terms_of(hit[0], f"{section}.{kind}", hit[1])) if hit is not None else {}


def _fit_of(chain: Sequence[Link], section: str, kind: str, engine: str | None) -> tuple[Link, MatmulFit] | None:
    """The nearest set of parameters of a kind of matmul: the engine's own before those of plain libraries.

    What an engine leaves to PyTorch is the very kernel that `gpuplan calibrate` times: then this machine's own figures count.
    """
    own = [(link, link.file.engines[engine]) for link in chain if engine in link.file.engines] if engine else []
    plain = [(link, link.file) for link in chain]
    first = _first(own, section, kind)
    if first is not None and section == "matmul" and _of_torch(first[1]):
        first = _first([(link, file) for link, file in plain if file.machine is not None], section, kind) or first
    return first or _first(plain, section, kind)


def _first(tables: Sequence[tuple[Link, Schema]], section: str, kind: str) -> tuple[Link, MatmulFit] | None:
    return next(((link, table[kind]) for link, fits in tables if kind in (table := getattr(fits, section))), None)


def _of_torch(fit: MatmulFit) -> bool:
    """Whether what was timed is PyTorch's own linear layer, by the name that the tables have for it."""
    timed = fit.fit.backend if fit.fit is not None else ""
    return any(name in timed for name in TORCH_LINEAR)


def attention_terms(chain: Sequence[Link], dtypes: Sequence[str], engine: str | None) -> dict[str, Term]:
    """The attention parameters: `prefill.<kind>`, `decode.<stored>`, the same `_beyond`, `latent.<stored>`, `backward_…`.

    What an engine's kernel leaves to another one of it counts where both are the engine's.
    """
    found: dict[str, Term] = {}
    plain = [(link, link.file.attention) for link in chain if link.file.attention is not None]
    own = [(link, link.file.engines[engine]) for link in chain if engine in link.file.engines] if engine else []
    for dtype in dtypes:
        likes = (dtype, *MATMUL_LIKE[dtype])
        found |= _attention_set((*own, *plain), "prefill", dtype, likes)
        found |= _attention_set(own, "encoder", dtype, (dtype,))
        if dtype == "bf16":
            found |= _attention_set(own, "prefill", ON_EIGHT_BITS, (ON_EIGHT_BITS,))
            found |= _attention_set(own, "widened", dtype, (dtype,))
            found |= _attention_set(own, "widened", ON_EIGHT_BITS, (ON_EIGHT_BITS,))
    for stored, likes in (("bf16", ("bf16",)), ("fp8", ("fp8", "bf16"))):
        found |= _attention_set((*own, *plain), "decode", stored, likes)
        found |= _attention_set((*own, *plain), "latent", stored, (stored,))
    for key in ("backward_share", "backward_extra"):
        told = next(((link, value) for link, fits in plain if (value := getattr(fits, key)) is not None), None)
        if told is not None:
            found[f"attention.{key}"] = told[0].file.term(f"hw.attention.{key}", told[1])
    return found


def _attention_set(
    tables: Sequence[tuple[Link, Schema]], section: str, kind: str, likes: Sequence[str]
) -> dict[str, Term]:  # fmt: skip
    """The parameters of one kind of attention, of the first data type and file that has them, and of the kernel beyond it."""
    for like in likes:
        for link, fits in tables:
            fit = getattr(fits, section).get(like)
            if fit is None:
                continue
            found = dict(terms_of(link, f"attention.{section}.{kind}", fit))
            beyond = getattr(fits, f"{section}_beyond", {}).get(like)
            if beyond is not None and fit.leaves is not None:
                found |= dict(terms_of(link, f"attention.{section}_beyond.{kind}", beyond))
                found |= _left_terms(link, f"attention.{section}.{kind}.leaves", fit.leaves)
            return found
    return {}


def _left_terms(link: Link, prefix: str, leaves: Leaves) -> dict[str, Term]:
    """What a kernel leaves, as terms: its bounds, one for each head dimension, and one where it is windows."""
    source = replace(link.file.source_of(leaves), note="a shape that another kernel takes")
    marks = [f"{prefix}.width_{width}" for width in leaves.widths] + ([f"{prefix}.windows"] if leaves.windows else [])
    return {**dict(terms_of(link, prefix, leaves)), **{name: Term(f"hw.{name}", 1.0, "1", source) for name in marks}}


def single_terms(chain: Sequence[Link], engine: str | None = None) -> dict[str, Term]:
    """Streams, scans, copies to and from the host, kernels' starts, and what collectives take from those beside them.

    Streams are the engine's own where a file has such.
    """
    found: dict[str, Term] = {}
    own = [(link, fits.stream) for link in chain if engine and (fits := link.file.engines.get(engine)) and fits.stream is not None]
    for section in ("stream", "scan", "host", "launch", "beside"):
        hit = next(((link, fit) for link in chain if (fit := getattr(link.file, section)) is not None), None)
        if hit is not None:
            found |= dict(terms_of(hit[0], section, hit[1]))
    return found | (dict(terms_of(own[0][0], "stream", own[0][1])) if own else {})


def fabric_terms(link: Link, level: str, fabric: Fabric, engine: str | None) -> dict[str, Term]:
    """The collective parameters of one level, `fabric.<level>.<kind>.<key>`, with the engine's own all-reduce where it has one."""
    found: dict[str, Term] = {}
    for kind in fabric.field_names():
        fit = getattr(fabric, kind)
        if kind == "custom_all_reduce":
            fit = fabric.engines.get(engine or "", fit)
        if isinstance(fit, CollectiveFit):
            found |= dict(terms_of(link, f"fabric.{level}.{kind}", fit))
            if fit.ring is not None:
                found |= dict(terms_of(link, f"fabric.{level}.{kind}.ring", fit.ring))
    return found


RESIDUALS: Mapping[str, str] = {
    "matmul": "matmul", "grouped": "matmul", "prefill": "attention", "decode": "attention", "stream": "stream",
    "all_reduce": "collective",
    "all_gather": "collective", "reduce_scatter": "collective", "all_to_all": "collective", "transfer": "collective",
}  # fmt: skip
"""The kinds of work whose residual has a term of its own, and the kind that speaks for each where it was not told apart."""


def kernel_residuals(chain: Sequence[Link], engine: str | None = None) -> dict[str, Term]:
    """The residual of each kind of kernel: 1, with the range of measured / predicted, widened where it was borrowed.

    Where an engine's own kernels have a range of their own, it counts.
    """
    found: dict[str, Term] = {}
    for kind, like in RESIDUALS.items():
        if like == "collective":
            continue
        if kind == "grouped":
            # What was measured here of single matmuls says nothing of the experts' kernels, whose parameters come from elsewhere.
            chain = [link for link in chain if link.file.machine is None or kind in link.file.residual] or chain
        own = (
            [link for link in chain if engine in link.file.engines and kind in link.file.engines[engine].residual] if engine else []
        )
        found |= _residual_term(kind, like, own or chain, least=True, engine=engine if own else None)
    return found


def fabric_residuals(fabrics: Sequence[Link]) -> dict[str, Term]:
    """The same of each kind of collective, in the widest range of the levels' own."""
    found: dict[str, Term] = {}
    for kind, like in RESIDUALS.items():
        if like == "collective":
            found |= _residual_term(kind, like, fabrics, least=False)
    return found


def _residual_term(
    kind: str, like: str, chain: Sequence[Link], *, least: bool, engine: str | None = None
) -> dict[str, Term]:  # fmt: skip
    """The residual by its name, of the nearest file (`least`) or of all; nothing where no file has one."""
    links = [(link, made) for link in chain if (made := _residual(link, kind, like, engine)) is not None]
    if not links:
        return {}
    low, high, link = 1.0, 1.0, links[0][0]
    for each, residual in links[:1] if least else links:
        low = min(low, residual.low.value**each.widen)
        high = max(high, residual.high.value**each.widen)
    told = "measured / predicted, 10th to 90th percentile"
    if link.borrowed:
        told += f", of {link.file.name}, to the power of {link.widen:g}"
    name = f"{kind}_residual"
    source = replace(link.file.source_of(links[0][1].low), note=told)
    return {name: Term(f"hw.{name}", 1.0, "1", source, spread=(low, high))}


def _residual(link: Link, kind: str, like: str, engine: str | None) -> Residual | None:
    held = link.file.residual if engine is None else link.file.engines[engine].residual
    told: Mapping[str, Residual] = {str(name): one for name, one in held.items()}
    return told.get(kind) or told.get(like)
