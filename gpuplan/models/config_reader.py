"""What does a published `config.json` say, field by field, and what is wrong with it?

A reader hands out values and collects problems, so that a family's function runs to its end and all complaints come together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpuplan.errors import Note, Problem, UnknownError, UsageError

STRUCTURAL = re.compile(
    r"(num_|^n_|_n_|layers?(_|$)|_dim$|_size$|width|heads?(_|$)|experts?(_|$)|_rank$|bias|norm(_type|$)|latent|kernel|shared|tie_|ratio)"
)
"""Names of fields that usually change what a model holds."""

NOT_STRUCTURAL = re.compile(
    r"(_id$|_ids$|_token|dropout|_pdrop|prob$|eps$|epsilon|coef|^rope|rotary|theta|scal(e|ing)|softcap|init|_act|activation|use_cache|"
    r"return_|output_(attentions|hidden|router|scores)|beam|penalty|ngram|num_labels|num_return|chunk_size_feed|length|"
    r"finetuning|problem_type|pruned|task_specific|torch|dtype|transformers_version|architectures|auto_map|label2id|id2label|"
    r"pretraining_tp|classifier|summary|logits_to_keep|norm_topk|router_(jitter|aux)|aux_loss|topk_method|n_group$|topk_group|ep_size|"
    r"max_window_layers|kernels$|time_step|residual|interleave|spatial_merge|temporal|image|video|vision|audio|_cache|flash|qk_clip|"
    r"seq_aux|num_nextn|mtp|tokenizer|_from_model_config|is_decoder|is_encoder|cross_attention_hidden|tie_encoder|add_cross|"
    r"fused|moe_router_dtype|scoring|mup|dim_model_base|swiglu_limit|chunk_size|_name|prefix|top_[kp]$|temperature|typical|quant|"
    r"use_qk_norm|max_window_size|context_window|n_ctx|pooler_|^norm_type|alibi_bias|skip_bias|sliding_window_size|sink_size|"
    r"mm_hidden|overlap|moe_layer_freq|num_heads$|limit|for_llm|rescale|attention_type|gradient|^bf16$|^fp16$|^fp32$|onnx|logn|ntk|safe|kv_channels|masked_softmax|hidden_size_per)"
)
"""Names of fields that never do: tokens, training, initialisation, positions, sampling."""


class Config:
    """A JSON object with typed access; missing and bad fields become problems, assumed ones notes."""

    def __init__(self, data: Mapping[str, Any], file: str, at: str = "", outer: Config | None = None) -> None:
        self.data = data
        self.file = file
        self.at = at
        self.read: set[str] = set()
        self.problems: list[Problem] = outer.problems if outer else []
        self.notes: list[Note] = outer.notes if outer else []
        self.absent: set[str] = set()
        self.inner: list[Config] = []
        if outer:
            outer.inner.append(self)

    def has(self, *names: str) -> bool:
        """Whether one of the fields is there and not null."""
        self.read |= set(names)
        return any(self.data.get(name) is not None for name in names)

    def raw(self, *names: str) -> Any:
        """The first of the fields that is there, unchecked; None when none is."""
        self.read |= set(names)
        return next((self.data[name] for name in names if self.data.get(name) is not None), None)

    def fill(self, usual: Mapping[str, Any]) -> None:
        """Take what the library takes for fields that the file leaves out, and say so."""
        for name, value in usual.items():
            if not self.has(name):
                self.note(f"`{self.at}{name}` is not in the file: {value} (the library's default)")
                self.data = {**self.data, name: value}

    def sub(self, name: str) -> Config:
        """A nested object, or an empty one."""
        value = self.raw(name)
        if value is not None and not isinstance(value, Mapping):
            self.bad(name, value, "an object")
            value = None
        return Config(value or {}, self.file, f"{self.at}{name}.", self)

    def count(self, *names: str, default: int | None = None, why: str = "", least: int = 1, most: int = 10**12) -> int:
        """A whole number that is at least `least`; without a default, a missing field is a problem.

        `why` names the rule that the default follows; without it the default goes without a note.
        """
        value = self.raw(*names)
        name = next((n for n in names if self.data.get(n) is not None), names[0])
        if value is None:
            if default is None:
                self.missing(*names)
                return max(least, 1)
            if why:
                self.note(f"`{self.at}{names[0]}` is not in the file: {default} ({why})")
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.bad(name, value, "a whole number")
        elif value < least:
            self.bad(name, value, f"{least} or more")
        elif value > most:
            self.bad(name, value, f"{most} or less")
        else:
            return value
        return max(least, 1)

    def flag(self, *names: str, default: bool, why: str = "") -> bool:
        """True or false."""
        value = self.raw(*names)
        if value is None:
            if why:
                self.note(f"`{self.at}{names[0]}` is not in the file: {str(default).lower()} ({why})")
            return default
        if not isinstance(value, bool):
            name = next(n for n in names if self.data.get(n) is not None)
            self.bad(name, value, "true or false")
            return default
        return value

    def text(self, *names: str, default: str = "") -> str:
        """A word."""
        value = self.raw(*names)
        if value is None:
            return default
        if not isinstance(value, str):
            self.bad(names[0], value, "text")
            return default
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list, or None when the field is not there."""
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.bad(name, value, "a list")
            return None
        return list(value)

    def words(self, name: str, length: int, known: Iterable[str]) -> list[str] | None:
        """A list of one known word a layer, or None when the field is not there."""
        value = self.items(name)
        if value is None:
            return None
        known = list(known)
        odd = sorted({str(one) for one in value if one not in known})
        if odd:
            self.unknown(
                f"`{self.at}{name}` holds {', '.join(f'`{one}`' for one in odd)}, which gpuplan does not know here",
                f"known are {', '.join(known)}",
            )
            return None
        if len(value) != length:
            self.problem("model.bad-field", f"`{self.at}{name}` has {len(value)} entries for {length} layers", "one entry a layer")
            return None
        return value

    def note(self, text: str, code: str = "model.assumed-field") -> None:
        """Remember something that the reader of an estimate should know."""
        self.notes.append(Note(code, text))

    def problem(self, code: str, message: str, hint: str = "") -> None:
        """Remember a problem with the file."""
        self.problems.append(Problem(code, message, hint, self.file))

    def missing(self, *names: str) -> None:
        """Remember once that a needed field is missing."""
        if names[0] in self.absent:
            return
        self.absent |= set(names)
        others = f" (or {', '.join(f'`{n}`' for n in names[1:])})" if len(names) > 1 else ""
        self.problem(
            "model.missing-field",
            f"`{self.at}{names[0]}`{others} is missing",
            "take the whole config.json of the model, or add the field",
        )

    def bad(self, name: str, value: object, want: str) -> None:
        """Remember that a field holds a wrong value."""
        shown = str(value) if len(str(value)) < 40 else f"{str(value)[:37]}..."
        self.problem("model.bad-field", f"`{self.at}{name}` is `{shown}`, but must be {want}", "correct the file")

    def unknown(self, message: str, hint: str = "") -> None:
        """Remember something that gpuplan has no rule for."""
        self.problem("model.unknown-structure", message, hint or "describe the model in a card of your own instead")

    def check(self) -> None:
        """Raise what was found so far.

        Raises:
            UsageError: a field holds a wrong value.
            UnknownError: a needed field is missing, or the structure is not known.
        """
        if not self.problems:
            return
        problems = _unique(self.problems)
        if all(problem.code == "model.bad-field" for problem in problems):
            raise UsageError(*problems)
        raise UnknownError(*problems)

    def unread(self) -> list[str]:
        """Fields that nothing read although their names look structural and their values say something."""
        found = [
            f"{self.at}{key}"
            for key, value in self.data.items()
            if key not in self.read
            and value not in (None, False, 0, 0.0, "", [], {}, -1)
            and STRUCTURAL.search(key)
            and not NOT_STRUCTURAL.search(key)
        ]
        return found + [name for one in self.inner for name in one.unread()]


def _unique(problems: Iterable[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
