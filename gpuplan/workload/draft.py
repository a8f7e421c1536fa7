"""Where the operations of one part of a layer are written down: products, attention, streams and collectives, with their labels."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.formulas.memory import tensor_bytes
from gpuplan.plan.remat import Result
from gpuplan.record import Record
from gpuplan.term import Term
from gpuplan.work import Attention, Collective, CollectiveKind, Matmul, Stream, WorkItem
from gpuplan.workload.context import ONE, Group, Leaves, Pass, Split, Types
from gpuplan.workload.program import Matrix, Op, Part, Phase, Role, Tensor, label


class LayerSetting(Record, kw_only=True):
    """What the operations of a pass are made from: the model's leaves, its division over ranks, types, and its tokens."""

    leaves: Leaves
    split: Split
    types: Types
    work: Pass
    once_a_node: bool = False
    """Copies of a token for one node cross the network once; otherwise every copy does."""
    capacity: Term | None = None
    """Slots of an expert over its mean of tokens, where products with one-hot masks take tokens to them; None: they are sent."""
    own_types: Mapping[Part, Types] | None = None
    """Parts whose products are in other types."""

    def types_of(self, part: Part) -> Types:
        """The types of the products of a part."""
        return self.types if self.own_types is None else self.own_types.get(part, self.types)

    @property
    def hidden(self) -> Term:
        """The model's hidden width."""
        return self.leaves.hidden


class Draft:
    """The operations of a layer so far, and the part of it that is being written: `key` names the kind of block."""

    def __init__(
        self, setting: LayerSetting, prefix: str, key: str, part: Part = Part.LAYER, ops: list[Op] | None = None
    ) -> None:  # fmt: skip
        self.setting, self.key, self.part = setting, key, part
        self.prefix = prefix
        """What labels begin with: the pass."""
        self.ops: list[Op] = [] if ops is None else ops

    @property
    def leaves(self) -> Leaves:
        """The model's leaves."""
        return self.setting.leaves

    @property
    def path(self) -> str:
        """What the leaves of this part begin with."""
        return f"{self.key}.{self.part.value}"

    @property
    def at(self) -> str:
        """What labels of this part begin with."""
        return label(self.prefix, self.key, self.part, "")

    def of(self, part: Part) -> Draft:
        """The same draft, where another part of the layer is written."""
        return Draft(self.setting, self.prefix, self.key, part, self.ops)

    def put(
        self, role: Role, item: WorkItem, *, reads: tuple[Tensor, ...] = (), makes: tuple[Tensor, ...] = (),
        needed_again: bool = True, matrices: tuple[Matrix, ...] = (),
    ) -> None:  # fmt: skip
        """Write an operation down."""
        self.ops.append(
            Op(
                role=role, part=self.part, phase=Phase.FORWARD, item=item, reads=reads, makes=makes,
                needed_again=needed_again, matrices=matrices,
            )
        )  # fmt: skip

    def name(self, role: Role) -> str:
        """The label of an operation of this part."""
        return label(self.prefix, self.key, self.part, role)

    def product(
        self, role: Role, m: Term, n: Term, k: Term, batch: Term = ONE, *, grouped: bool = False,
        tokens: Term | None = None, elsewhere: Term | None = None, ungated: bool = False, reads: tuple[Tensor, ...] = (),
        makes: tuple[Tensor, ...] = (), needed_again: bool = True, matrices: tuple[Matrix, ...] = (),
    ) -> None:  # fmt: skip
        """Activations [m, k] by weights [k, n]; `grouped`: of `batch` experts, for so many `tokens` of all ranks.

        `elsewhere`: rows of these tokens that are for other ranks' experts. `ungated`: experts have no gate.
        """
        types = self.setting.types_of(self.part)
        item = Matmul(
            name=self.name(role), m=m, n=n, k=k, batch=batch, dtype=types.matmul, left_bytes=types.operand,
            right_bytes=types.weight, out_bytes=types.activation, grouped=grouped, blocked=types.blocked, micro=types.micro,
            coded=types.coded, by_heads=not grouped and batch is not ONE,
            uneven=ONE if grouped and self.setting.work.expert_skew is not None else None, tokens=tokens,
            elsewhere=elsewhere, ungated=ungated,
        )  # fmt: skip
        self.put(role, item, reads=reads, makes=makes, needed_again=needed_again, matrices=matrices)

    def attention(self, item: Attention, *, makes: tuple[Tensor, ...] = (), role: Role = Role.ATTENTION) -> None:
        """Fused attention of a group of sequences."""
        self.put(role, item, makes=makes)

    def stream(self, role: Role, size: Term, launches: Term) -> None:
        """Bytes that memory-bound kernels read and write."""
        self.put(role, Stream(name=self.name(role), size=size, launches=launches))

    def collective(self, role: Role, kind: CollectiveKind, size: Term, group: Term, stride: Term) -> None:
        """An exchange between ranks."""
        self.put(role, Collective(name=self.name(role), kind=kind, size=size, group=group, stride=stride))

    def summed(self, ranks: Term | None = None) -> None:
        """The tensor-parallel sum behind a sub-layer: an all-reduce, or its two halves under sequence parallelism."""
        setting = self.setting
        size = tensor_bytes.term(
            f"{self.at}.reduce_bytes", tokens=setting.work.tokens, width=setting.hidden, element_bytes=setting.types.activation
        )
        group = setting.split.tp if ranks is None else ranks
        self.collective(Role.SUM, "all_reduce", size, group, setting.split.tp_stride)

    def tensor(
        self, result: Result, width: Term, rows: Term | None = None, *, multiplied: bool = False, element: Term | None = None,
        repeated: Term | None = None, columns: Term | None = None, alternate: bool = False, normed: bool = False,
    ) -> Tensor:  # fmt: skip
        """A tensor that an operation of this part makes, a row for each token unless `rows` says otherwise."""
        return Tensor(
            result=result, part=self.part, width=width, rows=self.setting.work.tokens if rows is None else rows,
            multiplied=multiplied, element=element, repeated=repeated, columns=columns,
            alternate=alternate, normed=normed,
        )  # fmt: skip

    def matrix(self, name: str, fan_in: Term, fan_out: Term, copies: Term = ONE, *, adapted_as: tuple[str, ...]) -> Matrix:
        """A matrix of weights of this part."""
        return Matrix(name=f"{self.path}.{name}", fan_in=fan_in, fan_out=fan_out, copies=copies, adapted_as=adapted_as)

    def tokens_of(self, group: Group) -> Term:
        """New tokens of a group of sequences; all of the pass where it has no other."""
        work = self.setting.work
        if len(work.groups) == 1:
            return work.tokens
        index = work.groups.index(group)
        return self.leaves.times(f"{self.prefix}.group_{index}.tokens", group.sequences, group.q_len)

    def group_name(self, group: Group, role: Role) -> str:
        """The label of an operation of one group of sequences."""
        groups = self.setting.work.groups
        return self.name(role) if len(groups) == 1 else f"{self.name(role)}.group_{groups.index(group)}"
