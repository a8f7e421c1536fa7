"""A question in plain words is answered where all of its words are understood; else the command that it may mean is told."""

from __future__ import annotations

import pytest

from gpuplan.cli.in_words.amounts import PATTERNS, amounts, manners
from gpuplan.cli.in_words.command import _OF, Meant, command_meant, meant
from gpuplan.cli.in_words.pasted import SAY_WHERE, pasted
from gpuplan.cli.plain_words import given_by
from gpuplan.plan.ask import ASKS
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.cards_of_memory import table
from gpuplan.specs.catalog import Catalog
from tests.cli.cli_calls import Call

ANSWERED = """
spot price of h100 per hour
    prices list h100 --kind spot
cost per million tokens llama 3.3 70b on 4 h100
    serve llama-3.3-70b --on 4xh100
how much energy per token does llama 8b take on h100
    serve llama-3.1-8b --on h100
dpo fine-tune llama 3.1 8b on 4 a100
    train llama-3.1-8b --on 4xa100 --lora 16 --reference
qwen2.5 7b with grpo on 8 h100
    train qwen2.5-7b --on 8xh100 --rl grpo
how many h100 for ppo of qwen2.5 7b
    plan rl qwen2.5-7b --on h100 --rl ppo
continue pretraining llama 3.1 8b with 1m context on 64 h100
    train llama-3.1-8b --on 64xh100 --seq-len 1M
serve llama 3.1 8b for under 500 dollars a month
    plan serve llama-3.1-8b --budget 500 --users 1
how long does it take to fine-tune llama 3.1 8b with qlora on 50k samples for 3 epochs on a 4090?
    train llama-3.1-8b --on 4090 --epochs 3 --samples 50k --lora 16 --qlora
how long would 3 epochs of 50k samples of 2k tokens take on 8xh100 for llama 70b lora
    train llama-3.3-70b --on 8xh100 --epochs 3 --seq-len 2k --samples 50k --lora 16
lora fine-tune of qwen3 14b, 10,000 examples, two epochs, 4k tokens each, on one a100
    train qwen3-14b --on a100 --epochs 2 --seq-len 4k --samples 10000 --lora 16
cost to finetune llama 3.1 8b on 20k examples for one epoch
    plan finetune llama-3.1-8b --epochs 1 --samples 20k
how many h100s for llama 70b at 50 requests per second with p99 ttft below 1 second?
    plan serve llama-3.3-70b --on h100 --p 99 --ttft 1s --rate 50/s
how many h100s for llama 70b at 50 requests per second with ttft p95 under 500ms?
    plan serve llama-3.3-70b --on h100 --p 95 --ttft 500ms --rate 50/s
serve llama 8b on l4 with 2 requests per second, what is the 99th percentile latency
    serve llama-3.1-8b --on l4 --rate 2/s
do two 5060 ti 16gb beat one 3090 for qwen3 32b q4?
    compare serve qwen3-32b --on 2x5060-ti-16gb,3090 --weights q4_k_m
dual epyc with 512gb ram and a 4090, deepseek r1 q4, how fast?
    serve deepseek-r1 --on 4090 --host-memory 512GB --weights q4_k_m
vram needed for full finetune of llama 3 8b
    train llama-3-8b --on h100
how much vram for qlora of llama 70b
    train llama-3.3-70b --on h100 --lora 16 --qlora
does qwen3 8b fit on a h100 1g.20gb
    fit qwen3-8b --on h100-1g.20gb
longest context for qwen2.5 32b on 2x3090
    plan carries qwen2.5-32b --on 2x3090
what embedding model fits on l4
    what-runs --on l4 --kind reader
best reranker for 8gb vram
    what-runs --on rtx-4060 --kind reader
how many h100 do I need to serve llama 70b to 200 users
    plan serve llama-3.3-70b --on h100 --users 200
gpt-oss 120b with a 3090 and 128gb ddr5
    serve gpt-oss-120b --on 3090 --host-memory 128GB
qwen3 30b on a 3060 12gb and 32 gb of ram
    serve qwen3-30b --on 3060-12gb --host-memory 32GB
deepseek r1 671b on epyc 9654 with 768gb ram
    fit deepseek-r1-671b --on epyc-9654 --memory 768GB
what can i run on a 4060 ti 16gb with 64gb system ram
    what-runs --on 4060ti-16gb --host-memory 64GB
can I run deepseek r1 on 8 h100s
    fit deepseek-r1 --on 8xh100
will qwen3 32b fit on a single rtx 4090 in 4 bit?
    fit qwen3-32b --on rtx-4090 --weights int4
how long to train a 7b on 1T tokens with 64 a100
    train 7b --on 64xa100 --tokens 1T
how long does it take to pretrain llama 3.1 8b on 15T tokens using 512 h100 gpus?
    train llama-3.1-8b --on 512xh100 --tokens 15T
cost to finetune llama 3.1 8b on 10M tokens
    plan finetune llama-3.1-8b --tokens 10M
cheapest way to serve mixtral 8x7b at 10 requests per second
    plan serve mixtral-8x7b --rate 10/s
h100 vs a100 for llama 3.1 8b
    compare serve llama-3.1-8b --on h100,a100
which is faster for qwen3 32b, 2x h100 or 4x l40s
    compare serve qwen3-32b --on 2xh100,4xl40s
tokens per second of qwen2.5 7b q4_k_m on rtx 3060
    serve qwen2.5-7b --on rtx3060 --weights q4_k_m
how much vram does llama 3 8b need
    fit llama-3-8b --on h100
qlora llama 3.1 70b on 2x 3090
    train llama-3.1-70b --on 2x3090 --lora 16 --qlora
can i full finetune mistral 7b on 8 a100 80gb
    train mistral-7b --on 8xa100-80gb
what is the best gpu to serve gpt-oss-120b to 50 users
    plan serve gpt-oss-120b --users 50
llama 3.1 8b with 32k context on a 4090
    fit llama-3.1-8b --on 4090 --context 32k
throughput of llama-3.1-70b fp8 on 4xh100 with vllm at concurrency 64
    serve llama-3.1-70b --on 4xh100 --engine vllm --concurrency 64 --weights fp8
what models can I run on my macbook pro m3 max
    what-runs --on macbook-pro-m3-max
what can a 3090 run
    what-runs --on 3090
train a 13b model on 300 billion tokens within 30 days, what do i need
    plan train 13b --tokens 300B --deadline 30d
i have $50k, can I train a 3b on 1 trillion tokens
    plan train 3b --budget 50k --tokens 1T
serve llama 3.3 70b with time to first token under 500 ms and 30 ms per token at 20 req/s
    plan serve llama-3.3-70b --ttft 500ms --tpot 30ms --rate 20/s
gemma 3 27b on two 3090s speed
    serve gemma-3-27b --on 2x3090 --weights q4_k_m
is mi300x better than h200 for deepseek v3?
    compare serve deepseek-v3 --on 4xmi300x,8xh200
fine tune qwen 7b lora rank 64 on a10g
    train qwen-7b --on a10g --lora 64
mixtral 8x22b on 8xa100-80gb batch 32
    fit mixtral-8x22b --on 8xa100-80gb --batch 32
how fast is llama.cpp with llama 3.1 8b q8_0 on m2 ultra
    serve llama-3.1-8b --on m2-ultra --engine llama-cpp --weights q8_0
run deepseek v3 with sglang on 2 nodes of 8 h100
    fit deepseek-v3 --on 16xh100 --engine sglang
how many gpus to train llama 3 70b
    plan train llama-3-70b
how many a100s to finetune llama 3 70b with lora
    plan finetune llama-3-70b --on a100
what will it cost to train a 1b model on 20B tokens on 8xh100
    train 1b --on 8xh100 --tokens 20B
phi-4 on a t4
    fit phi-4 --on t4
tpu v5e-8 llama 2 7b training
    train llama-2-7b --on tpu-v5e-8
aws p5.48xlarge llama 3.1 405b fp8
    fit llama-3.1-405b --on aws:p5.48xlarge --weights fp8
compare h100 and b200
    compare h100 b200
which gpu should i buy to run qwen3 30b a3b at home
    plan serve qwen3-30b-a3b --users 1
what's the tok/s of gpt-oss-20b on an RTX 5090?
    serve gpt-oss-20b --on rtx-5090
Can a Mac Studio M3 Ultra run DeepSeek V3?
    fit deepseek-v3 --on mac-studio-m3-ultra
How many tokens/s would 8xB200 give for deepseek-r1 at 128 concurrent requests?
    serve deepseek-r1 --on 8xb200 --concurrency 128
how much memory does fine-tuning mistral 7b with lora need
    train mistral-7b --on h100 --lora 16
time to train gpt-3 175b on 1024 a100s for 300B tokens
    train gpt-3-175b --on 1024xa100 --tokens 300B
is it cheaper to serve llama 3.3 70b on h100 or on mi300x?
    compare serve llama-3.3-70b --on 2xh100,mi300x
rtx 5090 vs rtx 4090 for qwen3 14b
    compare serve qwen3-14b --on rtx-5090,rtx-4090 --weights q4_k_m
does phi-4 run on an rtx 3060 12gb
    fit phi-4 --on rtx-3060-12gb --weights q4_k_m
what can I run on 2x 5060 ti 16gb
    what-runs --on 2x5060-ti-16gb
l40s vs a10g
    compare l40s a10g
I want to pretrain a 1.5B model on 3T tokens using 128 h200 gpus
    train 1.5b --on 128xh200 --tokens 3T
cost of training a 70b on 2 trillion tokens
    plan train 70b --tokens 2T
serve qwen3-coder-30b-a3b on 4 l40s with 8k input and 1k output
    serve qwen/qwen3-coder-30b-a3b-instruct --on 4xl40s --prompt 8k --output 1k
what do i need to serve llama 3.1 405b to 1000 users
    plan serve llama-3.1-405b --users 1000
max batch size for llama 2 13b on a100 40gb
    fit llama-2-13b --on a100-40gb
full finetune of llama 3.1 8b on 4 a100
    train llama-3.1-8b --on 4xa100
sft qwen2.5-7b on 50 million tokens
    plan finetune qwen2.5-7b --tokens 50M
latency of llama 3.1 8b on l4 for 2000 token prompts
    serve llama-3.1-8b --on l4 --prompt 2000
how long would it take to finetune gemma 2 9b with qlora on one 4090 with 20M tokens
    train gemma-2-9b --on 4090 --tokens 20M --lora 16 --qlora
llama-3.1-70b int4 on 2 x rtx 4090 speed?
    serve llama-3.1-70b --on 2xrtx-4090 --weights int4
can I serve mistral small 24b at 5 rps with under 1s first token?
    plan serve mistral-small-24b --ttft 1s --rate 5/s
how fast is whisper large v3 on a t4
    serve whisper-large-v3 --on t4
will kimi k2 fit on 16 h200?
    fit kimi-k2 --on 16xh200
minimum hardware for llama 4 maverick
    plan serve llama4-maverick --users 1
tokens/s for llama 3 70b on 8xh100 using tensorrt-llm fp8 batch size 64
    serve llama-3-70b --on 8xh100 --engine tensorrt-llm --batch 64 --weights fp8
glm-4.6 on 8 mi355x
    fit glm-4.6 --on 8xmi355x
train resnet-50 on 8 a100
    train resnet-50 --on 8xa100
can 2 rtx 3090 cards run llama 3.3 70b q4?
    fit llama-3.3-70b --on 2xrtx-3090 --weights q4_k_m
how many users can a single h100 serve with mistral 7b
    plan carries mistral-7b --on h100
best hardware for training a 350m model on 10B tokens
    plan train 350m --tokens 10B
fine-tune llama 3.1 70b on 8 h200 with 4k sequence length
    train llama-3.1-70b --on 8xh200 --seq-len 4k --lora 16
what would it cost to pretrain olmo 2 7b on 4T tokens on h100s
    plan train olmo2-7b --on h100 --tokens 4T
how fast does gemma 3 12b run on a macbook air m4
    serve gemma-3-12b --on macbook-air-m4
a100 40gb or l40s for serving llama 3.1 8b to 100 users
    compare serve llama-3.1-8b --on a100-40gb,l40s --concurrency 100
cheapest cloud for finetuning qwen3 8b with 100M tokens in 24 hours
    plan finetune qwen3-8b --tokens 100M --deadline 24h
trn2 vs h100 for llama 3.1 70b training
    compare train llama-3.1-70b --on aws:trn2,h100
how many tpu v5p chips to train a 30b model on 600B tokens in 2 weeks
    plan train 30b --on tpu-v5p --tokens 600B --deadline 14d
serving qwen3-235b-a22b fp8 with sglang on 8 h20 at 2 req/s
    serve qwen3-235b-a22b --on 8xh20 --engine sglang --rate 2/s --weights fp8
What hardware do I need to run Llama 3.3 70B locally?
    plan serve llama-3.3-70b --users 1
Can my RTX 4080 run Mixtral?
    fit mixtral --on rtx-4080
how big a batch can i use for llama 3.1 8b training on an a100 80gb
    train llama-3.1-8b --on a100-80gb
is an 8xA100 node enough to full fine-tune a 13B?
    train 13b --on 8xa100
how long to fine-tune qwen2.5-14b on 5M tokens on a single 3090
    train qwen2.5-14b --on 3090 --tokens 5M --lora 16
Which is cheaper for training llama 3.1 8b: 8xH100 or 8xMI300X?
    compare train llama-3.1-8b --on 8xh100,8xmi300x
ollama llama3.1:8b on a m1 pro 16gb
    fit llama-3.1-8b --on m1-pro-16gb --engine ollama
how many A100-80GB to train a 20B model on 400B tokens in a month
    plan train 20b --on a100-80gb --tokens 400B --deadline 30d
can 2 RTX 4090 do QLoRA of a 70B model?
    train 70b --on 2xrtx-4090 --lora 16 --qlora
Estimate training time of GPT-2 1.5B on 8 V100 for 40B tokens
    train gpt2-1.5b --on 8xv100 --tokens 40B
serve deepseek-r1 to 500 users under 2s TTFT
    plan serve deepseek-r1 --ttft 2s --users 500
what is the max context for llama 3.1 8b on rtx 4090
    plan carries llama-3.1-8b --on rtx-4090
how much would it cost to pretrain a 7B on 2T tokens on AWS
    plan train 7b --cloud aws --tokens 2T
tpu v6e vs h100 for serving llama 3.1 70b
    compare serve llama-3.1-70b --on 8xtpu-v6e,2xh100
speed of phi-4 on a strix halo
    serve phi-4 --on strix-halo
cheapest gpu for llama 3.1 8b inference
    plan serve llama-3.1-8b --users 1
can a g5.2xlarge serve mistral 7b
    serve mistral-7b --on aws:g5.2xlarge
vllm throughput llama-3.1-8b a100 batch 128
    serve llama-3.1-8b --on a100 --engine vllm --batch 128
p4d.24xlarge llama 2 70b training tokens per second
    train llama-2-70b --on aws:p4d.24xlarge
time to first token for a 32k prompt on llama 3.1 70b with 8 h100
    serve llama-3.1-70b --on 8xh100 --prompt 32k
h200 vs b200
    compare h200 b200
is 24gb vram enough for qwen3 32b
    fit qwen3-32b --on rtx-4090 --weights q4_k_m
Is 24GB enough for Llama 3.1 8B?
    fit llama-3.1-8b --on rtx-4090
is a 16gb card enough for qwen3-14b at 4-bit
    fit qwen3-14b --on rtx-4060-ti-16gb --weights int4
gemma3 27b q4 on 24gb
    fit gemma-3-27b --on rtx-4090 --weights q4_k_m
will 2x 16gb cards work for 32b q4
    fit 32b --on 2xrtx-4060-ti-16gb --weights q4_k_m
best model for 8gb vram
    what-runs --on rtx-4060
which llama model fits in 16gb
    what-runs llama --on rtx-4060-ti-16gb
What's the best model I can run on 2x3090 with 48GB VRAM?
    what-runs --on 2x3090
what can I run on macbook m4 pro 48gb
    what-runs --on m4-pro-48gb
gpt-oss-20b on 16GB Mac mini M4
    fit gpt-oss-20b --on mac-mini-m4-16gb
AMD Ryzen AI Max+ 395 128GB llama 70b tokens per second
    serve llama-3.3-70b --on ryzen-ai-max-395-128gb
can my laptop with rtx 4060 8gb run llama 3 8b
    fit llama-3-8b --on rtx-4060-laptop-8gb --weights q4_k_m
laptop 4090 16gb vs desktop 4080 for llm
    compare 4090-laptop-16gb 4080
Mi50 32GB x2 for qwen3 32b
    fit qwen3-32b --on 2xmi50-32gb
v100 32gb sxm2 for local llm
    what-runs --on v100-32gb-sxm2
Is it worth it to buy a second 3090 for 70b models?
    fit 70b --on 2x3090 --weights q4_k_m
is llama 3.1 70b ok on a 6000 ada with q8 kv cache
    fit llama-3.1-70b --on 6000-ada --kv-cache q8_0
train qwen3 8b with deepspeed on 8xh100
    train qwen3-8b --on 8xh100 --engine deepspeed
fine-tune mistral 7b with axolotl on 2 a100
    train mistral-7b --on 2xa100 --engine axolotl --lora 16
does llama 3.1 8b fit on a 3090 in 4 bit with 8-bit kv cache
    fit llama-3.1-8b --on 3090 --kv-cache int8 --weights int4
does llama 3.1 8b fit on a 3090 with the kv cache quantized to 4 bits
    fit llama-3.1-8b --on 3090 --kv-cache q4_0
does llama 3.1 8b fit on a 3090 with a bf16 kv cache
    fit llama-3.1-8b --on 3090 --kv-cache bf16
how much vram is an rtx 4090
    specs show rtx-4090
h100 memory bandwidth
    specs show h100
b200 tflops fp8
    specs show b200
how many l4s for 200 embeddings per second with bge-m3
    serve bge-m3 --on l4 --rate 200/s
what gpu do i need for bge-m3 at 500 documents per second
    compare serve bge-m3 --on l4,a10g,h100 --rate 500/s
cheapest h100 cloud
    prices list h100
price of a100 on aws
    prices list a100 aws
lambda h100 price per hour
    prices list h100 lambda
mi355x vs b200
    compare mi355x b200
h100 pcie vs sxm
    compare h100-pcie h100-sxm
difference between a100 40gb and 80gb
    compare a100-40gb a100-80gb
fp8 vs bf16 llama 70b on h100
    compare serve llama-3.3-70b --on h100 --weights fp8,bf16
llama.cpp vs vllm speed on 4090 for qwen3 14b
    compare serve qwen3-14b --on 4090 --engine llama-cpp,vllm
rtx 5090 vs 4090 for flux
    compare serve flux --on rtx-5090,4090
run flux on a 4070
    fit flux --on 4070
Is 8GB VRAM enough for Stable Diffusion XL?
    fit stable-diffusion-xl --on rtx-4060
SDXL images per hour on L4
    serve sdxl --on l4
how fast is wan 2.2 14b on a 4090
    serve wan2.2 --on 4090
best gpu for fine tuning llama 3 8b under $2000
    plan finetune llama-3-8b --budget 2000
pytorch fsdp llama 3 8b out of memory 4x a100 40gb
    train llama-3-8b --on 4xa100-40gb --engine pytorch-fsdp
SLA 1s TTFT 50ms TPOT llama 70b 10 rps hardware
    plan serve llama-3.3-70b --ttft 1s --tpot 50ms --rate 10/s
how many b200 to serve deepseek r1 at 50 tok/s per user for 1000 users
    plan serve deepseek-r1 --on b200 --tpot 20ms --users 1000
exllama 70b 4bpw on 48gb vram
    fit 70b --on rtx-a6000 --engine exllama --weights exl2-4.0
Deepseek R1 distill 32B on 24GB
    fit deepseek-r1-distill-32b --on rtx-4090 --weights q4_k_m
mistral large 123b on 4x3090
    fit mistral-large-2-123b --on 4x3090 --weights q4_k_m
what hardware for 1T parameter model
    plan serve 1000b --users 1
vLLM max-model-len 32768 on 2x A10G with Qwen2.5-14B
    fit qwen2.5-14b --on 2xa10g --engine vllm --context 32768
How many concurrent users can one 4090 support with Llama 3 8B?
    plan carries llama-3-8b --on 4090
train a 1B model from scratch on 8 H100s how long
    train 1b --on 8xh100
Which Qwen3 model fits on RTX 5080?
    what-runs qwen3 --on rtx-5080
gpu memory needed for 1 million token context llama 3.1 8b
    fit llama-3.1-8b --on h100 --context 1M
what t/s do you get on 3090 with gemma 3 27b q4
    serve gemma-3-27b --on 3090 --weights q4_k_m
flux schnell 4090 seconds per image
    serve flux-schnell --on 4090
Can my gaming laptop (RTX 4070, 32GB RAM) run GLM-4.7-Flash?
    serve glm-4.7-flash --on rtx-4070-laptop --host-memory 32GB
I've got a Ryzen 7700X, 64GB DDR5 and a 4070 Super. Can I run Qwen3-Next 80B?
    serve qwen3-next-80b --on 4070-super --host-memory 64GB
CUDA out of memory when fine-tuning llama 2 7b on a single A100 40GB
    train llama-2-7b --on a100-40gb --lora 16
Dual 3090 or single 4090 for LLM inference?
    compare serve llama-3.1-8b --on 2x3090,4090
which is better, a 4090 or two 3090s
    compare serve llama-3.1-8b --on 4090,2x3090
"""
"""Questions as strangers put them, written before the reader of them was, each with the command that answers it."""
HINTED = """
deepseek v3.2 on 8xb200, 100 concurrent users, 4k in
    serve deepseek-v3.2 --on 8xb200 --concurrency 100
train nanogpt 124m on one 4090
    train 124m --on 4090
how many tokens per day can 4 H100s generate with llama 3.1 70b fp8
    serve llama-3.1-70b --on 4xh100 --weights fp8
price to serve 1M tokens of qwen3-32b on an l40s
    serve qwen3-32b --on l40s
run qwen3-4b on a raspberry pi
    fit qwen3-4b --on h100
memory needed to train llama 3.1 8b with adamw
    train llama-3.1-8b --on h100
i want to serve 10 million tokens per day with llama 3.1 8b
    plan serve llama-3.1-8b --users 1
what is the best coding model for 24gb vram
    what-runs --on rtx-4090
glm-4.6 with 128gb ram and 24gb vram
    serve glm-4.6 --on rtx-4090 --host-memory 128GB
how many layers of llama 70b q4_k_m fit on a 3090
    fit llama-3.3-70b --on 3090 --weights q4_k_m --host-memory 64GB
DGX Spark vs Strix Halo vs Mac Studio for gpt-oss 120b
    compare serve gpt-oss-120b --on dgx-spark,strix-halo
awq vs gptq qwen3 32b
    fit qwen3-32b --on h100 --weights int4
does llama 3.1 8b fit on a 3090 with a quantized kv cache
    fit llama-3.1-8b --on 3090
can i finetune mistral 7b on a t4 colab
    train mistral-7b --on t4 --lora 16
best gpu under 500 dollars for qwen3 14b
    plan serve qwen3-14b --users 1
is it cheaper to buy or rent 8 h100 for llama 70b
    serve llama-3.3-70b --on 8xh100
carbon footprint of training llama 8b on 64 h100 for 1T tokens
    train llama-3.1-8b --on 64xh100 --tokens 1T
"""
"""Questions of which a word is not understood: nothing is answered, and the nearest command is told."""


def pairs(text: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in text.strip().splitlines()]
    return list(zip(lines[::2], lines[1::2], strict=True))


def test_questions_mean_the_commands_that_answer_them() -> None:
    wrong = [(asked, str(meant(asked))) for asked, command in pairs(ANSWERED) if meant(asked) != meant(asked)._replace(whole=True)]
    wrong += [(asked, got) for asked, command in pairs(ANSWERED) if (got := command_meant([asked])) != f"gpuplan {command}"]
    assert not wrong


def test_what_is_not_understood_is_not_answered() -> None:
    assert [(asked, command_meant([asked]), meant(asked).whole) for asked, _ in pairs(HINTED)] == [
        (asked, f"gpuplan {command}", False) for asked, command in pairs(HINTED)
    ]


def test_commands_that_are_told_take_their_options() -> None:
    """Every answered fit, train or serve command is one that the reader of plain options takes as it is."""
    for _, command in pairs(ANSWERED):
        task, *words = command.split()
        if task in ASKS:
            assert given_by(task, words) is not None, command


def test_who_says_nothing_of_others_is_one_user() -> None:
    """A plan of serving wants a load; without one the question would be answered with an error."""
    for asked, command in pairs(ANSWERED):
        if command.startswith("plan serve "):
            assert any(f"--{load} " in command for load in ("users", "rate", "concurrency")), asked


def test_every_amount_that_can_be_said_is_an_option_of_some_command() -> None:
    assert set(manners()) == {key for keys in _OF.values() for key in keys}


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("at 300 requests per minute", {"rate": "300/min"}),
        ("10k users", {"users": "10k"}),
        ("2,000 token prompts and 500 token answers", {"prompt": "2000", "output": "500"}),
        ("ttft below 0.5 s", {"ttft": "0.5s"}),
        ("a budget of 1.5 million dollars", {"budget": "1.5M"}),
        ("in a month", {"deadline": "30d"}),
        ("128k context", {"context": "128k"}),
        ("with 32k", {"context": "32k"}),
        ("at iq4_xs", {"weights": "iq4_xs"}),
        ("q6", {"weights": "q6_k"}),
        ("in 8-bit", {"weights": "int8"}),
        ("64 concurrent requests", {"concurrency": "64"}),
        ("1200 tokens per second", {}),
        ("15 t tokens", {"tokens": "15T"}),
    ],
)
def test_amounts(text: str, given: dict[str, str]) -> None:
    assert amounts(text).given == given


def test_no_two_manners_are_the_same() -> None:
    assert len({pattern.said.pattern for pattern in PATTERNS}) == len(PATTERNS)


def test_a_sentence_is_answered_and_the_command_is_said(call: Call) -> None:
    asked = call("does llama 3.1 8b fit on a single rtx 4090?")
    assert asked.code == 0
    assert asked.err.startswith("asked as: gpuplan fit llama-3.1-8b --on rtx-4090\n")
    assert asked.out == call("fit", "llama-3.1-8b", "--on", "rtx-4090").out


def test_a_sentence_that_is_not_understood_whole_is_refused(call: Call) -> None:
    asked = call("does llama 3.1 8b fit on a purple rtx 4090?")
    assert (asked.code, asked.out) == (2, "")
    assert "such as `gpuplan fit llama-3.1-8b --on rtx-4090`" in asked.err
    assert call("hello world").code == 2


def test_models_that_are_compared_like_machines_are_told_how(call: Call) -> None:
    asked = call("compare", "llama-3.1-8b", "--on", "h100,a100")
    assert asked.code == 2
    assert "`gpuplan compare serve llama-3.1-8b --on h100,a100`" in asked.err


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("glm 4.5 air on 64gb mac", "a Mac is named by its chip and its memory"),
        ("running llama on cpu only with 32gb ram", "a processor is named too"),
        ("two different gpus 3090 and 3060 for llama 70b", "unlike cards beside each other are not answered for"),
        ("best model for raspberry pi 5 8gb", "no engine has a profile for it"),
        ("cost to train gpt-4", "OpenAI publishes neither its size nor its weights"),
        ("is 128gb unified memory enough for glm 4.5 air", "such as `--on m4-max-128gb` or `--on strix-halo-128gb`"),
        ("does llama 3.1 8b fit on a purple rtx 4090", "not understood: `purple`"),
        ("what gpu do i need", "name a model and what it runs on"),
        ("best gpu under 500 dollars", "500 USD is paid once, and prices on record are those of renting"),
        ("should i buy or rent 8 h100 for llama 70b", "a machine of one's own is said with `--own USD`"),
        ("carbon footprint of llama 8b on h100", "carbon is said with `--grid`"),
        (
            "is llama 3.1 8b fine with 8gb vram, how fast",
            "8 GB is the memory of several cards, such as `rtx-4060`: say which of them",
        ),
    ],
)
def test_what_a_question_leaves_open_is_told(call: Call, asked: str, said: str) -> None:
    got = call(asked)
    assert (got.code, got.out) == (2, "")
    assert said in got.err


def test_counts_of_parts_are_compared_by_a_model_that_is_taken_and_said(call: Call) -> None:
    asked = call("which is better, a 4090 or two 3090s")
    assert asked.code == 0
    assert "note: no model is said: llama-3.1-8b is taken" in asked.err
    assert asked.out == call("compare", "serve", "llama-3.1-8b", "--on", "4090,2x3090").out


def test_memory_alone_is_answered_by_a_card_of_that_size_which_is_said(call: Call) -> None:
    asked = call("is 24gb vram enough for qwen3 32b")
    assert asked.code == 0
    assert "24 GB is the memory of several cards, such as `rtx-4090`" in asked.err
    assert "note: in q4_k_m, as one user mostly runs it: as published it does not fit" in asked.err
    assert asked.out == call("fit", "qwen3-32b", "--on", "rtx-4090", "--weights", "q4_k_m").out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("llama-server -m qwen3-32b-q4_k_m.gguf -ngl 99 -c 8192", ("serve", "--on", "rtx-4090")),
        ("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2", ("serve", "--on", "2xh100")),
        ("python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-R1 --tp 8", ("serve", "--on", "8xh100")),
        ("docker run --gpus all vllm/vllm-openai --model mistralai/Mistral-7B-v0.1", ("serve", "--on", "h100")),
        ("ollama run llama3.1:70b", ("serve", "--on", "rtx-4090")),
        ("trtllm-serve meta-llama/Llama-3.1-8B-Instruct --tp_size 2", ("serve", "--on", "2xh100")),
    ],
)
def test_a_pasted_command_of_an_engine_is_told_what_reads_it(text: str, words: tuple[str, ...]) -> None:
    assert meant(text) == Meant((*words, "--command", text), whole=False, why=SAY_WHERE)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("torchrun --nproc_per_node 8 --nnodes 2 train.py --model llama-3.1-8b", "train llama-3.1-8b --on 16xh100"),
        (
            "accelerate launch --num_processes 4 sft.py --model Qwen/Qwen3-8B --per_device_train_batch_size 2 --lora_r 8",
            "train Qwen/Qwen3-8B --on 4xh100 --engine accelerate --micro-batch 2 --lora 8",
        ),
        ("accelerate launch train.py", "train llama-3.1-8b --on h100 --engine accelerate"),
        ("deepspeed --num_gpus 8 train.py --lora_alpha 32", "train llama-3.1-8b --on 8xh100 --engine deepspeed"),
        ("python finetune.py --seq_len 4096 --learning_rate 1e-4", "train llama-3.1-8b --on h100 --seq-len 4096"),
    ],
)
def test_a_pasted_command_that_trains_is_told_the_question(text: str, command: str) -> None:
    assert str(meant(text)) == f"gpuplan {command}"
    assert not meant(text).whole


@pytest.mark.parametrize(
    ("text", "more", "asked", "unread"),
    [
        (
            "torchrun --nproc_per_node 8 train.py --model qwen3-8b --per_device_train_batch_size 2 --gradient_accumulation_steps 4"
            " --gradient_checkpointing True --optim paged_adamw_8bit --fp16 false --learning_rate 2e-5",
            ("--on", "a100"),
            "train qwen3-8b --on 8xa100 --micro-batch 2 --recompute full --optimizer adamw-8bit --global-batch 64",
            "not read: --learning-rate 2e-5",
        ),
        (
            "accelerate launch sft.py --model Qwen/Qwen3-8B --load_in_4bit", ("--on", "rtx-4090", "--seq-len", "2048"),
            "train Qwen/Qwen3-8B --on rtx-4090 --engine accelerate --qlora --lora 16 --seq-len 2048", "",
        ),
        # What is said beside the command counts: its rank in place of the usual one, its accelerators for what is accumulated.
        (
            "accelerate launch sft.py --model Qwen/Qwen3-8B --load_in_4bit", ("--on=rtx-4090", "--lora", "8"),
            "train Qwen/Qwen3-8B --on rtx-4090 --engine accelerate --qlora --lora 8", "",
        ),
        (
            "torchrun train.py --model qwen3-0.6b --per_device_train_batch_size 2 --gradient_accumulation_steps 4",
            ("--on", "2xa100"), "train qwen3-0.6b --on 2xa100 --micro-batch 2 --global-batch 16", "",
        ),
        (
            "torchrun train.py --model qwen3-0.6b --per_device_train_batch_size 2 --gradient_accumulation_steps 4",
            ("--on", "2xa100", "--global-batch", "32"), "train qwen3-0.6b --on 2xa100 --micro-batch 2 --global-batch 32", "",
        ),
        (
            "torchrun train.py --model qwen3-0.6b --per_device_train_batch_size 2 --gradient_accumulation_steps 4",
            ("--on", "2xa100", "--tp", "2", "--engine", "megatron-lm"),
            "train qwen3-0.6b --on 2xa100 --micro-batch 2 --tp 2 --engine megatron-lm", "not read: --gradient-accumulation-steps 4",
        ),
        ("vllm serve Qwen/Qwen3-8B -tp 2", ("--on", "a100"), "serve --on 2xa100 --command 'vllm serve Qwen/Qwen3-8B -tp 2'", ""),
        ("ollama run qwen3:8b", ("--on", "rtx-3090"), "serve --on rtx-3090 --command 'ollama run qwen3:8b'", ""),
    ],
)  # fmt: skip
def test_a_pasted_command_with_its_place_is_answered(
    call: Call, text: str, more: tuple[str, ...], asked: str, unread: str
) -> None:  # fmt: skip
    made = call(text, *more, "--brief")
    assert made.code == 0
    assert f"asked as: gpuplan {asked} --brief" in made.err
    assert unread in made.err
    assert ("not read" in made.err) == bool(unread)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("vllm serve Qwen/Qwen3-8B", "--rate", "2"), "it is not said what the command runs on"),
        (("torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32", "--on", "a100"), "does not say its model"),
    ],
)
def test_a_pasted_command_that_lacks_something_says_what(call: Call, words: tuple[str, ...], said: str) -> None:
    made = call(*words)
    assert made.code == 2
    assert said in made.err


def test_models_that_no_single_card_holds_are_compared_on_as_many_as_do() -> None:
    assert str(meant("mi300x vs h100 for llama 405b")) == "gpuplan compare serve llama-3.1-405b --on 8xmi300x,16xh100"
    assert str(meant("4090 vs 3090 for llama 8b")) == "gpuplan compare serve llama-3.1-8b --on 4090,3090"
    assert str(meant("8xmi300x vs 8xh100 for llama 405b")) == "gpuplan compare serve llama-3.1-405b --on 8xmi300x,8xh100"


def test_a_spec_page_takes_what_on_takes(call: Call) -> None:
    shown = call("specs", "show", "mac-mini-m4-pro-64gb")
    assert (shown.code, shown.out) == (0, call("specs", "show", "apple-m4-pro").out)
    assert "was taken as `apple-m4-pro`" in shown.err
    assert "name one: `rx-5600-xt`" in call("specs", "show", "Navi 10 [Radeon RX 5600 OEM/5600 XT / 5700/5700 XT]").err
    assert call("compare", "mac-mini-m4-pro-64gb", "rtx-5090").code == 0


def test_a_model_that_no_machine_holds_is_not_told_of_a_count_that_nobody_gave(call: Call) -> None:
    asked = call("plan", "serve", "glm-4.6", "--on", "5090", "--weights", "fp8", "--users", "1")
    assert asked.code == 3
    assert "and no machine that is allowed has as much" in asked.err
    assert "--count" not in asked.err


def test_a_pasted_command_need_not_be_quoted(call: Call) -> None:
    asked = call("vllm", "serve", "Qwen/Qwen3-32B", "-tp", "2")
    assert asked.code == 2
    assert "`gpuplan serve --on 2xh100 --command 'vllm serve Qwen/Qwen3-32B -tp 2'`" in asked.err


@pytest.mark.parametrize(
    "text",
    [
        "how fast is vllm", "vllm vs sglang", "torch", "deepspeed on 8 h100", "vllm serve speed on h100 with qwen3 8b",
        "ollama run llama3.1:8b on 3090", "train qwen3 8b with deepspeed on 8xh100", "fine-tune mistral 7b with axolotl on 2 a100",
        "how long does torchrun take for llama 8b on 8 h100", "finetune qwen3-8b with deepspeed --on 4090",
    ],
)  # fmt: skip
def test_words_about_an_engine_are_no_command_of_it(text: str) -> None:
    assert pasted(text) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ollama run llama3.1:70b", "serve --on rtx-4090 --command 'ollama run llama3.1:70b'"),
        ("axolotl train settings.yml", "train llama-3.1-8b --on h100 --engine axolotl"),
        ("python train.py", "train llama-3.1-8b --on h100"),
        ("srun torchrun --nproc-per-node 8 train.py", "train llama-3.1-8b --on 8xh100"),
    ],
)
def test_commands_without_arguments_are_commands(text: str, told: str) -> None:
    assert str(meant(text)) == f"gpuplan {told}"


def test_every_card_of_a_memory_has_so_much() -> None:
    catalog = Catalog.open()
    for one in table().cards:
        size = catalog.load(Accelerator, one.card).memory.capacity.value
        gigabytes = int(one.memory.removesuffix(" GB"))
        assert gigabytes * 1e9 <= size <= gigabytes * 2**30, one
        assert one.source in table().sources
