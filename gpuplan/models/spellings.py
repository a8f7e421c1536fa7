"""Which model does a name mean that is spelled as another place spells it: `llama-v3p1-8b-instruct`, `qwen-3-32b`, `code-llama-7b`?

Providers write points as `p` or leave them out, put hyphens where others have none, and add words for how they serve a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_PLACE = re.compile(
    r"^~(?=\w)|^@?(?:accounts/[^/]+/(?:models|routers)|cf|[a-z]{2}\.)/?|/(?:community|latest)$|-(?:free|latest)$", re.IGNORECASE
)
"""Parts of a name that are a provider's own shelves."""
_ROUTED = re.compile(r"(?<=\w):(?:free|nitro|floor|online|exacto|extended|beta|priority|flex|variant\d)$", re.IGNORECASE)
"""How OpenRouter is asked to serve a model (https://openrouter.ai/docs/guides/routing/model-variants)."""
_STORE = re.compile(
    r"^(?:(?:ollama|hf|huggingface|hugging-face|lm-studio|lmstudio)-(?:run-|pull-|get-)?(?=[a-z])|ollama://(?:library/)?|(?:https://)?ollama\.com/(?:library/)?|(?:(?:docker|oci|rlcr)://)?(?:docker\.io/)?ai/|(?:modelscope|ms)://)(?=[^/\s])",
    re.IGNORECASE,
)
"""Where RamaLama, KubeAI and Docker fetch a model from (https://github.com/containers/ramalama, docs/ramalama.1.md, Transports;
https://hub.docker.com/u/ai)."""
_ROUTER = re.compile(
    r"^(?:ollama(?:_chat)?|hosted_vllm|lm_studio|together_ai|fireworks_ai|vertex_ai|azure_ai(?:/fw-)?|nvidia_nim|bedrock(?:/converse|_mantle)?)/?(?<=[/-])"
    r"(?:(?:us|eu|ap|ca|sa|me|af|il|mx)(?:-gov)?-[a-z]+-\d/)?(?=\S)|^(?:max|\d+)-x-(?:max|\d+)/(?:(?:max|\d+)-steps/)?(?=[a-z])"
    r"|^fw-(?=[a-z])|^databricks/(?:databricks-|system\.ai\.)(?=\w)|^fal_ai/(?:fal-ai/)?(?=\S)"
    r"|^(?:openrouter|deepinfra|replicate|groq|novita|nebius|hyperbolic)/(?=[^/\s]+/\S)",
    re.IGNORECASE,
)  # fmt: skip
"""What LiteLLM puts before a model of a provider (https://docs.litellm.ai/docs/providers)."""
_BEDROCK = re.compile(
    r"(?:(?:us|us-gov|eu|apac|jp|au|ca|global)\.)?"
    r"(ai21|amazon|anthropic|cohere|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|stability|twelvelabs|writer|xai|zai)"
    r"\.([a-z0-9][\w.-]*?)(?:-v?([0-9]):(\d+)(?::\w+)?)?", re.IGNORECASE,
)  # fmt: skip
"""An id of Amazon Bedrock: perhaps a region, the maker, the model, its version and what it takes
(`meta.llama3-1-70b-instruct-v1:0`, https://docs.aws.amazon.com/bedrock/latest/userguide/models-supported.html)."""
_POINT = re.compile(r"(?<=\d)p(?=\d)", re.IGNORECASE)
_SERVED = re.compile(
    r"(?:[-_:](?:turbo|fast|fc|high-?speed|basic|versatile|instant|ultra|community|cloud|us|eu|spot|long|maas|tee|hf|lora|"
    r"\d{2,4}k(?:-rope)?|v1:0|latest|free|router|preview|exp))+$",
    re.IGNORECASE,
)
"""Words at the end of a name that say how a provider serves a model, or from when it is."""
_WORDS = re.compile(
    r"[-_.](?:instruct|chat|it|base|pt|2\d(?:0\d|1[0-2])|v1(?!\d))(?=$|[-_.])",
    re.IGNORECASE,
)
_FRONT = re.compile(
    r"^(?:meta-|zai-(?=glm)|mistralai-|alibaba-|nvidia-nvidia-|nvidia-(?=nemotron|llama)|qwen-(?=qwq)|nous-hermes-(?=[23]-))",
    re.IGNORECASE,
)
_LLAMA = re.compile(r"(?<=llama)(-?3)(?:-(?=[123]-[a-z0-9])|_(?=[123]-\d+b))", re.IGNORECASE)
"""The point of Llama 3.1, 3.2 and 3.3 as watsonx and OVHcloud write it: `llama-3-3-70b-instruct`, `Meta-Llama-3_3-70B-Instruct`."""
_DATABRICKS = re.compile(r"(?:databricks/)?databricks-(?=\w)", re.IGNORECASE)
"""What Databricks puts before the models that it serves, whose points are hyphens (`databricks-glm-5-2`)."""
_ACTIVE = re.compile(r"a\d+(?:\.\d+)?b$")


def unrouted(name: str) -> str:
    """The name without what a router, a store or Amazon Bedrock puts around it, and with hyphens for spaces; the same without any.

    LiteLLM puts the provider before it, OpenRouter a `~` before names that stand for the newest of a line.

    >>> unrouted("openai/gpt-oss-20b:free"), unrouted("us.meta.llama3-1-70b-instruct-v1:0"), unrouted("qwen 3 32b")
    ('openai/gpt-oss-20b', 'meta/llama3.1-70b-instruct', 'qwen-3-32b')
    >>> unrouted("ollama://qwen2.5:7b"), unrouted("ai/gemma3:4B-Q4_K_M"), unrouted("ollama run llama3.2")
    ('qwen2.5:7b', 'gemma3:4B-Q4_K_M', 'llama3.2')
    >>> unrouted("meta-llama/llama-3-3-70b-instruct"), unrouted("azure_ai/FW-GLM-5.1"), unrouted("llama-3-8b")
    ('meta-llama/llama-3.3-70b-instruct', 'GLM-5.1', 'llama-3-8b')
    >>> unrouted("databricks-kimi-k2-7-code"), unrouted("databricks-qwen3-embedding-0-6b"), unrouted("Meta-Llama-3_3-70B-Instruct")
    ('kimi-k2.7-code', 'qwen3-embedding-0.6b', 'Meta-Llama-3.3-70B-Instruct')
    """
    if (served := _DATABRICKS.match(name)) is not None:
        name = re.sub(r"(?<!\d)(\d)-(\d)(?=-|$)|(?<=-)(0)-(\d)(?=b)", r"\1\3.\2\4", name[served.end() :])
    bare = _LLAMA.sub(r"\1.", _STORE.sub("", _ROUTER.sub("", "-".join(name.split()))))
    found = _BEDROCK.fullmatch(bare)
    if found is not None:
        points = re.sub(r"(?<=[a-z]\d)-(?=\d-)", ".", found[2], flags=re.IGNORECASE)
        return f"{found[1]}/{points}" + (f"-v0.{found[4]}" if found[3] == "0" else "")
    return _ROUTED.sub("", bare.removeprefix("~") if re.match(r"~\w", bare) else bare)


def respelled(name: str) -> str:
    """The name as cards would spell it: without a provider's shelves, points as points, versions of Llama and Qwen without `v`.

    >>> respelled("accounts/fireworks/models/llama-v3p1-8b-instruct")
    'llama-3.1-8b-instruct'
    """
    return re.sub(r"(?<=llama-)v(?=\d+(?:\.\d+)?-)|(?<=qwen-)v(?=\d)", "", _bare(name), flags=re.IGNORECASE)


def _bare(name: str) -> str:
    """Without a provider's shelves, and points as points."""
    return re.sub(r"(?<=qwen)(?=[23]5)(\d)", r"\1.", _POINT.sub(".", _PLACE.sub("", name)), flags=re.IGNORECASE)


@lru_cache(16384)
def squeezed(name: str) -> str:
    """What is left of a name without its owner, hyphens and words of tuning: what all spellings of it share.

    Between digits a hyphen is a point, which stays: it tells 1.3B from 13B.

    >>> squeezed("qwen-2-1.5b-instruct") == squeezed("Qwen/Qwen2-1.5B-Instruct")
    True
    """
    tail = respelled(name).rpartition("/")[2].lower()
    front = _FRONT.sub("", tail)
    parts = re.sub(r"(?<=\d)[-_.](?=\d)", ".", re.sub(r"(?<![a-z])v(?=\d)", "", _WORDS.sub("", front)))
    return re.sub(r"(?<!\d)[-_.:\s]|[-_.:\s](?!\d)", "", parts)


def spelled_like(name: str, known: Iterable[str]) -> str | None:
    """The known name that differs from a name in its spelling alone, or in that it says what a token uses; None: there is none.

    >>> spelled_like("qwen-3-235b", ["qwen3-14b", "qwen3-235b-a22b"])
    'qwen3-235b-a22b'
    """
    wanted = squeezed(name)
    keys: dict[str, str] = {}
    for one in known:
        keys.setdefault(squeezed(one), one)
    if len(wanted) < 4 or not re.search(r"\d", wanted):
        return None
    more = [one for key, one in keys.items() if key.startswith(wanted) and _ACTIVE.fullmatch(key[len(wanted) :])]
    return keys.get(wanted) or (more[0] if len(more) == 1 else None)


def unserved(name: str) -> str:
    """The name without the words at its end that say how a provider serves the model; empty where it has none.

    >>> unserved("deepseek-ai/DeepSeek-R1-Turbo")
    'deepseek-ai/DeepSeek-R1'
    """
    bare = respelled(name)
    without = _SERVED.sub("", bare)
    return without if without != name else ""
