"""What do the words behind an engine's name say: what each sets, what is not counted, what changes nothing, what nobody knows?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gpuplan.errors import GpuplanError, Problem, UsageError, did_you_mean
from gpuplan.plan.launch.values import Value, as_text, inside, known_keys, switched, value_of
from gpuplan.specs.arguments import EngineArguments, Flag, Meaning
from gpuplan.units import brief

_NUMBER = re.compile(r"^-\d+(\.\d+)?$")
Follows: TypeAlias = Literal["switch", "value", "list", "perhaps"]
"""What stands behind an argument that changes nothing."""


@dataclass
class Heard:
    """What the words of one command line say."""

    table: EngineArguments
    release: str = ""
    """The release of the engine, where it is known: arguments that it does not have are named."""
    sets: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What is set, as text, and by which argument."""
    later: dict[str, str] = field(default_factory=dict)
    """Arguments that are understood and not counted, and what they change."""
    silent: list[str] = field(default_factory=list)
    """Arguments that change nothing of what is estimated."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Arguments that nobody knows, and what is near."""
    twice: list[str] = field(default_factory=list)
    """Arguments that stand there again with another value: the last one counts."""
    problems: list[Problem] = field(default_factory=list)
    place: str = ""
    """The file that is read, where the words are not the command's own."""

    def words(self, words: Sequence[str], *, model: bool) -> None:
        """Hear the words; the first that belongs to no argument is the model's name where `model` says so."""
        at, free = 0, 0
        rest = list(words)
        while at < len(rest):
            word = rest[at]
            at += 1
            if word in ("--", "PARAMETER"):
                continue
            dashed = word.startswith("-") and len(word) > 1 and not _NUMBER.match(word)
            if dashed or self._known(word.partition("=")[0]):
                at = self._flag(word, rest, at)
            elif model and free == 0:
                free += 1
                self._set("model", word, "MODEL")
            else:
                self.unknown[word] = ""

    def environment(self, given: Mapping[str, str]) -> None:
        """Hear the variables of the environment that a command was started with; arguments win over them."""
        meanings = {name: one for group in self.table.groups for name, one in group.environment.items()}
        quiet = [name for group in self.table.groups for name in group.silent_environment]
        for name, text in given.items():
            if name in meanings:
                if meanings[name].sets not in self.sets:
                    self._mean(name, meanings[name], text)
            elif any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in quiet):
                self.silent.append(name)
            # Other variables are the script's own, which its words have in them already.

    def file(self, path: str, *, wins: bool) -> None:
        """Hear a file of settings in YAML, which overwrites what arguments say, or the other way round.

        Raises:
            UsageError: a file that cannot be read or holds no settings.
            SpecError: it is no YAML.
        """
        from gpuplan.files.read import text_of
        from gpuplan.strict_yaml import parse_any

        held = parse_any(text_of(Path(path), code="command"), path)
        if held is None:
            return
        if not isinstance(held, dict):
            raise UsageError(Problem("command.file", "the file holds no `key: value` lines at its top", where=path))
        before, self.place = dict(self.sets), path
        flags = {self._key(name): flag for name, flag in self.table.flags().items() if name.startswith("--")}
        keys: dict[str, Meaning] = {name: one for group in self.table.groups for name, one in group.keys.items()}
        quiet = {self._key(name) for group in self.table.groups for name in (*group.silent.switches, *group.silent.values)}
        quiet |= {self._key(name) for group in self.table.groups for name in (*group.silent.lists, *group.silent.perhaps)}
        still = [name for group in self.table.groups for name in group.silent_keys]
        found = {self._key(str(key)) if self._key(str(key)) in {**flags, **dict.fromkeys(quiet)} else str(key): value
                 for key, value in held.items()}  # fmt: skip
        for path_, meaning, text in known_keys(_plain(found), {**flags, **keys}):
            name = f"`{path_}` in {path}"
            if meaning is not None:
                self._mean(name, meaning, text)
            elif path_ in quiet or any(path_ == one or path_.startswith(f"{one}.") for one in still):
                self.silent.append(name)
            else:
                self.unknown[name] = did_you_mean(path_, [*flags, *keys])
        self.place = ""
        if not wins:
            self.sets |= before

    def _key(self, name: str) -> str:
        """A flag's name in a file of settings."""
        bare = name.lstrip("-")
        return bare.replace("-", "_") if self.table.dashes == "alike" else bare

    def _flag(self, word: str, words: Sequence[str], at: int) -> int:
        """Hear one argument; the place behind it."""
        name, equals, joined = word.partition("=")
        bare, dot, inner = name.partition(".")
        known = self._known(name)
        if known is None and dot and (outer := self._known(bare)) is not None:
            return self._dotted(name, outer, inner, words, at, joined if equals else None)
        if known is None and not equals:
            short = next((one for one in self.table.joined if name.startswith(one) and name[len(one) :].isdigit()), "")
            if short:
                known, name, equals, joined = self._known(short), short, "=", name[len(short) :]
        if known is None:
            return self._unknown(word, words, at)
        meaning, follows, taken_back = known
        if taken_back or (meaning is not None and meaning.takes == "switch") or follows == "switch":
            if equals and meaning is not None and not meaning.later:
                self._mean(name, meaning, joined)
            elif meaning is None:
                self.silent.append(name)
            elif meaning.later:
                if not taken_back:
                    self.later[name] = meaning.later
            else:
                self._set(str(meaning.sets), switched(meaning, not taken_back), name)
            return at
        texts = [joined]
        if not equals:
            texts, at = self._texts(meaning.takes if meaning is not None else follows, words, at)
        wanted = meaning.takes != "perhaps" if meaning is not None else follows != "perhaps"
        if wanted and not texts:
            self.problems.append(Problem("command.value", f"{name} wants a value behind it"))
        elif meaning is None:
            self.silent.append(name)
        elif isinstance(meaning, Flag) and meaning.inner:
            self._inner(name, meaning, texts[0])
        else:
            self._mean(name, meaning, " ".join(texts), flag=True)
        return at

    def _dotted(
        self, name: str, outer: tuple[Flag | None, Follows, bool], inner: str, words: Sequence[str], at: int, joined: str | None
    ) -> int:
        """Hear one key of a JSON argument, written as `--compilation-config.mode 3`."""
        meaning = outer[0]
        texts = [joined] if joined is not None else []
        if joined is None:
            texts, at = self._texts("text", words, at)
        if meaning is None:
            self.silent.append(name)
        elif not meaning.inner:
            self.later[name] = meaning.later
        elif inner in meaning.inner:
            self._mean(name, meaning.inner[inner], texts[0] if texts else "true")
        else:
            self.unknown[name] = did_you_mean(inner, meaning.inner)
        return at

    def _inner(self, name: str, flag: Flag, text: str) -> None:
        """Hear the keys of a JSON argument."""
        try:
            for key, meaning, value in inside(name, flag, text):
                if meaning is None:
                    self.unknown[f"`{key}` in {name}"] = did_you_mean(key, flag.inner)
                else:
                    self._mean(f"`{key}` in {name}", meaning, value)
        except GpuplanError as error:
            self.problems += error.problems

    def _texts(self, takes: str, words: Sequence[str], at: int) -> tuple[list[str], int]:
        """What belongs to an argument of what stands behind it, and the place behind that."""
        most = 1 if takes not in ("texts", "list") else len(words)
        end = at
        while end < len(words) and end - at < most and (not words[end].startswith("-") or _NUMBER.match(words[end])):
            end += 1
        return list(words[at:end]), end

    def _known(self, name: str) -> tuple[Flag | None, Follows, bool] | None:
        """An argument by any of its spellings: what it means (None: nothing), what follows it, and whether it is taken back."""
        for spelt, taken_back in self._spellings(name):
            flag = self.table.flags().get(spelt)
            if flag is not None and self._there(flag) and not (taken_back and flag.takes != "switch"):
                return flag, "value", taken_back
            for group in self.table.groups:
                quiet = group.silent
                kinds: tuple[tuple[Follows, tuple[str, ...]], ...] = (
                    ("switch", quiet.switches), ("value", quiet.values), ("list", quiet.lists), ("perhaps", quiet.perhaps),
                )  # fmt: skip
                for follows, names in kinds:
                    if spelt in names and (follows == "switch" or not taken_back):
                        return None, follows, taken_back
        return None

    def _spellings(self, name: str) -> list[tuple[str, bool]]:
        """The spellings that the table may have an argument under, and whether `--no-` takes it back."""
        alike = self.table.dashes == "alike" and name.startswith("--")
        other = name.replace("-", "_").replace("__", "--", 1)
        names = list(dict.fromkeys((name, name.replace("_", "-"), other) if alike else (name,)))
        made = [(one, False) for one in (*names, name.lstrip("-"))]
        if self.table.negated:
            made += [(f"--{one[5:]}", True) for one in names if one.startswith(("--no-", "--no_"))]
        return made

    def _there(self, flag: Flag) -> bool:
        """Whether the release that runs has an argument; where it is not known, any may."""
        if not self.release:
            return True
        now = _parts(self.release)
        early = flag.since is not None and now < _parts(flag.since)
        gone = flag.until is not None and now[: len(_parts(flag.until))] > _parts(flag.until)
        return not (early or gone)

    def _unknown(self, word: str, words: Sequence[str], at: int) -> int:
        """Note an argument that nobody knows, with what seems to belong to it; the place behind it."""
        name = word.partition("=")[0]
        texts, end = ([], at) if "=" in word else self._texts("texts", words, at)
        flag = self.table.flags().get(name)
        if flag is not None:
            early = flag.since is not None and _parts(self.release) < _parts(flag.since)
            since = f"came with {flag.since}" if early else f"went after {flag.until}"
            hint = f"release {self.release} has none: it {since}"
        else:
            hint = did_you_mean(name, [*self.table.flags(), *self._quiet()])
        self.unknown[" ".join([word, *texts])] = hint
        return end

    def _quiet(self) -> list[str]:
        return [
            name for group in self.table.groups
            for name in (*group.silent.switches, *group.silent.values, *group.silent.lists, *group.silent.perhaps)
        ]  # fmt: skip

    def _mean(self, name: str, meaning: Meaning, text: str, *, flag: bool = False) -> None:
        """Keep what one argument, key or variable means."""
        try:
            value = value_of(name, meaning, text, suffixed=self.table.counts == "suffixed")
        except GpuplanError as error:
            self.problems += error.problems
            return
        if value.later:
            self.later[f"{name} {brief(text)}" if flag and meaning.takes == "word" else name] = value.later
        elif value == Value():
            self.silent.append(name)
        else:
            self._set(value.target, value.text, name)

    def _set(self, target: str, text: str, by: str) -> None:
        before = self.sets.get(target)
        if before is not None and before[0] != text and not self.place:
            self.twice.append(f"{before[1]} {before[0]} and {by} {text}")
        self.sets[target] = text, by


def _parts(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _plain(held: Mapping[Any, Any]) -> dict[str, Any]:
    """Mappings with keys of text, all the way down."""
    return {str(key): _plain(value) if isinstance(value, dict) else value for key, value in held.items()}


__all__ = ["Heard", "as_text"]
