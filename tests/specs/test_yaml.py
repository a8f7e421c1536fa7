"""Strict YAML: every guess that YAML would make is refused, with its line."""

from pathlib import Path

import pytest

from gpuplan.errors import SpecError
from gpuplan.strict_yaml import load_yaml, parse_yaml


def refused(text: str) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as caught:
        parse_yaml(text, "x.yaml")
    return [(problem.code, problem.where) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("", "yaml.empty", "x.yaml:1"),
        ("# only a comment\n", "yaml.empty", "x.yaml:1"),
        ("- a\n- b\n", "yaml.not-a-mapping", "x.yaml:1"),
        ("just words\n", "yaml.not-a-mapping", "x.yaml:1"),
        ("a: 1\nb: 2\na: 3\n", "yaml.duplicate-key", "x.yaml:3"),
        ("a:\n  b: 1\n  b: 2\n", "yaml.duplicate-key", "x.yaml:3"),
        ("a: 1\nb: 010\n", "yaml.trap", "x.yaml:2"),
        ("a: 0o10\n", "yaml.trap", "x.yaml:1"),
        ("a: 0x1F\n", "yaml.trap", "x.yaml:1"),
        ("a: 1:30\n", "yaml.trap", "x.yaml:1"),
        ("a: 1_000\n", "yaml.trap", "x.yaml:1"),
        ("a: .5\n", "yaml.trap", "x.yaml:1"),
        ("a: .inf\n", "yaml.trap", "x.yaml:1"),
        ("a: no\n", "yaml.trap", "x.yaml:1"),
        ("a: Yes\n", "yaml.trap", "x.yaml:1"),
        ("a: on\n", "yaml.trap", "x.yaml:1"),
        ("a: TRUE\n", "yaml.trap", "x.yaml:1"),
        ("a: NULL\n", "yaml.trap", "x.yaml:1"),
        ("a: &x 1\nb: *x\n", "yaml.anchor", "x.yaml:1"),
        ("a: *nothing\n", "yaml.anchor", "x.yaml:1"),
        ("a:\n  <<: {b: 1}\n", "yaml.anchor", "x.yaml:2"),
        ("a: !!python/object:os.system 1\n", "yaml.tag", "x.yaml:1"),
        ("a: !mine 1\n", "yaml.tag", "x.yaml:1"),
        ("? [a, b]\n: 1\n", "yaml.key", "x.yaml:1"),
        ("~: 1\n", "yaml.key", "x.yaml:1"),
        ("a: {b: [1,\n", "yaml.syntax", "x.yaml:2"),
        ('a: 1\nb: "cut off\n', "yaml.syntax", "x.yaml:3"),
        ("a: b: c\n", "yaml.syntax", "x.yaml:1"),
        ("a: 1\n---\nb: 2\n", "yaml.syntax", "x.yaml:2"),
        ("a: \x00\n", "yaml.syntax", "x.yaml:1"),
        ("[" * 100_000, "yaml.too-deep", "x.yaml:1"),
        ("- " * 100_000, "yaml.too-deep", "x.yaml:1"),
    ],
)
def test_refuses(text: str, code: str, where: str) -> None:
    assert refused(text) == [(code, where)]


def test_collects_all_problems() -> None:
    assert [code for code, _ in refused("a: 010\nb: no\na: 1\n")] == ["yaml.trap", "yaml.trap", "yaml.duplicate-key"]


def test_says_what_to_write() -> None:
    with pytest.raises(SpecError) as caught:
        parse_yaml("a: 010\n", "x.yaml")
    assert str(caught.value) == ("x.yaml:1: `010` is an octal number to YAML\n  hint: write it without the leading 0, or in quotes")


def test_plain_values() -> None:
    text = "a: 1\nb: -2.5\nc: 1.5e+3\nd: true\ne: ~\nf: 989e12\ng: 2026-11-20\nh: '010'\ni: [x, 2]\nj: \"no\"\nk: 0\nl:\n"
    data, lines = parse_yaml(text, "x.yaml")
    assert data == {
        "a": 1, "b": -2.5, "c": 1500.0, "d": True, "e": None, "f": "989e12", "g": "2026-11-20", "h": "010", "i": ("x", 2),
        "j": "no", "k": 0, "l": None,
    }  # fmt: skip
    assert lines.line(("i", 1)) == 9
    assert lines.line(("nothing", "here")) == 1


def test_unreadable_files(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: caf\xe9\n")
    for path, code in ((tmp_path / "absent.yaml", "yaml.unreadable"), (tmp_path, "yaml.unreadable"), (latin, "yaml.not-utf8")):
        with pytest.raises(SpecError) as caught:
            load_yaml(path)
        assert caught.value.problems[0].code == code
