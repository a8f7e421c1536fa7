"""How long is the document that a token sees, where sequences are packed of documents, and which tokens are no padding?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.formulas.basic import product, smaller
from gpuplan.formulas.documents import longest_sample, packed_count, useful_tokens, waited_sample, weighted_document
from gpuplan.plan.train import TrainPlan
from gpuplan.term import USER, Term

if TYPE_CHECKING:
    from gpuplan.workload.training import StepTerms


def seen_document(plan: TrainPlan, seq_len: Term) -> Term | None:
    """Tokens of the document of a token on average, within the sequence; None: sequences are whole, or padded documents."""
    if plan.documents is None or plan.padded:
        return None
    mean = _mean(plan.documents)
    if plan.document_spread is None:
        return mean
    spread = Term("plan.document_spread", plan.document_spread, "1", USER)
    return smaller.term("step.document", a=weighted_document.term("step.seen_document", mean=mean, spread=spread), b=seq_len)


def longest_of(plan: TrainPlan, micro_batch: Term, seq_len: Term) -> Term | None:
    """Tokens that each sequence of a micro-batch has, where a collator pads them to the longest; None: nothing is padded."""
    if plan.documents is None or not plan.padded:
        return None
    spread = Term("plan.document_spread", plan.document_spread or 0.0, "1", USER)
    return longest_sample.term(
        "step.padded_length", mean=_mean(plan.documents), spread=spread, samples=micro_batch, seq_len=seq_len
    )


def waited_of(plan: TrainPlan, micro_batch: Term, ranks: Term, runs: Term, seq_len: Term) -> Term | None:
    """The same where ranks wait for the one whose samples are longest, each time they meet after so many micro-batches."""
    own = longest_of(plan, micro_batch, seq_len)
    if own is None or not plan.document_spread:
        return own
    samples = product.term("step.samples_of_ranks", a=micro_batch, b=ranks)
    spread = Term("plan.document_spread", plan.document_spread, "1", USER)
    every = longest_sample.term(
        "step.longest_of_ranks", mean=_mean(plan.documents or 0.0), spread=spread, samples=samples, seq_len=seq_len
    )
    return waited_sample.term("step.waited_length", own=own, longest=every, runs=runs, seq_len=seq_len)


def not_padding(plan: TrainPlan, tokens: Term, seq_len: Term) -> Term | None:
    """Tokens of a step that are no padding, where each sequence is one document; None: all are."""
    if plan.documents is None or not plan.padded:
        return None
    return useful_tokens.term("step.useful_tokens", tokens=tokens, documents=_mean(plan.documents), seq_len=seq_len)


def packed_documents(plan: TrainPlan, step: StepTerms) -> Term | None:
    """Documents of a micro-batch; None: sequences are whole, or padded documents."""
    if plan.documents is None or plan.padded:
        return None
    return packed_count.term("step.documents", micro_batch=step.micro_batch, seq_len=step.seq_len, documents=_mean(plan.documents))


def _mean(length: float) -> Term:
    return Term("plan.documents", length, "1", USER)
