"""Which words of a question say nothing but how it is asked?"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress

from gpuplan.errors import GpuplanError

_ASKING = """
a about accelerator accelerators acceptable achieve actually adapter adapters advice afford ai all alone also always am amount
an and any anybody anyone approximate approximately are around as asked at available average back batch batch-size batches be
beat beats because been being best better between big biggest billion bit both bother bottleneck box build building buy buying
by calculate calculating calculation calculator can can't cannot capability capable capacity card cards chat cheap cheaper
cheapest chip chips choose choosing cloud comfortably compare compared comparing comparison computer context continue
continued continuing cost costs could couldn't cuda currently decent deploy deploying did difference do does doesn't doing
done down during each either embedding embeddings enough entire error estimate estimated estimates estimating estimation even
eventually ever every everyone exactly example expect expected expecting experience experiences fast faster fastest few figure
figuring find fine fine-tune fine-tuned fine-tunes fine-tuning finetune finetuned finetuning first fit fits fitting for free
from full fully gaming gb general generate generating generation get getting gib give given go going good got gpu gpus great
guide guys had handle handles hardware has have having hello help here hi hit home host hosted hosting how i i'm i've idea if
in including infer inference inferencing info instance instances instead instruct into is isn't issue it it's its job just
keep know large larger largest latency latest least left less let level like limit limits list llm llms load loaded loading
local locally long longest looking lora lot low machine machines made make makes manage many max maximize maximum may maybe me
mean memory might min minimal minimum model models more most much must my near need needed needing needs new node nodes now
number numbers of off ok old on once one only or our out outperform outperforms output over own parameter parameters params pc
people per perf perform performance performing performs personal plan planning please possible possibly practical practically
pretrain pretraining pretty price priced prices pricing probably process processing prompts properly purchase qlora question
questions quick quickly ram ran rank rather re real really reasonable recommend recommendation recommendations recommended
rent renting request requests require required requirement requirements requires requiring rig right rough roughly run
runnable running runs s same scratch second seconds see self self-host selfhost serve served server servers serves serving set
setup sft should show single situation size sized sizes sizing sla slo slow slower slowly small smaller smallest so some
somebody someone something spec speed speeds start still suggest suggestion suggestions suitable support supported supports
sure system t t/s take takes taking tell tested than thank thanks that the their them then there these they thinking this
those thoughts throughput time times tl;dr to together tok tok/s token tokens tokens/s too total tps train trained training
tried try trying tune tuned tuning two type typical typically under up upcoming upgrade upgrading us usable use used user
users uses using usually value various ve versus very via viable video vram vs wanna want wanted wants was way ways we well
were what what's whats when where which while who whole why will with within wonder wondering work working works workstation
worth worthwhile would yes yet you your yours
"""
FILLER = frozenset(_ASKING.split())
"""Words that say nothing of a question but how it is asked; what is not understood otherwise is no filler and is named."""
_BODIES = {
    "": "desktop desktops pc rack server edition owned graphics chip founders fe",
    "nvidia": "nvidia geforce nvidia's",
    "amd": "amd radeon",
    "intel": "intel",
    "google": "google",
    "aws": "aws amazon",
    "apple": "apple imac mac macs macbook mini studio air pro silicon unified",
}
"""Words beside the name of a part by its maker ("": any): they say nothing more of a part that is named without them."""


def makers(places: Sequence[str]) -> frozenset[str]:
    """The words beside the names of some machines that say who makes them, and in which body."""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.on import parse_target

    found = {""} if places else set[str]()
    for place in places:
        with suppress(GpuplanError):
            found.add(parse_target(place, Catalog.open()).accelerator.vendor)
    return frozenset(word for maker in found for word in _BODIES.get(maker, "").split())


def unheard(words: Sequence[str], *, beside: Collection[str] = ()) -> list[str]:
    """The words that are no fillers, and do not stand beside a part either, in their order.

    >>> unheard(["does", "it", "run", "on", "a", "purple", "macbook"], beside=["macbook"])
    ['purple']
    """
    known = FILLER | set(beside)
    return [word for word in words if word not in known and word.removesuffix("s") not in known]
