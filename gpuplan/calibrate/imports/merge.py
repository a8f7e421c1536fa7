"""How do imported measurements become kernel parameters in a measured file, so that nothing that was measured before is lost?

Imported points are fitted together with all that were imported before and with what `gpuplan calibrate` measured of the same
kernels. Whatever they do not determine stays at its present value; every other set of the file stays untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuplan.calibrate import measured_file
from gpuplan.calibrate.fit import FitResult, Parameter
from gpuplan.calibrate.gate import doubts
from gpuplan.calibrate.imports.points import KeptPoint
from gpuplan.calibrate.knobs import COLLECTIVE_KNOBS
from gpuplan.calibrate.measure.cases import FABRIC, FitBasis
from gpuplan.calibrate.measure.measured_subject import MeasuredSubject, ground_of
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.sample_fits import FEWEST, NEARER, SampleFits, fit_samples
from gpuplan.calibrate.possible import too_fast
from gpuplan.errors import Problem, UsageError
from gpuplan.machine import overlay
from gpuplan.physics import SHARE, above
from gpuplan.schema import read
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import Fabric, Measured
from gpuplan.strict_yaml import load_yaml, parse_yaml
from gpuplan.term import Term
from gpuplan.units import human

PRESENT = "present"
"""The source of values that were there before and that an import had to repeat."""


NETWORK = "fabric-network"
"""The measured file that describes networks of which nothing better is known."""


@dataclass(frozen=True)
class ImportedFile:
    """What is imported, from where and when."""

    kind: str
    file: str
    today: str
    version: str
    software: str
    rows: int
    rates: Mapping[str, float]


@dataclass(frozen=True)
class MergedMeasurement:
    """The new text of a measured file, and what changed in it."""

    text: str
    """Nothing: the present parameters meet the rows as well as any, and stay."""
    sets: Mapping[str, FitResult]
    rates: Mapping[str, float]
    """Shares of the link's rate, by their place in the file."""
    unfitted: Mapping[str, str]


def merge(
    subject: MeasuredSubject,
    out: Path,
    made: ImportedFile,
    points: Sequence[KeptPoint],
    measured: Sequence[Sample],
    catalog: Catalog,
    on: str = "",
) -> MergedMeasurement:
    """Fit the points and put what comes of it into the measured file of an accelerator.

    `points` are all that belong to the kernels that were imported, old and new; `measured` what was measured of them here; `on`
    the machines that several accelerators are in.

    Raises:
        UsageError: nothing comes of it; why is told for every set.
        SpecError: the measured file that is there is wrong.
        UnknownError: nothing is on record of the accelerator's family.
    """
    samples = [*measured, *(point.sample() for point in points)]
    before = catalog.read(Measured, out) if out.is_file() else None
    chain = overlay.chain_of(catalog, subject.id, subject.family, before)
    ground = _ground(subject, samples, catalog, chain, on)
    _refuse_impossible(points, made, ground)
    fits = fit_samples(samples, ground, made.software) if samples else SampleFits()
    unfitted = dict(fits.unfitted)
    tree: dict[str, Any] = _plain(load_yaml(out)[0]) if before is not None else _new(subject, out, made)
    key = _source(tree, made)
    for place, one in list(fits.sets.items()):
        if why := "; ".join(doubts(one)):
            unfitted[place] = f"not believed: {why}"
            del fits.sets[place]
    sets = _fabric(tree, fits, chain, unfitted, catalog)
    for place, one in sets.items():
        _put(tree, place, _set(one, key))
    rates = _rates(tree, made, ground, key, unfitted)
    if not sets and not rates and unfitted and all(NEARER in why for why in unfitted.values()):
        return MergedMeasurement("", {}, {}, {place: why.replace("the family's", "the present") for place, why in unfitted.items()})
    if not sets and not rates:
        why = "; ".join(f"{place}: {reason}" for place, reason in unfitted.items()) or "no kind of it has parameters"
        hint = f"import more shapes: a set of parameters needs {FEWEST} rows of 2 shapes or more"
        raise UsageError(Problem("import.nothing", f"no parameters come of it: {why}", hint, made.file))
    _residuals(tree, fits, sets, key)
    _say(tree, made, [*sets, *rates])
    return MergedMeasurement(_text(tree, out), sets, rates, unfitted)


def with_serving(
    subject: MeasuredSubject, out: Path, made: ImportedFile, engine: str, model: str, section: Callable[[str], Mapping[str, Any]]
) -> str:  # fmt: skip
    """The text of an accelerator's measured file with what runs of a model in an engine tell; `section` makes it of its source.

    Raises:
        SpecError: the measured file that is there is wrong.
    """
    tree: dict[str, Any] = _plain(load_yaml(out)[0]) if out.is_file() else _new(subject, out, made)
    key = _source(tree, made)
    tree.setdefault("serving", {}).setdefault(engine, {})[model] = dict(section(key))
    _say(tree, made, [f"serving.{engine}.{model}"])
    return _text(tree, out)


def _refuse_impossible(points: Sequence[KeptPoint], made: ImportedFile, ground: FitBasis) -> None:
    """Take nothing of a file in which anything is faster than the hardware can be.

    Raises:
        UsageError: naming the first of each kind of kernel.
    """
    wrong: dict[str, Problem] = {}
    hint = "is it of another accelerator (--accelerator), of another data type (--dtype), or in another unit?"
    for point in points:
        why = too_fast(point.probe, point.seconds, ground)
        if why:
            where = f"{point.file}:{point.line}" if point.line else point.file
            wrong.setdefault(point.probe.name or point.probe.kind, Problem("import.too-fast", why, hint, where))
    ways = {"host_to_device": "to the accelerator", "device_to_host": "to the host"}
    for way, rate in made.rates.items():
        if ground.host is not None and above(rate, ground.host):
            why = f"{human(rate, 'B/s')} {ways[way]} is above what the link carries, {human(ground.host, 'B/s')}"
            wrong[way] = Problem("import.too-fast", why, hint, made.file)
    if wrong:
        raise UsageError(*wrong.values())


def _ground(
    subject: MeasuredSubject, samples: Sequence[Sample], catalog: Catalog, chain: Sequence[overlay.Link], on: str
) -> FitBasis:
    """What the fits take as given; where they determine nothing, the present values count."""
    ground = ground_of(subject, samples, catalog, on)
    dtypes = tuple(one for one in ground.peaks if one in overlay.MATMUL_LIKE)
    present: dict[str, Term] = {
        **overlay.matmul_terms(chain, dtypes, None)[0],
        **overlay.grouped_terms(chain, dtypes, None),
        **overlay.attention_terms(chain, dtypes, None),
        **overlay.single_terms(chain),
    }
    wires = _present(chain, "collective", catalog)
    inside = {} if wires is None else {kind: _numbers(fit) for kind in FABRIC if (fit := getattr(wires, kind)) is not None}
    return replace(ground, family=present, inside=inside)


def _present(chain: Sequence[overlay.Link], link: str, catalog: Catalog) -> Fabric | None:
    """The collectives that count now on the links or the network of an accelerator."""
    found: Fabric | None = next((one for each in chain if (one := getattr(each.file, link)) is not None), None)
    if found is None and link == "network" and NETWORK in catalog.paths("measured"):
        return catalog.read(Measured, catalog.paths("measured")[NETWORK]).collective
    return found


def _numbers(fit: Any) -> dict[str, float]:
    """The parameters of a collective as plain numbers."""
    return {name: float(getattr(fit, name).value) for name in (*COLLECTIVE_KNOBS, "ranks")}


def _new(subject: MeasuredSubject, out: Path, made: ImportedFile) -> dict[str, Any]:
    """A measured file without parameters. Its machine says that it adds to what is shipped."""
    return {
        "format": 1, "id": out.stem, "name": subject.name, "describes": "accelerator", "measured": made.today,
        **({"units": subject.units} if subject.units else {}), "sources": {}, "software": [],
        "machine": {
            "device": subject.name, "backend": "import", "gpuplan": made.version, "extent": "import", "date": made.today,
            "duration": "0 s", "probes": made.rows or len(made.rates),
        },
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """Data of the strict reader as the writer takes it."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


def _source(tree: dict[str, Any], made: ImportedFile) -> str:
    """The key of the import's source, which is put behind those that are there."""
    sources = tree.setdefault("sources", {})
    title = f"{made.kind}: {made.file}"
    key = next((name for name, source in sources.items() if source.get("title") == title), "")
    key = key or next(name for number in range(1, 10_000) if (name := f"import-{number}") not in sources)
    note = f"{made.rows} kernels" if made.rows else f"{len(made.rates)} rates"
    sources[key] = {"title": title, "checked": made.today, "kind": "measured", "note": f"{note}, {made.software}"}
    return str(key)


def _set(one: FitResult, key: str) -> dict[str, Any]:
    values: dict[str, Any] = {"source": key}
    for name, value in one.values.items():
        if name == "ranks":
            values[name] = round(value.value)
        elif value.low is None:
            values[name] = _kept(value)
        else:
            values[name] = measured_file.ranged(value)
    return {**values, "fit": measured_file.fit_record(one, digits=4)}


def _kept(value: Parameter) -> dict[str, Any]:
    """A value that stays as it was before the import."""
    return {**measured_file.ranged(replace(value, low=None, high=None)), "source": PRESENT}


def _fabric(
    tree: dict[str, Any], fits: SampleFits, chain: Sequence[overlay.Link], unfitted: dict[str, str], catalog: Catalog
) -> dict[str, FitResult]:
    """The sets to write. A measured file tells all collectives or none, so those that are missing are repeated from the present."""
    sets = dict(fits.sets)
    for link in ("collective", "network"):
        wires = {place: one for place, one in sets.items() if place.startswith(f"{link}.")}
        have = {place.partition(".")[2] for place in wires} | set(tree.get(link, {}))
        missing = [kind for kind in FABRIC if kind not in have]
        if not wires or not missing:
            continue
        present = _present(chain, link, catalog)
        for kind in missing if present is not None else ():
            units = {**{name: knob.unit for name, knob in COLLECTIVE_KNOBS.items()}, "ranks": "1"}
            numbers = _numbers(getattr(present, kind))
            values = {name: Parameter(numbers[name], unit, why="not imported") for name, unit in units.items()}
            tree.setdefault(link, {})[kind] = {name: _kept(value) for name, value in values.items()}
        if present is None:
            for place in wires:
                unfitted[place] = f"nothing is known of {', '.join(missing)} here: import these as well"
                del sets[place]
    return sets


def _rates(tree: dict[str, Any], made: ImportedFile, ground: FitBasis, key: str, unfitted: dict[str, str]) -> dict[str, float]:
    """Shares of the host link's rate that copies reach; the time to start one stays as it is."""
    if not made.rates:
        return {}
    if ground.host is None:
        unfitted["host"] = "no spec says what the link to the host carries"
        return {}
    shares = {
        name: min(made.rates[way] / ground.host, SHARE.high)
        for way, name in (("host_to_device", "efficiency"), ("device_to_host", "back"))
        if way in made.rates
    }
    present = ground.parameters("host")
    host = tree.setdefault("host", {})
    for name in ("efficiency", "launch"):
        if name not in host and name not in shares:
            if name not in present:
                unfitted["host"] = f"nothing is known of `{name}` yet: run `gpuplan calibrate` for it"
                del tree["host"]
                return {}
            host[name] = _kept(Parameter(*present[name], why="not imported"))
    for name, share in shares.items():
        host[name] = {"value": float(f"{share:.4g}"), "source": key}
    return {f"host.{name}": share for name, share in shares.items()}


def _put(tree: dict[str, Any], place: str, values: Mapping[str, Any]) -> None:
    at = tree
    *path, last = place.split(".")
    for part in path:
        at = at.setdefault(part, {})
    at[last] = dict(values)


def _residuals(tree: dict[str, Any], fits: SampleFits, sets: Mapping[str, FitResult], key: str) -> None:
    """Ranges of the kinds that were fitted; where the file has other sets of the kind, no narrower than before."""
    told = tree.get("residual", {})
    for kind, (least, _, most) in fits.ranges().items():
        if kind not in measured_file.RESIDUALS or not any(one.residual == kind for one in sets.values()):
            continue
        old = told.get(kind)
        low = least if old is None else min(least, _number(old["low"]))
        high = most if old is None else max(most, _number(old["high"]))
        told[kind] = {"source": key, "low": round(low, 3), "high": round(high, 3)}
    if told:
        tree.pop("residual", None)
        tree["residual"] = told


def _number(value: Any) -> float:
    return float(value["value"] if isinstance(value, Mapping) else value)


def _say(tree: dict[str, Any], made: ImportedFile, places: Sequence[str]) -> None:
    """Which import changed what; values that were kept get a source."""
    software = [*tree.get("software", []), made.software]
    tree["software"] = list(dict.fromkeys(one for one in software if one))
    text = f"{made.today}: {made.kind} {made.file} imported: {', '.join(places)}"
    machine = tree.get("machine")
    if machine is not None:
        machine["warnings"] = [*(one for one in machine.get("warnings", []) if one != text), text]
    else:
        tree["notes"] = [*(one for one in tree.get("notes", []) if one != text), text]
    if PRESENT in str(tree):
        tree["sources"].setdefault(
            PRESENT, {"title": "the value before an import that did not determine it", "checked": made.today, "kind": "assumed"}
        )


def _text(tree: dict[str, Any], out: Path) -> str:
    """The file, which is read once before anybody relies on it."""
    if isinstance(tree.get("machine"), dict):
        tree["machine"].pop("checksum", None)
    text = measured_file.with_checksum(tree)
    read(Measured, *parse_yaml(text, str(out)))
    return text


def with_earlier(text: str, out: Path) -> str:
    """The text of a fresh measured file with the sets of the file in its place that it does not tell of itself.

    So neither imports nor an earlier calibration of other kinds of kernels are lost. Files that a human wrote are not looked at.

    Raises:
        SpecError: the file that is there is wrong.
    """
    if not out.is_file():
        return text
    old, tree = _plain(load_yaml(out)[0]), _plain(parse_yaml(text, str(out))[0])
    if "machine" not in old:
        return text
    there, same = set(_places(tree)), _is_of_here(old, tree)
    more = [place for place in _places(old) if place not in there]
    taken = [place for place in more if same or str(_at(old, place).get("source", "")).startswith("import")]
    if len(taken) < len(more):
        lost = ", ".join(place for place in more if place not in taken)
        told = f"not kept, since it was measured on another device or in another state: {lost}"
        tree["machine"]["warnings"] = [*tree["machine"].get("warnings", []), told]
    for place in taken:
        _put(tree, place, _renamed(_at(old, place)))
    if "serving" in old:
        tree["serving"] = old["serving"]
        taken.append("serving")
    if not more and not taken:
        return text
    doubts = [f"{EARLIER}: {why.removeprefix(f'{EARLIER}: ')}" for why in old["machine"].get("only_here", [])] if same else []
    if doubts and taken:
        tree["machine"]["only_here"] = [*tree["machine"].get("only_here", []), *doubts]
    sources = {EARLIER if key == measured_file.HERE else key: one for key, one in old["sources"].items()}
    tree["sources"] = {**tree["sources"], **{key: one for key, one in sources.items() if key not in tree["sources"]}}
    if taken:
        told = f"kept from the file before: {', '.join(taken)}"
        tree["machine"]["warnings"] = [*tree["machine"].get("warnings", []), told]
    residuals = {kind: _renamed(one) for kind, one in old.get("residual", {}).items() if kind not in tree.get("residual", {})}
    if residuals and (same or taken):
        tree["residual"] = {**tree.pop("residual", {}), **residuals}
    return _text(tree, out)


STATE = ("host", "uuid", "power_limit", "threads")
"""What makes a machine the same in the same state, of which figures may stand beside each other."""


def _is_of_here(old: Mapping[str, Any], tree: Mapping[str, Any]) -> bool:
    """Whether what an earlier file tells is of the machine that was measured now, in the same state, or of an import."""
    then, now = old["machine"], tree["machine"]
    return "host" not in then or all(str(then.get(name, "")) == str(now.get(name, "")) for name in STATE)


EARLIER = "earlier"
"""The source of what an earlier calibration measured."""


def _places(tree: Mapping[str, Any]) -> list[str]:
    """Where the sets of parameters stand in a file."""
    found = [f"{section}.{dtype}" for section in ("matmul", "grouped") for dtype in tree.get(section, {})]
    attention = tree.get("attention", {})
    found += [f"attention.{kind}.{dtype}" for kind in ("prefill", "decode", "latent") for dtype in attention.get(kind, {})]
    return [*found, *(name for name in ("stream", "host", "launch") if name in tree), *_wires(tree)]


def _wires(tree: Mapping[str, Any]) -> list[str]:
    return [f"{link}.{kind}" for link in ("collective", "network") for kind in tree.get(link, {})]


def _at(tree: Mapping[str, Any], place: str) -> dict[str, Any]:
    made: Any = tree
    for part in place.split("."):
        made = made[part]
    return dict(made) if not isinstance(made, dict) else made


def _renamed(section: Mapping[str, Any]) -> dict[str, Any]:
    """A section of an earlier file, in which what was measured then does not count as measured now."""
    return {
        key: EARLIER
        if key == "source" and value == measured_file.HERE
        else _renamed(value)
        if isinstance(value, Mapping)
        else value
        for key, value in section.items()
    }
