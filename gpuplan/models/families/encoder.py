"""Encoders and encoder-decoders: BERT, RoBERTa, MPNet, T5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.models.architecture import Architecture, Block, Mlp, Run, Stack
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import MOST_LAYERS, Reader, depth, finish
from gpuplan.models.mixers import Attention


def bert(c: Config) -> Architecture:
    """BERT, RoBERTa, XLM-RoBERTa and MPNet; what stands on top follows `architectures`."""
    hidden, heads = c.count("hidden_size"), c.count("num_attention_heads")
    if not c.problems and hidden % heads:
        c.problem("model.bad-field", f"{heads} heads do not divide the hidden width {hidden}", "correct the file")
    mpnet = c.text("model_type") == "mpnet"
    one = Attention(
        heads=heads, kv_heads=heads, head_dim=max(hidden // heads, 1), causal=False, qkv_bias=True, out_bias=True,
        relative_bias_buckets=c.count("relative_attention_num_buckets", default=32) if mpnet else 0,
    )  # fmt: skip
    block = Block(mixer=one, mlp=Mlp(width=c.count("intermediate_size"), gated=False, bias=True), norm="layer")
    stack = Stack(
        kind="encoder", blocks={"layer": block}, layers=(Run(block="layer", count=depth(c)),), final_norm=False, norm="layer"
    )
    kind = next((str(name) for name in c.items("architectures") or []), "Model")
    extra, more = _on_top(c, kind, hidden)
    return finish(
        c,
        [stack],
        tied=True,
        head=kind.endswith("ForMaskedLM"),
        positions=c.count("max_position_embeddings"),
        token_types=0 if mpnet else c.count("type_vocab_size"),
        embedding_norm="layer",
        extra=extra,
        **more,
    )


def _on_top(c: Config, kind: str, hidden: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Parameters after the last layer: a pooler, or the head of a task."""
    dense = hidden * hidden + hidden
    if kind.endswith("ForMaskedLM"):
        return {"head_transform": dense + 2 * hidden}, {"head_bias": True}
    if kind.endswith("ForPreTraining"):
        c.note("the pre-training heads of BERT are counted without the bias of the output", "model.note")
        return {"pooler": dense, "head_transform": dense + 2 * hidden, "next_sentence": 2 * hidden + 2}, {}
    if kind.endswith("ForSequenceClassification"):
        names = c.raw("id2label")
        labels = len(names) if isinstance(names, dict) and names else c.count("num_labels", default=2)
        return {"classifier": dense + (hidden + 1) * labels}, {}
    if not kind.endswith("Model"):
        c.unknown(f"`architectures` says `{kind}`, a head that gpuplan does not count", "known are …Model and …ForMaskedLM")
    return {"pooler": dense}, {}


def t5(c: Config) -> Architecture:
    """T5, T5 v1.1 and Flan-T5: an encoder, a decoder with cross attention, learned relative positions."""
    heads, head_dim = c.count("num_heads"), c.count("d_kv")
    layers = depth(c)
    decoder_layers = c.count("num_decoder_layers", default=layers, most=MOST_LAYERS)
    form = c.text("feed_forward_proj", default="relu")
    gated = form.startswith("gated-") or c.flag("is_gated_act", default=False)
    buckets = c.count("relative_attention_num_buckets", default=32)
    own = Attention(heads=heads, kv_heads=heads, head_dim=head_dim, causal=False, relative_bias_buckets=buckets)
    cross = Attention(heads=heads, kv_heads=heads, head_dim=head_dim, causal=False)
    mlp = Mlp(width=c.count("d_ff"), gated=gated)
    encoder = Stack(kind="encoder", blocks={"layer": Block(mixer=own, mlp=mlp)}, layers=(Run(block="layer", count=layers),))
    block = Block(mixer=own.replaced(causal=True), cross=cross, mlp=mlp, norms=3)
    decoder = Stack(kind="decoder", blocks={"layer": block}, layers=(Run(block="layer", count=decoder_layers),))
    kind = next((str(name) for name in c.items("architectures") or []), "")
    if kind == "T5EncoderModel":
        c.note("`architectures` says T5EncoderModel: the decoder is left out", "model.note")
        return finish(c, [encoder], tied=True, head=False)
    return finish(c, [encoder, decoder], tied=True)


READERS: Mapping[str, Reader] = {
    "bert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "mpnet": bert,
    "t5": t5,
}
"""`model_type` to the function that reads it."""
