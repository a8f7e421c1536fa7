"""How is a question put so that names and amounts in it can be found: manners of speaking as they are usually written?"""

from __future__ import annotations

import re

_PART = r"(?:(?:nvidia|geforce|rtx|gtx|amd|radeon|rx|quadro) )*(?:\d{4}|[a-z]\d{2,4})(?: (?:ti|super|xt))*"
_SORT = r"(?:pcie|sxm\d?|nvl|\d+ ?gb)"
"""What a name of several parts says behind their name: `h100 pcie vs sxm`."""
_MANNERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(said), written)
    for said, written in (
        (r"(?<!\S)(\d+) ?(?:gb|gib|g)(?: of)? (?:v-?ram|video (?:memory|ram)|gpu (?:memory|ram))\b", r"\1gb vram"),
        (r"(?<!gb )\bv-?ram (?:of )?(\d+) ?(?:gb|gib|g)\b", r"\1gb vram"),
        (r"\b(?:a |another )?(?:second|2nd) (?=(?:rtx |gtx |rx )?\d{4}\b|[a-z]\d{2,3}\b)", "2 "),  # Who buys a second one has two.
        (rf"\b(?:laptop|notebook)(?: with| has)?(?: an?| my)?[ (,:]+({_PART})\b(?! laptop)", r"\1 laptop"),
        (r"\b(\d+ ?gb) ((?:mac ?book|i?mac)(?: (?:mini|studio|air|pro))*(?: m\d+)?(?: (?:pro|max|ultra))?)\b", r"\2 \1"),
        (r"\b(\d+ ?gb) (m\d+(?: (?:pro|max|ultra))?)\b", r"\2 \1"),
        (r"\bx ?(\d{1,3})\b(?= (?:vs|versus|or|and|for|with|to|on|in)\b|$|[,?])", r"x\1"),
        (rf"\b({_PART}) ({_SORT}) (vs\.?|versus|or|and) ({_SORT})(?![a-z0-9]| ?(?:v?ram|of))", r"\1 \2 \3 \1 \4"),
        (r"\b(?:in|of|for) 20[12]\d\b", ""),
        (r"\b24/7\b", ""),
        (r"\bper (?:1 ?)?m(?:illion|io)? (?:output |input )?tokens?\b", "per token"),  # What a token costs is told in millions.
        (r"\bopen[- ](?:source|weights?)\b", ""),
        (r"\b(?:no|without(?: a)?) (?:gpus?|graphics card)\b|\bcpu[- ]only\b|\bonly (?:on )?cpu\b", "cpu"),
        (r"\b(?:dual|two|2x?)[- ](epyc|xeon)s?\b(?![- ]?\d)", r"\1"),
        (r"\bcpu[- ]offload(?:ing)?\b", "offload"),
        (r"(?<![\d.])(\d+)t (?=(?:param|model|llm))", r"\g<1>000b "),
        (r"(?<![\d.])(\d+)\.(\d)t (?=(?:param|model|llm))", r"\1\g<2>00b "),
        (r"\b(command[- ]?r)\+", r"\1-plus"),
    )
)


def plainer(question: str) -> str:
    """A question in small letters, in the manners that names and amounts are looked for in.

    >>> plainer("Is 24 GB of VRAM enough?"), plainer("my laptop with RTX 4060"), plainer("16GB Mac mini M4")
    ('is 24gb vram enough?', 'my rtx 4060 laptop', 'mac mini m4 16gb')
    >>> plainer("a 1T model"), plainer("a 1.5T model")
    ('a 1000b model', 'a 1500b model')
    """
    text = question.lower().replace("’", "'")
    for said, written in _MANNERS:
        text = said.sub(written, text)
    return text
