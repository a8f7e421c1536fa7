"""Which rules are there, how grave is a breach of each, and what does it catch?"""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuplan.record import Record

Severity: TypeAlias = Literal["error", "warning"]


class CheckRule(Record):
    """A rule with its stable code, which `--select` and `--ignore` take."""

    code: str
    severity: Severity
    group: str
    catches: str


_TABLE: dict[str, tuple[str, ...]] = {
    "The file by itself": (
        "yaml E what is no YAML, holds a key twice, or is read by YAML otherwise than it looks (codes begin with `yaml.`)",
        "spec.missing-unit E a number without its unit, such as `3.35` or `80`",
        "spec.bad-unit E a unit that does not exist, such as `TFLOPS` or `Gbps`",
        "spec.wrong-unit E a unit of another kind, such as bytes where a rate belongs",
        "spec.bad-quantity E something other than a value with a unit",
        "spec.out-of-range E a value of zero, below zero, or infinite",
        "spec.physics E a value that physics rules out: a share above 1, a start of seconds, a 90th percentile below the median",
        "spec.not-whole E a fraction where things are counted",
        "spec.bad-accept E a range of accepted values that is no pair, or runs downwards",
        "spec.fill-in E a value `\"?\"` that a draft leaves to be filled in",
        "spec.unknown-key E a key that the schema does not know",
        "spec.missing-key E a key that the schema needs",
        "spec.wrong-type E a value of the wrong type",
        "spec.unknown-value E a word that is not one of those allowed",
        "spec.bad-format E a date, id or version that is not written as it must be",
        "spec.invalid E too few or too many entries, or a number outside its limits",
        "spec.bad-shape E a torus whose shape does not give its size",
        "spec.level-order E levels of a fabric that do not grow",
        "spec.duplicate-name E two instances of a family with one name",
        "spec.no-price E an offer with no price, or with two",
        "spec.zero-price E a price of 0: an unknown price must be left out, and only `kind: free` is free",
        "spec.unsorted-file E a file in no folder of a kind",
        "spec.no-file E a path that does not exist",
        "spec.empty-folder E a folder without a YAML file",
    ),
    "Names": (
        "spec.id-not-file-name E an id that is not the name of its file",
        "spec.provider-folder E an instance file in the folder of another provider",
        "spec.duplicate-alias E a name that two files claim",
        "spec.default-system E a usual system with another accelerator",
        "spec.unknown-reference E a name that no file has: accelerator, system, instance, engine, network",
    ),
    "Sources and dates": (
        "spec.unknown-source E a value that names a source which is not there",
        "spec.bad-url E an address that is none",
        "spec.source-without-url E a source that nobody can look up",
        "spec.source-title E a source without a title, or with an address for one",
        "spec.source-host E an address that is not of the publisher, paper or model that the title names",
        "spec.source-kind E a kind of source that its page is not",
        "spec.source-before E a source that was looked at before there was the accelerator",
        "spec.http-source W an address without https",
        "spec.misquoted E a figure other than the shipped file of that name has, with the same source cited for both; or a price "
        "for another instance, region, term or day",
        "spec.refused-source E a link to a place that no file may cite",
        "spec.source-cannot-say E a value of a kind that the publisher it cites does not print",
        "spec.other-part E a source about another part, or about the things of another vendor or provider",
        "spec.orphan-source W a source that no value names and that is not said to be only compared with, or the reverse",
        "spec.future-date E a day that has not come yet",
        "spec.stale-source W a source that nobody has looked at for longer than `--max-age`",
        "spec.stale-price W a current price that is older than `--max-age`",
        "spec.outside-accept E a value outside its own `accept`",
    ),
    "Rates": (
        "spec.no-rates E an accelerator without an fp32, bf16 or fp16 rate",
        "spec.unsupported-dtype E a rate for a data type that the architecture has no hardware for",
        "spec.sparse-rate E a rate with structured sparsity where the dense one belongs",
        "spec.half-accumulate E a rate with 16-bit accumulation where that with 32 bits belongs (GeForce)",
        "spec.vector-rate E the rate outside matrix units in place of that of the matrix units",
        "spec.rate-recount E a rate that is not units x FLOP per clock x clock within 3 %",
        "spec.per-clock E FLOP per clock that no unit of the architecture does",
        "spec.rate-ratio E rates of two data types in a ratio that the architecture does not have",
        "spec.rate-missing E FLOP per clock for a data type without a rate",
        "spec.sparsity E a sparse rate worth another factor than its pattern",
        "spec.sparse-base E sparsity of a data type without a dense rate",
        "spec.capability E a compute capability that no part of the architecture has",
        "spec.units E more units than one device of the architecture has: figures of a board, pair or superchip",
        "spec.devices E a `gpu` or `die` of several devices, or a `board` of one",
        "spec.product E a die, form, year, memory, cache, link or power that the product does not have",
        "spec.flop-per-byte E so many FLOP for each byte of bandwidth as nothing on sale has: GB for TB, or the like",
        "spec.flop-per-watt E so many FLOP/s for each watt as nothing on sale has",
    ),
    "Memory and links": (
        "spec.bandwidth-recount E a bandwidth that is not bus width x pin rate within 3 %",
        "spec.bandwidth E a bandwidth that no memory has",
        "spec.capacity E a capacity that no accelerator has",
        "spec.reported-capacity E a capacity that the driver reports far from the printed one: GB for GiB, die for board",
        "spec.mig E a MIG profile that does not cut the GPU as its name says, or into more than there is",
        "spec.link-direction E both directions of a link in place of one",
        "spec.link-recount E a link bandwidth that is not links x the rate of one",
        "spec.link-generation E a link faster or slower, or with more links, than its generation has",
        "spec.pcie-rate E a PCIe bandwidth that is not lanes x the rate of the generation",
    ),
    "Systems and instances": (
        "spec.system-link E a level of a system that is faster than the accelerator's own link",
        "spec.system-power E a system that draws less than half of, or four times, what its accelerators draw",
        "spec.system-form E accelerators or hosts other than the name or the form of the system has",
        "spec.system-level E a level that joins too few or too many, is wired otherwise than its name says, or is as late as none",
        "spec.system-host E processors, main memory or a link to the host that do not fit the accelerators",
        "spec.system-measured E a measured bandwidth above what the links carry",
        "spec.system-slice E a slice whose shape or name does not give its chips",
        "spec.network-total E a network that is not the number of cards x the rate of one",
        "spec.network-bits E bytes where bits belong, or the reverse",
        "spec.instance-count E a number of accelerators that is not that of the name, or more than the system has",
        "spec.instance-accelerator E an instance whose system has another accelerator",
        "spec.instance-memory E accelerator memory that is not count x capacity",
        "spec.instance-size E processors, memory, disk or network other than the name says, or out of order with the other sizes",
        "spec.instance-link E a link between accelerators that they do not have, or where there is one alone",
        "spec.instance-network E a network that the provider does not have, or other than the cards of the system carry",
        "spec.host-memory E main memory that is implausible for the number of processors",
        "spec.network-port E cards, or a level of a cluster, that are no whole number of ports of the network they name",
        "spec.share E a share of a wire that is not above 0 and at most 1: write 85 % as 0.85",
        "spec.network-kind E a port, a latency or a protocol that a network of that name does not have",
        "spec.cluster-rate E a level whose rate, network or layout is not that of the nodes' cards",
        "spec.cluster-node E a cluster of another accelerator than its nodes, or with a level inside them",
    ),
    "Models": (
        "model E what the schema of a model card refuses: a word for a number, heads that do not divide (codes: `model.…`)",
        "model.alias-twice E a name that two cards claim, or that stands twice",
        "model.params-recount E parameters, counted from the architecture, that are not those published or recounted",
        "model.params-active E parameters of one token that are not those published or recounted",
        "model.size-in-name E a size, an active size, or a number of experts other than the name says",
        "model.context E a context shorter than any model of its kind has, or other than its family's or its name's",
        "model.family E a vocabulary, window or data type that no model of its family has",
        "model.shape E heads, widths, depths, windows or experts that no model has",
        "model.weights-format E bits, groups or blocks that its quantisation does not have",
        "model.pretraining E a sequence beyond the context, or a batch in tokens",
    ),
    "Measured files": (
        "spec.measured-subject E a file of an accelerator among those of families, or the reverse; a file that is like itself",
        "spec.measured-units E compute units that the accelerator does not have",
        "spec.measured-dtype E products in a data type that the accelerator has no rate for",
        "spec.measured-ranks E more ranks than the links of the accelerator join",
    ),
    "Prices": (
        "spec.sentinel-price E a number that stands for `unknown` in some catalog, such as 700.0 or 9999",
        "spec.price-out-of-kin E a price for one accelerator far from what others ask: per accelerator or per instance?",
        "spec.spot-above-on-demand E a spot or reserved price above the price on demand",
        "spec.promo-price E a promotional size sold as current",
        "spec.retired-price E a current price of an instance that is retired",
        "spec.default-region E a usual region in which nothing is offered",
        "spec.price-region E a region that the provider does not have",
        "spec.price-kind E a kind or a unit that the price, the accelerator, or the provider does not have",
        "spec.price-series E a price out of line with the provider's other sizes, terms, regions, or earlier prices",
        "spec.price-date E a price of before the accelerator was there, or of after its source was read",
        "spec.undated-price E a price without a date where its source has dates for others",
        "spec.duplicate-offer E two current prices for one instance, region and kind",
    ),
}  # fmt: skip

RULES: dict[str, CheckRule] = {
    code: CheckRule(code, "error" if mark == "E" else "warning", group, catches)
    for group, lines in _TABLE.items()
    for code, mark, catches in (line.split(" ", 2) for line in lines)
}
"""Every rule by its code."""


def severity_of(code: str) -> Severity:
    """How grave a breach is; what the reader of files finds is an error."""
    rule = RULES.get(code)
    return rule.severity if rule is not None else "error"


def covers(word: str, code: str) -> bool:
    """Whether a word of `--select` or `--ignore` means a code: the code itself, without `spec.`, or the beginning before a dot.

    >>> covers("spec.sparse-rate", "spec.sparse-rate"), covers("sparse-rate", "spec.sparse-rate"), covers("yaml", "yaml.trap")
    (True, True, True)
    >>> covers("sparse", "spec.sparse-rate")
    False
    """
    return code in (word, f"spec.{word}") or code.startswith(f"{word}.")
