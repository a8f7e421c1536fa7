"""Which options mean the same in several questions?"""

from __future__ import annotations

from gpuplan.plan.option import NUMBERS, OUTPUT, PARALLEL, RUN, Option

PRECISION = Option(
    "Data type of the arithmetic: bf16, fp16, fp32, tf32, fp8, int8, nvfp4 or bf16-pure", NUMBERS, "TYPE", samples=True
)
OPTIMIZER = Option("Optimizer, such as `adamw`", NUMBERS, "NAME", samples=True)
BATCH = Option("Sequences at the same time", RUN)
CONTEXT = Option("Longest sequence that must fit, such as `32k` (32,768)", RUN, "TOKENS", length=True)
IMAGES = Option("Images in a request, beside its prompt of text", RUN)
IMAGE_SIZE = Option("Pixels of each image, such as `1024x768` (width x height)", RUN, "WxH", reads="pixels")
WEIGHTS = "Data type of the weights, such as `bf16`, `fp8`, `int4`"
KV_CACHE = "Data type of the KV cache, such as `bf16` or `fp8`"
TP = Option("Tensor parallel degree", PARALLEL, samples=True)
PP = Option("Pipeline parallel degree (stages)", PARALLEL, samples=True)
DP = Option("Data parallel degree (replicas)", PARALLEL, samples=True)
EP = Option("Expert parallel degree", PARALLEL, samples=True)
ATTENTION_DP = Option(
    "Ranks of attention in a replica, each with requests of its own, that share its experts (SGLang: --enable-dp-attention)",
    PARALLEL,
)
DECODE_CP = Option(
    "Tensor parallel ranks that share the caches of sequences along their context (vLLM: --decode-context-parallel-size)", PARALLEL
)
REDUNDANT = Option("Experts of each layer that are held a second time, to even the load (EPLB)", PARALLEL, least=0)
EXCHANGE = Option("How tokens reach experts that ranks of attention share: `gathered` or `all-to-all`", PARALLEL, "WAY")
EMIT = Option(
    "Print what starts the plan, and nothing else: a command, a compose file, Kubernetes objects or a Slurm job", OUTPUT, "FORM"
)
COMPILED = Option("Compiled (torch.compile), or surely not; left out, as the engine usually runs", PARALLEL, "", flag="compile")
GRAPHS = Option("Kernels are replayed from CUDA graphs", PARALLEL, "")


SKEW = Option(
    "Tokens of the busiest expert over the idlest's, such as `20`; left out, 1 (even) in training and 200 in serving, as measured",
    PARALLEL, "RATIO", least=1, most=1e9, too_small="the busiest expert has no less than the idlest, 1",
)  # fmt: skip
