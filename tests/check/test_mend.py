"""`gpuplan specs check --fix`: what needs no looking up is mended, and nothing else changes."""

import pytest

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


def test_units_and_words_are_written_as_they_are_here(tmp_path, capsys):
    right = _file(tmp_path, TEXT).read_text(encoding="utf-8")
    wrong = TEXT.replace("6.169 TFLOP/s", "6.169 TFLOPS").replace("confidence: medium", "confidence: Medium")
    assert wrong.count("TFLOPS") == wrong.count("Medium") == 1
    path = _file(tmp_path, wrong)
    assert _check(tmp_path) == 2
    assert _check(tmp_path, "--fix") == 0
    assert path.read_text(encoding="utf-8") == right
    assert capsys.readouterr().err.count("mended: ") == 2


def test_a_word_that_is_another_is_left(tmp_path):
    path = _file(tmp_path, TEXT.replace("confidence: medium", "confidence: mediocre"))
    before = path.read_text(encoding="utf-8")
    assert _check(tmp_path, "--fix") == 2
    assert path.read_text(encoding="utf-8") == before


def test_what_must_be_looked_up_is_left(tmp_path, capsys):
    path = _file(tmp_path, TEXT.replace("bandwidth: 192.3 GB/s", 'bandwidth: "?"'))
    before = path.read_text(encoding="utf-8")
    assert _check(tmp_path, "--fix") == 2
    assert path.read_text(encoding="utf-8") == before
    assert "fill-in" in capsys.readouterr().err


def test_it_writes_only_where_it_is_told_to(capsys):
    assert run(["specs", "check", "--fix"]) == 2
    assert "say which" in capsys.readouterr().err


@pytest.mark.parametrize("said", ["$32/hr", "USD 32/hour", "32 USD/hr", "$32 per hour"])
def test_a_price_as_people_say_it_is_written_with_its_unit(tmp_path, capsys, said):
    text = (
        "format: 1\nid: acme\nname: Acme prices\nsources:\n  page: {title: list, url: https://acme.example, checked: 2026-11-20}\n"
        "default_region: any\noffers:\n"
        "  - {instance: nova.large, region: any, kind: on_demand, price: SAID, date: 20 November 2026, source: page}\n"
    )
    path = tmp_path / "prices" / "acme.yaml"
    path.parent.mkdir()
    path.write_text(text.replace("SAID", said), encoding="utf-8")
    run(["specs", "check", str(tmp_path), "--fix"])
    assert path.read_text(encoding="utf-8") == text.replace("SAID", "32 USD/h").replace("20 November 2026", "2026-11-20")
    assert "mended: " in capsys.readouterr().err


def test_a_price_of_an_accelerator_is_left_to_its_reader(tmp_path, capsys):
    path = tmp_path / "prices" / "acme.yaml"
    path.parent.mkdir()
    text = (
        "format: 1\nid: acme\nname: Acme prices\nsources:\n  page: {title: list, url: https://acme.example, checked: 2026-11-20}\n"
        "default_region: any\noffers:\n"
        "  - {instance: nova.large, region: any, kind: on_demand, price: $4 per GPU hour, date: 2026-11-20, source: page}\n"
    )
    path.write_text(text, encoding="utf-8")
    run(["specs", "check", str(tmp_path), "--fix"])
    assert path.read_text(encoding="utf-8") == text
    assert "`4 USD/h`, with `per: accelerator` beside it" in capsys.readouterr().err


def test_another_name_of_an_accelerator_becomes_its_id(tmp_path, capsys):
    text = (
        "format: 1\nid: nova\nname: Acme nova\nsources:\n  page: {title: list, url: https://acme.example, checked: 2026-11-20}\n"
        "provider: acme\ninstances:\n  - name: nova.large\n    source: page\n    accelerator: h100-sxm5 # eight of them\n"
        "    accelerators: 8\n    scale_up: {kind: nvswitch}\n    network: {kind: ethernet}\n"
    )
    path = tmp_path / "instances" / "acme" / "nova.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    run(["specs", "check", str(tmp_path), "--fix"])
    assert "accelerator: h100-sxm-80gb # eight of them" in path.read_text(encoding="utf-8")
    assert "mended: " in capsys.readouterr().err


def test_an_instance_as_people_write_it_is_mended(tmp_path, capsys):
    text = (
        "format: 1\nid: nova\nname: Acme nova\nsources:\n  page: {title: list, url: https://acme.example, checked: 2026-11-20}\n"
        "provider: acme\ninstances:\n  - name: nova.large\n    source: page\n    accelerator: H100 SXM\n    accelerators: 8\n"
        "    scale_up: {kind: nvswitch}\n    network: {kind: infiniband, bandwidth: 3.2 Tbps}\n"
    )
    path = tmp_path / "instances" / "acme" / "nova.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    assert run(["specs", "check", str(tmp_path), "--fix"]) == 0
    assert path.read_text(encoding="utf-8") == text.replace("H100 SXM", "h100-sxm-80gb").replace("Tbps", "Tbit/s")
    assert capsys.readouterr().err.count("mended: ") == 3
