"""Names: what finds which file, what is ambiguous, what is unknown, and whose file wins."""

import re
from pathlib import Path

import pytest

from gpuplan.errors import Exit, UnknownError, UsageError
from gpuplan.specs import catalog as module
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, aliases_of, key, shipped_folder, without_size
from tests.sweeps import thinned

from .test_accelerators import GOOD


def shipped() -> Catalog:
    return Catalog.open(env={"HOME": "/nowhere"})


@pytest.mark.parametrize(
    ("name", "ident"),
    [
        ("h100-sxm-80gb", "h100-sxm-80gb"),
        ("h100", "h100-sxm-80gb"),
        ("H100 SXM5", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("nvidia_h100_pcie", "h100-pcie-80gb"),
        ("a100", "a100-sxm-80gb"),
        ("A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("gh200", "gh200-96gb"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("h200", "h200-sxm-141gb"),
        ("l4", "l4"),
        ("L40", "l40"),
        ("nvidia l40s", "l40s"),
        ("Tesla T4", "t4"),
        ("rtx 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("v100", "v100-sxm2-16gb"),
        ("tpu v5e", "tpu-v5e"),
        ("v5p", "tpu-v5p"),
        ("m2-ultra", "apple-m2-ultra"),
        ("amd mi300x", "mi300x"),
        ("rtx 4060 ti", "rtx-4060-ti-8gb"),
        ("5060ti", "rtx-5060-ti-8gb"),
        ("agx-orin", "jetson-agx-orin-32gb"),
        ("NVIDIA GeForce RTX 4060 Ti", "rtx-4060-ti-8gb"),
    ],
)
def test_finds(name: str, ident: str) -> None:
    assert shipped().find("accelerators", name).id == ident


def test_a_short_name_says_what_it_was_taken_as() -> None:
    notes = shipped().find("accelerators", "h100").notes
    assert [(note.code, note.text) for note in notes] == [("spec.taken-as", "`h100` was taken as `h100-sxm-80gb`")]
    assert "h100-pcie-80gb" in notes[0].hint
    assert shipped().find("accelerators", "l4").notes == ()
    assert shipped().find("accelerators", "h100-sxm-80gb").notes == ()


LABELS = {"nvidia-tesla-p100": "p100-pcie-16gb"}
"""What a cloud calls the one size that it has (GPU machine types, https://cloud.google.com/compute/docs/gpus: P100, 16 GB HBM2)."""
USUAL = ("a100", "a800", "h100", "h800", "rtx-3050", "rtx-3060", "jetson-orin-nano")
"""Parts whose plain name means the size that their vendor's datasheet or kit has: smaller ones are older or newer side lines."""
OTHER_PART = re.compile(r"xt|xtx|ti|gre|super|max|pro|ultra|q|d|laptop|server|workstation|sff|ada|s|x|\d+c|\d+s")


@pytest.mark.parametrize("kind", thinned(["systems", "accelerators"], every=2))
def test_the_beginning_of_a_name_never_means_another_part(kind: str) -> None:
    """Every beginning of every id is refused, or means a part that differs from it by its size and form alone."""
    catalog = shipped()
    for ident in catalog.paths(kind):
        for end in range(1, len(ident)):
            begun = ident[:end]
            if begun in catalog.names(kind):
                continue
            try:
                found = catalog.find(kind, begun).id
            except (UnknownError, UsageError):
                continue
            left_out = found.removeprefix(begun).strip("-").split("-")
            assert found.startswith(begun.strip("-")), begun
            assert not any(OTHER_PART.fullmatch(word) for word in left_out), (begun, found)


def test_a_name_without_a_size_means_the_smallest_and_says_so() -> None:
    catalog = shipped()
    sizes: dict[str, dict[str, float]] = {}
    for ident in catalog.paths("accelerators"):
        sizes.setdefault(without_size(ident), {})[ident] = catalog.load(Accelerator, ident).memory.capacity.value
    several = {stem: found for stem, found in sizes.items() if len(found) > 1 and not stem.startswith(USUAL)}
    names = {name: idents[0] for name, idents in catalog.names("accelerators").items()}
    seen = set()
    for stem, found in several.items():
        for name in {stem, *(name for name, ident in names.items() if ident in found)}:
            if without_size(name) != name or name in LABELS:
                continue
            try:
                meant = catalog.find("accelerators", name)
            except UsageError:
                continue  # It asks which is meant.
            seen.add(stem)
            assert meant.id not in found or found[meant.id] == min(found.values()), (name, meant.id)
            said = " ".join(f"{note.text} {note.hint}" for note in meant.notes)
            assert name == meant.id or all(other in said for other in found), (name, said)
    assert {"rtx-4060-ti", "rtx-5060-ti", "gh200", "v100-sxm2", "jetson-orin-nx"} <= seen


@pytest.mark.parametrize(("name", "ident"), LABELS.items())
def test_the_label_of_a_cloud_is_the_size_that_it_has(name: str, ident: str) -> None:
    assert shipped().find("accelerators", name).id == ident


def test_unknown_name() -> None:
    with pytest.raises(UnknownError) as caught:
        shipped().find("accelerators", "h100-smx")
    assert caught.value.exit_code is Exit.UNKNOWN
    assert caught.value.problems[0].code == "spec.unknown-accelerator"
    assert "did you mean `h100-sxm`" in caught.value.problems[0].hint


def test_ambiguous_name() -> None:
    with pytest.raises(UsageError) as caught:
        shipped().find("accelerators", "rtx")
    assert caught.value.problems[0].code == "spec.ambiguous-name"
    assert "`rtx-2060`" in caught.value.problems[0].hint


def test_a_lookup_parses_only_the_file_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Path] = []
    monkeypatch.setattr(module, "load_yaml", parsed.append)
    catalog = shipped()
    spec = catalog.load(Accelerator, "h100")
    assert catalog.load(Accelerator, "h100-sxm") is spec
    assert parsed == []


def test_names_are_unique() -> None:
    catalog = shipped()
    clashes = {name: idents for name, idents in catalog.names("accelerators").items() if len(idents) > 1}
    assert clashes == {}
    by_key = {key(ident): ident for ident in catalog.paths("accelerators")}
    assert all(catalog.names("accelerators").get(name, [ident]) == [ident] for name, ident in by_key.items())


def folder(tmp_path: Path, name: str = "my-gpu", text: str = GOOD) -> Path:
    path = tmp_path / "accelerators" / "nvidia" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("my-gpu", name))
    return tmp_path


def test_a_users_folder_adds_and_wins(tmp_path: Path) -> None:
    specs = folder(tmp_path)
    folder(tmp_path, "t4", GOOD.replace("[mine]", "[t4-mine, h100]"))
    catalog = Catalog.open([specs], env={"HOME": "/nowhere"})
    mine, notes = catalog.load_noted(Accelerator, "mine")
    assert mine.id == "my-gpu"
    assert [note.code for note in notes] == ["spec.user-file"]
    t4, notes = catalog.load_noted(Accelerator, "t4")
    assert t4.architecture == "Nova"
    assert "replaces the shipped file" in notes[0].text
    assert catalog.find("accelerators", "h100").id == "t4"


def test_where_user_folders_come_from(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home"), "GPUPLAN_SPECS": f"{tmp_path / 'b'}:{tmp_path / 'c'}"}
    folders = [folder(tmp_path / name) for name in ("home/.config/gpuplan", "b", "c", "d")]
    assert Catalog.open([folders[3]], env=env).folders == [shipped_folder(), *folders]
    assert Catalog.open(env={"XDG_CONFIG_HOME": str(tmp_path / "home/.config")}).folders == [shipped_folder(), folders[0]]


def test_a_folder_that_is_no_specs_folder(tmp_path: Path) -> None:
    empty, loose = tmp_path / "empty", tmp_path / "loose"
    empty.mkdir()
    loose.mkdir()
    (loose / "gpu.yaml").write_text(GOOD)
    with pytest.raises(UsageError) as caught:
        Catalog.open([empty, loose, tmp_path / "absent"], env={"HOME": "/nowhere"})
    assert [problem.code for problem in caught.value.problems] == [
        "spec.empty-folder",
        "spec.unsorted-folder",
        "spec.no-folder",
    ]
    assert all(problem.hint for problem in caught.value.problems)
    assert caught.value.exit_code is Exit.USAGE


def test_aliases_by_a_glance(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("aliases: [a b, \"c, d\", 'e']\ndriver_names: [\n  F,\n  G H\n]\n")
    assert list(aliases_of(path)) == ["a b", "c, d", "e", "F", "G H"]
    path.write_text("aliases:\n  - a b\n  - c\nname: x\n")
    assert list(aliases_of(path)) == ["a b", "c"]
    path.write_text("name: x\n")
    assert list(aliases_of(path)) == []
