"""Documents that are shorter than a sequence: what their tokens see, and how many tokens are padding."""

from __future__ import annotations

from gpuplan.formulas.experts import LN2
from gpuplan.num import Count, Ratio, log2, minimum
from gpuplan.term import DEFINITION, Source, formula


@formula(Source("definition", "the second moment of the lengths over their mean: a document of l tokens is seen by l of them"))
def weighted_document(*, mean: Count, spread: Ratio) -> Count:
    """Length of the document of a token on average, from the mean of the lengths and their standard deviation over it.

    As many documents of 1,000 as of 3,000 tokens: a token's own has 2,500 on average.

    >>> weighted_document(mean=2000.0, spread=0.5)
    2500.0
    """
    return mean * (1 + spread**2)


@formula(DEFINITION)
def useful_tokens(*, tokens: Count, documents: Count, seq_len: Count) -> Count:
    """Tokens that are no padding where each sequence holds one document.

    Documents that fill half of their sequences, as Wikipedia's do of 512 tokens (arXiv 2107.02027):

    >>> useful_tokens(tokens=4096.0, documents=256.0, seq_len=512.0)
    2048.0
    """
    return tokens * documents / seq_len


@formula(
    Source(
        "derived", "order statistics sampled from an exponential distribution: each length is a least one and an exponential share",
        "https://en.wikipedia.org/wiki/Order_statistic", "Order statistics sampled from an exponential distribution",
        note="mean x (1 + spread x (1/2 + ... + 1/n)), with the sum as ln((n + 1/2) / 1.5); within 5 % of log-normal lengths whose"
        " spread is 0.3 to 1, up to 16 of them",
    )
)  # fmt: skip
def longest_sample(*, mean: Count, spread: Ratio, samples: Count, seq_len: Count) -> Count:
    """Tokens of the longest sample of a micro-batch on average, none beyond a sequence: what a collator pads the others to.

    Of eight samples whose lengths spread by 0.7 of their mean, the longest has 2.2 times the mean.

    >>> longest_sample(mean=200.0, spread=0.7, samples=1.0, seq_len=2048.0)
    200.0
    >>> round(longest_sample(mean=200.0, spread=0.7, samples=8.0, seq_len=2048.0))
    443
    """
    return minimum(seq_len, mean * (1 + spread * LN2 * log2((samples + 0.5) / 1.5)))


@formula(
    Source(
        "derived", "the longest of all ranks' samples, where ranks meet in each micro-batch",
        "https://en.wikipedia.org/wiki/Order_statistic", "Order statistics sampled from an exponential distribution",
        note="over n micro-batches that ranks take on their own what a rank is behind the others grows as the root of n",
    )
)  # fmt: skip
def waited_sample(*, own: Count, longest: Count, runs: Count, seq_len: Count) -> Count:
    """Tokens of a sample, padded, that ranks take as long as: beyond their `own` they wait for the rank with the longest.

    `runs`: micro-batches between two meetings. Liger Kernel's logs of SFTTrainer have 240 tokens to a sample on average and steps
    that take 1.2 times as long as such samples do on four ranks.

    >>> waited_sample(own=240.0, longest=290.0, runs=1.0, seq_len=512.0)
    290.0
    >>> waited_sample(own=240.0, longest=290.0, runs=4.0, seq_len=512.0)
    265.0
    """
    return minimum(seq_len, own + (longest - own) / runs**0.5)


@formula(DEFINITION)
def packed_count(*, micro_batch: Count, seq_len: Count, documents: Count) -> Count:
    """Documents of a micro-batch, from their mean length.

    21.55 in each sequence of 8,192 tokens, as Megatron Bridge packed Tulu 3 (its card of Moonlight, sft):

    >>> round(packed_count(micro_batch=1.0, seq_len=8192.0, documents=380.1), 2)
    21.55
    """
    return micro_batch * seq_len / documents


@formula(DEFINITION)
def sliced_count(*, documents: Count, tensors: Count, ranks: Count, each: Count) -> Count:
    """Slices of documents that are put in order where ranks exchange tokens for heads: `each` of a document for each rank.

    Four of each document on two ranks, eight times a layer:

    >>> sliced_count(documents=10.0, tensors=8.0, ranks=2.0, each=2.0)
    320.0
    """
    return documents * tensors * ranks * each
