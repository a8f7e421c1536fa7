"""`gpuplan specs check --fix`: what needs no looking up is mended, and nothing else changes."""

from gpuplan.cli.main import run
from gpuplan.specs.catalog import shipped_folder

TEXT = (shipped_folder() / "accelerators" / "nvidia" / "p6.yaml").read_text(encoding="utf-8").replace("id: p6", "id: nova-p")
UNUSED = "  unused: {title: nothing, checked: 2026-11-20, kind: user}\n"
BLOCK = "  spare:\n    title: nothing\n    checked: 2026-11-20\n    kind: user\n"
OWN = {"name: NVIDIA Tesla P6 Mobile (MXM)": "name: Nova Tesla P6 Mobile", "[tesla-p6]": "[nova-p6]", "[Tesla P6]": "[Nova P6]"}


def _file(tmp_path, text):
    for old, new in OWN.items():
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "accelerators" / "nova-p.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _check(tmp_path, *words):
    return run(["specs", "check", str(tmp_path), *words, "--ignore", "other-part"])


def test_all_of_it_is_mended_and_the_rest_stays(tmp_path, capsys):
    right = _file(tmp_path, TEXT).read_text(encoding="utf-8")
    assert _check(tmp_path) == 0
    wrong = TEXT.replace("format: 1\n", "").replace("id: nova-p", "id: other # ours")
    path = _file(tmp_path, wrong.replace("sources:\n", f"sources:\n{UNUSED}{BLOCK}"))
    assert _check(tmp_path) == 2
    assert _check(tmp_path, "--fix") == 0
    assert path.read_text(encoding="utf-8") == right.replace("id: nova-p", "id: nova-p # ours")
    said = capsys.readouterr().err
    assert said.count("mended: ") == 4


def test_what_must_be_looked_up_is_left(tmp_path, capsys):
    path = _file(tmp_path, TEXT.replace("bandwidth: 192.3 GB/s", 'bandwidth: "?"'))
    before = path.read_text(encoding="utf-8")
    assert _check(tmp_path, "--fix") == 2
    assert path.read_text(encoding="utf-8") == before
    assert "fill-in" in capsys.readouterr().err


def test_it_writes_only_where_it_is_told_to(capsys):
    assert run(["specs", "check", "--fix"]) == 2
    assert "say which" in capsys.readouterr().err
