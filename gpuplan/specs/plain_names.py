"""What is a part called without what drivers, shops and board makers write around its name?

`AMD Radeon RX 7900 XTX`, `Intel(R) Arc(TM) B580 Graphics`, `ASUS ROG Strix RTX 4090`, `AMD EPYC 9654 96-Core Processor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.specs.catalog import SIZE, Catalog, key
from gpuplan.specs.target import MAKERS

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™]", re.IGNORECASE)
_BEHIND = re.compile(
    r"\s+(?:w/|with|@)\s.*$|\s+(?:\d+|dual|quad|six|eight|twelve|sixteen)-core\b.*$|\s+(?:cpu|processor)$"
    r"|\s+(?:rack|system|chip|box|node|graphics|gpu|desktop|oam|mcm|ac|mba|edition|generation|gaming|passive|active|trio|suprim|vanguard|x|oc|community|secure|cloud|accelerator|apu)$"
    r"|\s+(?:(?:dev|developer)[\s-]?kit|dual[\s-]slot|rev\.?\s*\w+|lite\s+hash\s+rate|lhr)$",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"^(?:\d+(?:st|nd|rd|th)\s+gen|lit|virtualized|corporation|nvidia|amd|intel|qualcomm|apple|google|geforce|radeon|instinct|asus|msi|gigabyte|zotac|pny|evga|palit|inno3d|gainward|sapphire|"
    r"lenovo|dell|hpe?|acer|supermicro|powercolor|xfx|asrock|colorful|galax|rog|strix|tuf|ventus|aorus|eagle|windforce|nitro\+?|pulse|founders|edition|gaming|core|"
    r"navi\s\d+|aqua\svanjaram)[\s-]+",
    re.IGNORECASE,
)


def plain_names(name: str) -> Iterator[str]:
    """The name with less and less around it, the fullest first; without the name itself.

    >>> list(plain_names("Intel(R) Arc(TM) B580 Graphics"))
    ['Intel Arc B580 Graphics', 'Intel Arc B580', 'Arc B580 Graphics', 'Arc B580']
    """
    seen = {key(name)}
    inside = re.search(r"\[([^\]]*)\]", name)
    for begin in dict.fromkeys((_clean(name), _clean(re.sub(r"[\[(][^\])]*[\])]", " ", _MARKS.sub("", name))), *_shown(inside))):
        for front in _steps(begin, _BEFORE):
            for one in _steps(front, _BEHIND):
                if one and key(one) not in seen:
                    seen.add(key(one))
                    yield one


MOBILE = re.compile(r"\s+(?:mobile\s*/\s*max-q|max-q\s*/\s*mobile)\b", re.IGNORECASE)
"""How the PCI ID repository calls a chip of laptops, at whatever power it is set."""


def bracketed(name: str) -> str | None:
    """The part that `lspci` prints behind the name of its chip; None where a name has no such end.

    >>> bracketed("GA102 [GeForce RTX 3090] (rev a1)"), bracketed("[MAXSUN] Arc Pro B60")
    ('GeForce RTX 3090', None)
    """
    found = re.search(r"\S\s*\[([^\[\]]+)\](?:\s*\(rev\s+\w+\))?\s*$", name)
    return MOBILE.sub(" Mobile", found[1]) if found else None


_INSIDE = re.compile(
    r"\s*[(\[]\s*(\d+)\s*gi?b?(?:\s+(?:v?ram|memory|hbm\w*|gddr\w*))?\s*[)\]]|(?<=\S)\s+(\d+)\s+gi?b(?:\s+v?ram)?$", re.IGNORECASE
)
_BOARD = re.compile(r"^((?:nvidia\s+)?[dh]gx[\s-].+?)[\s-]+(\d+)[\s-]*gpus?$", re.IGNORECASE)
"""A board or a machine as its maker calls it, `HGX H200 8-GPU`; of most there is one size."""
_MAC = re.compile(r"^(?:apple\s+)?(macbook(?:\s+(?:air|pro))?|mac\s*(?:mini|studio|pro)|imac)\b(.*)$", re.IGNORECASE | re.DOTALL)
_CHIP = re.compile(r"\bm\d(?:\s+(?:pro|max|ultra))?(?=\s|$)", re.IGNORECASE)
_INCHES = re.compile(
    r"(?<![\d.])(?:1[1-6](?:\.\d)?|24)(?:[\s-]*inch|\s*[\"\u201d\u2033]|(?=\s))|(?<!\d)20[12]\d(?!\d)", re.IGNORECASE
)
_CORES = re.compile(r"\bgpu\s*-\s*(\d+)\s*cores?\b", re.IGNORECASE)
"""How Blender prints those of Apple's GPUs: `Apple M3 Max (GPU - 30 cores)`."""
_MEMORY = re.compile(r"(\d+)\s*gb?\b", re.IGNORECASE)


def unwrapped(name: str) -> Iterator[str]:
    """A name with the memory that stands in brackets behind it, and Apple's with the cores of its GPU and without inches and years.

    >>> [next(unwrapped(one)) for one in ("Tesla V100 (32GB)", "MacBook Pro 14 M5 32GB", "Mac Studio (M2 Ultra, 192GB)")]
    ['Tesla V100 32GB', 'M5 32GB', 'Mac Studio M2 Ultra 192GB']
    >>> list(unwrapped("Apple M3 Max (30-core GPU) 36GB")), list(unwrapped("GB10 (DGX Spark)"))
    (['apple-m3-max-30c 36GB', 'M3 Max 36GB'], [])
    """
    made: list[str] = []
    mac = _MAC.match(name.strip())
    rest = " ".join(_INCHES.sub(" ", re.sub(r"[(),/]", " ", mac[2] if mac else name)).split())
    chip = _CHIP.search(rest) if mac or re.match(r"(?:apple\s+)?m\d\b", rest, re.IGNORECASE) else None
    if chip is not None:
        cores = re.search(r"(\d+)[\s-]*cores?[\s-]*gpu", rest, re.IGNORECASE) or _CORES.search(" ".join(name.split()))
        memory = _MEMORY.search(rest)
        behind = f" {memory[1]}GB" if memory else ""
        if cores is not None:
            made.append(f"apple-{key(chip[0])}-{cores[1]}c{behind}")
        line = f"{mac[1]} " if mac and re.match(r"mac\s*(?:mini|studio)", mac[1], re.IGNORECASE) else ""
        made += [f"{line}{chip[0]}{behind}"] + ([f"{chip[0]}{behind}"] if line else [])
    elif board := _BOARD.match(name.strip()):
        made += [f"{board[1]}-{board[2]}", board[1]]
    elif not mac:
        said = re.sub(r"\s*\((pcie|sxm\d?|nvl|oam)\)\s*$", r" \1", name, flags=re.IGNORECASE)
        made.append(_INSIDE.sub(lambda found: f" {found[1] or found[2]}GB", said).strip())
    yield from (one for one in made if key(one) != key(name))


_MANY = {"dual": 2, "twin": 2, "two": 2, "triple": 3, "quad": 4, "four": 4}
_COUNT_BEHIND = re.compile(r"(.+?)(?:[\s_-]+[x\u00d7*][\s_-]*|\s*\u00d7\s*|(?<=\d{4})x)(\d{1,4})", re.IGNORECASE)
_COUNT_OF_GPUS = re.compile(r"((?!.*\b[dh]gx\b).+?)[\s-]+(\d{1,2})[\s-]gpus?", re.IGNORECASE)
_COUNT_BEFORE = re.compile(rf"(\d{{1,5}}|{'|'.join(_MANY)})[\s-]+(.+?[a-z0-9])(s?)", re.IGNORECASE)


def counted_in_words(text: str) -> Iterator[tuple[int, str]]:
    """What a text may mean that says how many in another way than `8xh100`: the number and the part.

    >>> list(counted_in_words("Tesla P40 x 4")), list(counted_in_words("3090 x2")), list(counted_in_words("dual RTX 5090"))
    ([(4, 'Tesla P40')], [(2, '3090')], [(2, 'RTX 5090')])
    >>> list(counted_in_words("64 H100s")), list(counted_in_words("h100")), list(counted_in_words("MI325X 8-GPU"))
    ([(64, 'H100'), (64, 'H100s')], [], [(8, 'MI325X')])
    >>> list(counted_in_words("A100_40GB_X_4"))
    [(4, 'A100_40GB')]
    """
    named = text.strip()
    behind, before = _COUNT_BEHIND.fullmatch(named) or _COUNT_OF_GPUS.fullmatch(named), _COUNT_BEFORE.fullmatch(named)
    if behind is not None and int(behind[2]) > 0:
        yield int(behind[2]), behind[1]
    elif before is not None:
        many = _MANY.get(before[1].lower()) or int(before[1])
        if many > 0:
            yield many, before[2]
            if before[3]:
                yield many, before[2] + before[3]


def size_last(name: str) -> str | None:
    """A name as it is compared with the memory, which people write anywhere, behind the rest; None where it is there or missing.

    >>> [size_last("a100-80gb-sxm4"), size_last("v100-32gb-sxm2"), size_last("a100-sxm4-80gb"), size_last("l4")]
    ['a100-sxm4-80gb', 'v100-sxm2-32gb', None, None]
    """
    said = re.fullmatch(r"(.+?)-(\d+gb)-(.+)", name)
    return f"{said[1]}-{said[3]}-{said[2]}" if said else None


def known_as(name: str, catalog: Catalog) -> str | None:
    """The first of the plainer names that an accelerator, a system or the table of unknown parts has; None: none of them has."""
    from gpuplan.specs.kinds_of_parts import nearest

    for one in plain_names(name):
        if _is_known(key(one), catalog):
            return one
        if nearest(one):
            return one
    spelled = (other for one in (name, *plain_names(name)) for other in respelled(one))
    if told := next((one for one in respelled(name) if nearest(one)), ""):
        return told
    parts = (part for one in spelled if (part := _part_of(one, catalog)) is not None)
    return next((part for part in parts if not _of_another(part, name, catalog)), None)


def _of_another(part: str, name: str, catalog: Catalog) -> bool:
    """Whether a part is not of the maker that a name begins with: `NVIDIA 580` is a driver, and no card of AMD's."""
    from gpuplan.specs.accelerator import Accelerator

    maker = next((one for one in MAKERS if re.match(rf"{one}\b", name.strip(), re.IGNORECASE)), None)
    found = [part] if part in catalog.paths("accelerators") else catalog.names("accelerators").get(part, [])
    return maker is not None and any(catalog.load(Accelerator, one).vendor != maker for one in found)


def respelled(name: str) -> Iterator[str]:
    """A graphics card's name as its maker spells it, with the line that people leave out; as names are compared.

    >>> list(respelled("6950XT"))
    ['6950-xt', 'rtx-6950-xt', 'gtx-6950-xt', 'rx-6950-xt']
    >>> next(respelled("RTX 4090 mobile GPU 16G")), list(respelled("gtx1660ti laptop"))
    ('rtx-4090-laptop-16gb', ['gtx-1660-ti-laptop'])
    """
    named = key(name)
    spelled = re.sub(r"-(?:laptop-gpu|mobile-gpu|mobile)(?=-|$)", "-laptop", named)
    spelled = re.sub(r"^(m\d(?:-pro|-max|-ultra)?)-(?:macbook(?:-air|-pro)?|mac-mini|mac-studio|imac)(?=-|$)", r"\1", spelled)
    spelled = re.sub(r"-(\d+gb?)-laptop(?=-|$)", r"-laptop-\1", spelled)
    spelled = re.sub(r"(?<=-)(\d+)g$", r"\1gb", spelled)
    spelled = re.sub(r"^(gtx|rtx|rx)(?=\d|pro|a\d)", r"\1-", spelled)
    spelled = re.sub(r"(?<=-pro)(?=\d{4})|(?<=\d{4})(?=ada(?:-|$))", "-", spelled)
    spelled = re.sub(r"(?<=\d)(?=(?:nvl|pcie)(?:-|$))|(?<=\ds)(?=pcie(?:-|$))", "-", spelled)
    spelled = re.sub(r"^(rtx-\d{4}(?:-?ti)?)m(?=-\d+gb$|$)", r"\1-laptop", spelled)  # AMD's `RX 6800M` is a name of its own.
    spelled = re.sub(r"^([pm])(?=[1-6]\d00$)", r"quadro-\1", spelled)
    spelled = re.sub(r"^rtxp-?(?=\d)", "rtx-pro-", spelled)
    spelled = re.sub(r"^q-rtx-", "quadro-rtx-", re.sub(r"^pro-w(?=\d)", "radeon-pro-w", spelled))
    spelled = re.sub(r"-hbm\d?e?(?=-|$)", "", re.sub(r"-maxq(?=-|$)", "-max-q", spelled))
    spelled = re.sub(r"(?<=\d)(ti|super|xtx|xt|gre)(?=-|$)", r"-\1", spelled)
    spelled = re.sub(r"^((?:[gr]tx-)?(?:16|20|[345]0)\d0)s(-ti)?(?=-|$)", r"\1\2-super", spelled)
    if re.match(r"\d{3,4}(?:-|$)", spelled):
        yield from (f"{line}{spelled}" for line in ("", "rtx-", "gtx-", "rx-"))
    elif spelled != named or re.match(r"(?:gtx|rtx|rx|m\d)-", spelled) or re.search(r"-(?:pcie|sxm|oam|nvl)(?:-\d+gb)?$", spelled):
        yield spelled


def _is_known(name: str, catalog: Catalog) -> bool:
    """Whether an accelerator or a system has a name, as names are compared."""
    return any(name in catalog.paths(kind) or name in catalog.names(kind) for kind in ("accelerators", "systems"))


def _part_of(name: str, catalog: Catalog) -> str | None:
    """The name that the catalog has of a part: as it stands, or without a memory and a form that are those of the part."""
    if _is_known(name, catalog):
        return name
    formed = re.fullmatch(r"(.+?)-(pcie|sxm|oam|nvl)(-\d+gb)?", name)
    if formed is not None and (one := _part_of(f"{formed[1]}{formed[3] or ''}", catalog)) is not None:
        return one if _has_form(one, formed[2], catalog) else None
    bare, _, size = name.rpartition("-")
    said = SIZE.fullmatch(size)
    if said is None or not (bare in catalog.paths("accelerators") or bare in catalog.names("accelerators")):
        return None
    from gpuplan.specs.accelerator import Accelerator

    has = catalog.load(Accelerator, bare).memory.capacity.value
    return bare if round(has / 2**30) == int(said[1]) else None


def _has_form(name: str, form: str, catalog: Catalog) -> bool:
    """Whether the file of an accelerator says that it is built in a form."""
    from gpuplan.specs.accelerator import Accelerator

    if not (name in catalog.paths("accelerators") or name in catalog.names("accelerators")):
        return False
    return form in key(catalog.load(Accelerator, name).form_factor or "").split("-")


def _shown(inside: re.Match[str] | None) -> tuple[str, ...]:
    """What stands in brackets, where it names one part."""
    return () if inside is None or "/" in inside[1] else (_clean(inside[1]),)


def _clean(text: str) -> str:
    """Without marks, and 16G as 16GB."""
    plain = re.sub(r"\swith\smax-q\sdesign\b", " Max-Q", " ".join(_MARKS.sub("", text).split()), flags=re.IGNORECASE)
    plain = re.sub(r"\s+tensor[\s-]core(?:\s+gpus?)?\b", "", MOBILE.sub(" Mobile", plain), flags=re.IGNORECASE)
    plain = re.sub(r"\sCPU(?=\s)", "", plain, flags=re.IGNORECASE)  # `Intel Xeon CPU E5-2680 v4`
    return re.sub(r"(?<=\d)G\b", "GB", plain)


def _steps(text: str, drop: re.Pattern[str]) -> Iterator[str]:
    """The text, and the same with one thing after another dropped."""
    while text:
        yield text
        shorter = drop.sub("", text, count=1)
        if shorter == text:
            return
        text = shorter
