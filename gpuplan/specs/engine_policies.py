"""What are the ways in which engines train: how they share states, sum gradients, hold logits, send tokens, spend time on the host?

Each policy is a small schema whose words name the variants; what an engine does not state is the plain variant, its default.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from gpuplan.schema import Limits, Schema
from gpuplan.specs.quantity import (
    BytesField,
    BytesPerSField,
    CountField,
    Measure,
    PartField,
    RatioField,
    SecondsField,
    Sourced,
)
from gpuplan.specs.system import Topology
from gpuplan.specs.training_habits import Share

Portion: TypeAlias = Annotated[Sourced, Measure("1", zero=True)]
StoredBytes: TypeAlias = Annotated[Sourced, Measure("B", zero=True)]


Scatters: TypeAlias = Literal["each-micro-batch", "each-run"]
"""How often the gradients of ZeRO-2 are scattered."""


class Sharding(Schema):
    """What data parallel ranks share, and how shards become weights."""

    stage: Annotated[int, Limits(0, 3)]
    """What is sharded unless the user says otherwise: ZeRO stage."""
    weights: Literal["cast", "copied"]
    """Sharded fp32 weights are cast as they are gathered, or a 16-bit copy lives beside the fp32 master weights."""
    gathered_layers: RatioField
    """Layers whose full weights are alive at once under ZeRO-3, the prefetched one included."""
    edges: Literal["together", "in-turn"] = "together"
    """Under ZeRO-3 embedding and head are gathered for the whole pass, or each where it is used."""
    in_pipelines: Literal["released", "gathered", "regathered"] = "released"
    """Under ZeRO-3 with pipeline stages, weights are released after each use; or they and unsharded gradients stay from the first
    micro-batch to the last; or the same, but each forward pass releases the weights, so that each backward pass gathers them, and
    what is summed is scattered after the last one (PyTorch's stages of fully_shard modules that reshard after the forward pass)."""
    highest: CountField | None = None
    """The highest stage that it has; None: all of them."""
    with_pipelines: CountField | None = None
    """The highest stage that it combines with pipeline stages; None: any."""
    stages_inside: bool = False
    """Ranks can be laid out so that the stages of a replica are neighbours, and not only the replicas of a stage."""
    offloaded: Literal["alone", "with-states"] = "alone"
    """Weights go to the host alone, or the optimizer's states do too, since its step runs where the weights are."""
    loaded: Literal["in-shards", "whole"] = "in-shards"
    """Whether each rank holds the whole model before it is cut into shards."""
    reduced: Literal["in-parts", "whole"] = "in-parts"
    """Under ZeRO-1 and ZeRO-2 each rank receives the sums of its part of the gradients, or of all, of which it keeps its part."""
    scatters: Scatters = "each-micro-batch"
    """Under ZeRO-2 gradients are scattered behind each micro-batch; or, where stages have several chunks, behind each run of
    micro-batches through one of them, whose gradients a rank sums whole meanwhile."""
    hook_host: SecondsField | None = None
    """Under ZeRO-3 on any number of ranks, host time of the hooks around one module in one pass, which fetch and release what it
    needs. A layer's modules are its matrices and norms, those that hold them, and what each adapter adds."""
    partition_host: SecondsField | None = None
    """Under ZeRO-3 on any number of ranks, host time to put the gradient of one tensor into its shard, in each micro-batch."""
    bucket_host: SecondsField | None = None
    """Under ZeRO-3, host time to empty a bucket of gradients, which one of a matrix fills."""
    gather_host: SecondsField | None = None
    """Under ZeRO-3, host time of one collective of a matrix: its gathers forward and backward, the scatter of its gradient."""
    adapter_host: SecondsField | None = None
    """Under ZeRO-3 on several ranks, host time around one matrix of an adapter in one pass, where each is sharded by itself and the
    host may be no more than two of them ahead, so that the accelerator waits for it; None: they travel with their layer."""
    gathered_copy: StoredBytes | None = None
    """Under ZeRO-3, traffic for each parameter that takes what was gathered to where layers read it, between their kernels; None:
    it is gathered to where it is read."""
    scattered_copy: StoredBytes | None = None
    """Under ZeRO-3, traffic for each parameter that lays gradients out as they are scattered, likewise."""
    slice_host: SecondsField | None = None
    """Under ZeRO-1, time for the slice of each rank of each tensor, where gradients are scattered tensor by tensor."""
    updated: Literal["in-forward", "behind-step"] = "in-forward"
    """Under ZeRO-1 and ZeRO-2, updated weights are gathered beside the next forward pass, or before it begins, beside nothing."""
    owner_hop: SecondsField | None = None
    """Under ZeRO-1 each tensor belongs to one rank: gradients are reduced for all, and behind the step each owner broadcasts its
    weights, round a ring; the time of a step of it."""


class Gradients(Schema):
    """In which type gradients are kept and travel, where they meet, and how long they live."""

    kept: BytesField
    """Bytes of the gradient that is kept for each parameter in mixed precision."""
    kept_bf16: BytesField | None = None
    """The same in bf16 training, where fp32 sums live beside 16-bit gradients; None: `kept`."""
    bf16_sums: Literal["always", "of-pipelines"] = "always"
    """Those sums are there whenever training is in bf16, or of pipelines and where nothing is sharded: ZeRO's own optimizer keeps
    16-bit gradients alone."""
    reduced: BytesField | None = None
    """Bytes of a gradient element as it is reduced, where that is not how it is kept."""
    type: Literal["own", "as-reduced"] = "own"
    """Gradients that travel in 16 bits are kept in their own type, or as they travel: the step widens its shard of them to fp32."""
    made: Literal["once", "each-step"] = "once"
    """Gradients are buffers for the whole run, or are freed after each step: where one rank makes a step of one micro-batch, none
    are there at the loss."""
    shards: Literal["kept", "each-step"] = "kept"
    """Where they are freed after each step, ZeRO-3's shards of them are buffers for the run all the same (DeepSpeed), or are made
    by the backward pass as those of one rank are (FSDP)."""
    offloaded: Literal["with-weights", "with-states"] = "with-weights"
    """Gradients go to the host where weights do, or as they are made where the optimizer's states are there (ZeRO-Offload)."""
    sums: BytesField | None = None
    """Bytes of a gradient's sum that every rank keeps whole between the micro-batches of a step under ZeRO-3, since the last one
    alone scatters it (FSDP's no_sync); None: every micro-batch scatters its gradients."""
    added: StoredBytes | None = None
    """Traffic for each parameter that adding a micro-batch's gradient to the sum takes in a kernel of its own; None: the matmul
    that makes the gradient adds to the sum."""
    added_on: tuple[str, ...] = ()
    """Families of accelerators on which it takes one, where the matmuls of others add to the sum; none named: on all."""
    at_step: BytesField | None = None
    """Bytes that the optimizer's step makes for each parameter that a rank steps, beside its states: fp32 copies of 16-bit
    gradients, temporaries of an update that is no fused kernel; None: nothing."""
    stepped: CountField | None = None
    """Parameters of its shard that a rank steps at a time under ZeRO-3, where `at_step` is what sharding makes (DeepSpeed's
    sub-groups) and nothing of it without; None: all at once, sharded or not."""
    temporaries: Portion | None = None
    """Copies of the second moment that AdamW makes for a moment where nothing is sharded and kernels run over lists of tensors
    (PyTorch's `foreach`); None: one kernel updates in place."""
    stand_ins: StoredBytes | None = None
    """Bytes for each element of one matrix of each shape: tensors that autograd is handed where a matmul added the gradient to the
    sum itself, kept for the whole run; None: there are none."""
    bucket: BytesField
    """Communication buckets of gradients and parameters."""
    bucket_square: BytesField | None = None
    """Bytes of a bucket for each element of a square of the hidden width, in place of `bucket`."""
    buckets: Literal["apart", "views", "copies"] = "apart"
    """Buckets take memory of their own, or are parts of the buffers of gradients and weights, or hold every gradient once more for
    the whole run where nothing is sharded (DDP) and are apart elsewhere."""


class Piece(Schema):
    """Of how many tokens and words a loss that is made piece by piece takes the logits at once, and what it holds of them."""

    tokens: CountField | None = None
    """None: of all."""
    words: CountField | None = None
    """The part of the vocabulary that a piece has, one after the other; None: all of it."""
    logits: BytesField
    """For each logit, once they are made: what the loss keeps for its gradient, and its gradient."""
    head: StoredBytes
    """For each weight of the head as they are made: copies of it."""


class Loss(Schema):
    """How many bytes are alive for a logit of a micro-batch at the loss, and how many pass through memory."""

    streamed: BytesField
    """What is read and written there: 16-bit logits, their fp32 copy, their gradient."""
    alive: BytesField | None = None
    """What is held; None: as much as passes through."""
    split: BytesField | None = None
    """What is held where tensor parallel ranks share the vocabulary and the loss; None: as without."""
    output: Literal["dropped", "held"] = "dropped"
    """What a model gives out, logits among it, is gone as the backward pass begins, or is a variable of the loop until the next."""
    capped: Literal["kept", "remade"] = "kept"
    """What the tanh gives that caps a model's logits is kept for the backward pass, or the kernel of the loss makes it again."""
    graph: Literal["freed", "held"] = "freed"
    """What a micro-batch computed is forgotten when the next begins, or variables of the loop refer to it until the next forward
    pass is done: the backward pass frees what PyTorch saved, but not the inputs that matmuls of bitsandbytes keep, nor logits."""
    own: BytesField | None = None
    """The least that `alive` may be, beside the output, where a loop of one's own reduces 16-bit logits to the loss without
    autocast and lets them go: the low end of plain bf16. Where something widens them, what the model gives out may be let go.
    None: whoever trains takes the model's loss."""
    fp16: BytesField | None = None
    """What is held where a checkpoint of packed 4-bit weights (GPTQ, AWQ) is trained in fp16, all else cast to it, so that nothing
    widens the loss; None: as in bf16."""
    fused: BytesField | None = None
    """What is held of a logit of the piece at work where the head is fused with the loss; None: it is not."""
    fused_capped: Literal["as-others", "whole"] = "as-others"
    """A head that is fused with the loss caps its logits where the model does, or the loss of such models reads whole logits."""
    piece: Piece | None = None
    """Where it is chunked, a fixed number of tokens at a time; None: a share of them."""
    chunk: Share | None = None
    """Share of what is held that is alive where the loss is chunked; None: one chunk in eight."""


class Overlap(Schema):
    """Which share of communication, or of the computation that it may travel under, is hidden where nobody says."""

    dp: PartField
    """Of the backward pass, under which gradients are reduced."""
    scattered: Share | None = None
    """The same under ZeRO-2, where that is an option of its own; None: as `dp`."""
    summed: Share | None = None
    """The same under ZeRO-1, whose sums may wait for the end of the last backward pass; None: as `dp`."""
    gathered: Share | None = None
    """The same under ZeRO-3, of a pass beside which weights of the next layers are gathered too; None: as `dp`."""
    looped: Share | None = None
    """The same of models with experts in a compiled loop over layers: what comes before their products in a layer, or behind."""
    looped_on: tuple[str, ...] = ()
    """Families of accelerators whose compiler does not carry gathers over to the next pass unless it is told."""
    tp: PartField
    """Of the tensor-parallel collectives, hidden under matmuls."""
    tp_over: tuple[Topology, ...] = ()
    """The kinds of fabric inside a machine over which it hides them; empty: any."""
    ep: PartField
    """Of the computation under which tokens travel to experts and back."""
    pp: Share | None = None
    """Of the hand-overs between pipeline stages; None: nothing."""
    interleaved: Share | None = None
    """The same where a rank has several stages (chunks), which need not wait for each other; None: as `pp`."""


class Tensors(Schema):
    """How tensor parallel ranks cut layers and what they gather."""

    sequence: bool
    """Norms and residuals are sharded over the tensor-parallel group by default."""
    inputs: Literal["shared", "apart", "copied", "summed"] = "shared"
    """Matrices that read the same input share one gather of it, or each gathers its own and reduces its own gradient (DTensor), and
    keeps a copy of it as well (PaddlePaddle). `summed`: norms gather for all of them, but where nothing is gathered each product
    reduces the gradient of its own input, gate and up projection apart and queries, keys and values together."""
    gathered: Literal["again", "kept"] = "again"
    """What was gathered along the sequence for products is gathered again going back, or kept whole."""
    handed: Literal["as-held", "in-parts"] = "as-held"
    """Each rank sends the next pipeline stage what it holds (whole hidden states without sequence parallelism), or its own part
    of the hidden states, which the ranks there gather."""
    layout: Literal["sequence-first", "batch-first"] = "sequence-first"
    """Hidden states are [sequence, batch, width], of which each rank has a part that lies together, or [batch, sequence, width], so
    that what is gathered or scattered along the sequence is copied (DTensor)."""
    host: SecondsField | None = None
    """Further host time to issue one layer's forward pass where several ranks share it, as each operator asks how; None: none."""
    call: SecondsField | None = None
    """Host time to call one collective of the ranks that share a layer; None: it is in `host`, or nothing calls them (a compiled
    step)."""
    edges: Literal["cut", "whole", "gathered"] = "cut"
    """Embedding and head are cut, or ranks hold the embedding whole, the head too unless sequence parallelism is on, and gather the
    logits. `gathered`: both are cut, and all ranks gather the logits and make the whole loss."""


class Rotary(Schema):
    """How queries and keys are turned by operators of their own, where no kernel does all of it."""

    host: SecondsField | None = None
    """A third of what both passes take of the host in a layer with attention, for the sequences of a micro-batch together; None:
    nothing, they are replayed."""
    passes: RatioField | None = None
    """Reads and writes of queries and keys in the forward pass beyond those of one kernel; None: no more."""
    passes_backward: RatioField | None = None
    """The same of the backward pass."""
    documents: Literal["all", "each"] = "all"
    """Documents that sequences are packed of are turned together, or one after the other."""
    fused_of: tuple[int, ...] = ()
    """Parameters of the models whose queries and keys one kernel turns all the same, or that have no positions."""


class Host(Schema):
    """Time that the host takes: accelerators wait where their kernels are shorter."""

    layer: SecondsField
    """To issue one layer's forward pass."""
    bare: SecondsField | None = None
    """The same without the library of modules that the engine's layers are made of elsewhere; None: as `layer`."""
    bare_on: tuple[str, ...] = ()
    """Families of accelerators that the library does not serve: others' modules call their kernels there."""
    norm: SecondsField | None = None
    """What a norm takes there that is a module of its own: those of queries and keys, which are not in `layer`. None: no more."""
    rotary: Rotary | None = None
    """What turning queries and keys takes beyond `layer`; None: no more."""
    slice: SecondsField | None = None
    """To find a slice of a document in a tensor of which ranks exchange tokens for heads (Ulysses): the host reads both ends from
    the accelerator. None: a kernel finds all of them."""
    step: SecondsField
    """Of a step that belongs to no kernel: data loading, logging, loss scaling, optimizer launches."""
    tensor: SecondsField | None = None
    """Of a step for each product whose weights are trained, and each norm: gradient norm, optimizer launches; None: in `step`."""
    graph: SecondsField | None = None
    """To issue one layer's forward pass where kernels are replayed from graphs."""
    update: BytesPerSField | None = None
    """What the processors of a host read and write in a second where they update offloaded states; None: the accelerators do."""
    update_thread: BytesPerSField | None = None
    """The same of one thread, where launchers give each of several ranks of a host a single one; None: ranks have all of them."""


class Experts(Schema):
    """How tokens reach their experts, and what their matmuls take beyond others."""

    dispatch: Literal["each-copy", "once-a-node"] | None = None
    """Every copy of a token is sent, or copies for one node cross the network once and are passed on inside it (DeepEP, HybridEP);
    None: every copy, and what dispatchers change is not known."""
    capacity: Literal["one-hot"] | None = None
    """Where experts have a fixed capacity: `one-hot`, tokens reach their slots and come back by dense products with one-hot masks
    of each sequence (GShard's einsum); None: as without a capacity."""
    host: SecondsField | None = None
    """Further host time to issue the forward pass of each expert of a rank: its matmuls and casts, and its part of the sorting."""
    start: SecondsField | None = None
    """Time of the accelerator for each matmul of each expert of a rank beyond its share of them all: starts, unfilled ends."""
    up_bias: BytesField | None = None
    """Traffic of a forward pass for each element that the up projection of experts makes, where their biases are added expert by
    expert behind it; the backward pass takes twice as much. None: the products add them."""
    down_bias: BytesField | None = None
    """The same of the down projection, whose biases are weighted as its copies of tokens are."""
    padded: RatioField | None = None
    """The tokens of each expert are padded to those of the fullest, in slices: how many times those of the idlest the busiest has,
    unless the plan names a load or a skew; None: no padding."""


class Adapters(Schema):
    """What training low-rank adapters on frozen weights takes."""

    weight: BytesField | None = None
    """Bytes of an adapter's weight, of its gradient and of each moment; None: as the recipe trains other weights."""
    quantised: BytesField | None = None
    """The same beside weights that are quantised as they are loaded, unless losses are scaled, which wants fp32; None: `weight`."""
    moment: BytesField | None = None
    """Bytes of each moment of an adapter; None: as its weight."""
    unquantised: BytesField | None = None
    """Bytes of the weights that quantisation leaves as they are (embedding, head, norms); None: 2. Matmuls of weights
    that are quantised as they are loaded (bitsandbytes) give results in the type of their input: hidden states and what is made of
    them take as many."""
    dropout: BytesField | None = None
    """What dropout before an adapter keeps of each element that an adapted matrix reads: the dropped copy, which the adapter
    multiplies in place of the input, and its mask. Queries, keys and values are one matrix. None: the copy of what norms make."""
    kept: Literal["dropped", "input"] = "dropped"
    """What the adapters of matrices behind a norm keep of its result: their input and its copy after dropout, or, in functions that
    compute a matrix and its adapters at once without dropout, the input alone."""
    head: BytesField | None = None
    """Bytes of a weight of the head as it is widened where logits are made, if it is quantised with the layers; None: it is left
    as it is."""
    dequantise: BytesField | None = None
    """Traffic that widening one stored weight costs, as bytes at the bandwidth of streams."""
    dequantise_in_place: BytesField | None = None
    """The same of weights that were quantised as they were loaded (bitsandbytes), which one kernel widens; None: as the others."""
    host: SecondsField | None = None
    """Further host time to issue the forward pass of one adapted matrix: dropout, two thin matmuls, scaling, addition."""
    widened_host: SecondsField | None = None
    """Host time to widen one stored matrix, each time."""
    read: StoredBytes | None = None
    """Traffic of a forward pass for each element that an adapted matrix reads, beside the products: dropout; None: not counted."""
    made: StoredBytes | None = None
    """The same for each element that it makes: what the adapter made is scaled and added."""
    read_backward: StoredBytes | None = None
    """Traffic of the backward pass for each element that an adapted matrix reads: dropout, and the sum of two gradients."""
    made_backward: StoredBytes | None = None
    """The same for each element that it makes: its gradient is scaled."""
    hidden_passes: RatioField | None = None
    """Reads and writes of [tokens, hidden] in the layers that adapters are wrapped around, where these are another library's than
    the engine trains otherwise, and not compiled; None: they are the same."""
    rms_passes: Portion | None = None
    """Further ones of models with RMS norms, as in the profile itself."""
    kept_norm: StoredBytes | None = None
    """Bytes that norms of those layers keep for each element, as in the profile itself."""
    kept_gate: Share | None = None
    """Inner widths that their gates keep once more, likewise."""
    held_logits: BytesField | None = None
    """Bytes alive for each logit at the loss of that library."""


class Recomputing(Schema):
    """What is run again, and what a compiler makes of it."""

    blocks: Share | None = None
    """The share of layers that `selective` runs again in full; None: it does not pick layers."""
    policy: str | None = None
    """The policy of named results that `selective` means (`gpuplan.plan.remat`)."""
    keeps: Literal["core", "matmuls"] = "core"
    """What `selective` runs again where it picks no layers: the core of attention (Megatron), or all but every other matmul."""
    unread: Literal["made", "dropped"] = "made"
    """What nobody reads is made again too, or a compiler drops it: full recomputation leaves out the down projection."""
    kept: StoredBytes | None = None
    """Bytes of an element of the input that is kept of a layer that is run again: hidden states are fp32 where autocast casts what
    products read and not the weights that embed and norm, all of which are trained; None: as other activations."""
    remade_attention: tuple[str, ...] = ()
    """Families of accelerators on which selective recomputation by operators runs attention again (its kernel is not listed)."""


class AttentionPolicy(Schema):
    """How attention runs, and what it keeps."""

    scores: Literal["fused", "masked", "written"] = "fused"
    """Whether scores stay in the kernel or are written out, unless the user says otherwise; `masked`: they stay, but the kernel is
    handed a mask, and works on the pairs that it hides too."""
    fused_on: tuple[str, ...] = ()
    """Families of accelerators whose port of the engine has a fused kernel where others write the scores out."""
    kept: Portion | None = None
    """Widths of queries, keys and values that are kept once more: before and after rotary, cast or made contiguous."""
    kept_normed: Portion | None = None
    """Widths of queries and keys that are kept once more where a norm of their own reads them (Qwen3, OLMo 2): a kernel that keeps
    what it read; None: they are made again, or nobody knows."""
    kept_score: BytesField | None = None
    """Bytes that are kept for each score that is written out; None: as with dropout, of which a mask and a copy are kept."""
    heads: Literal["own", "repeated"] = "own"
    """Keys and values are kept as they are, or written out for every head of the queries before attention."""
    parts: Literal["own", "of-product"] = "own"
    """Queries, keys and values are tensors of their own, or views of the product that made them, all of which stays beside turned
    queries and keys because values are a part of it (where keys and values are not repeated for heads)."""
    working: BytesField | None = None
    """Bytes that the layer at work holds for each score that is written out, beyond those that it keeps: gradients of
    probabilities and scores; None: they take no more place than what they are made of."""
    fused_keys: CountField | None = None
    """Keys up to which scale, mask and softmax of scores that are written out are one kernel; None: always."""
    score_traffic: BytesField | None = None
    """Bytes that the kernels between the products read and write for each score that is written out; None: as a fused softmax."""
    score_traffic_backward: BytesField | None = None
    """The same in the backward pass."""
    context: Literal["passed", "gathered"] = "passed"
    """Context parallel ranks pass keys and values on, or gather those of the whole sequence at once (PyTorch), and hold sums of
    gradients in fp32 beside them (unless heads are exchanged for tokens)."""
    unfused_latent: tuple[str, ...] = ()
    """Families of accelerators on which latent attention (MLA) is not fused."""


class Fp8(Schema):
    """What fp8 training keeps and casts."""

    inputs: Literal["cast-again", "kept"] = "cast-again"
    """Inputs of fp8 matmuls are kept in 16 bits and cast again in the backward pass, or kept in fp8 (Transformer Engine)."""
    weight: BytesField | None = None
    """Bytes of a weight's working copies; None: 4, 16 bits and fp8 both ways."""
    rowwise: BytesField | None = None
    """Traffic for each element of a left operand that a scale for each row takes beyond one scale for a tensor."""
