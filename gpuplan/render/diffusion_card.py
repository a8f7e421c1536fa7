"""What is a diffusion model made of: its components with their classes and sizes, and what is usually asked of it?"""

from __future__ import annotations

from gpuplan.models.diffusion.card import DiffusionCard
from gpuplan.render.text import Look, columns, shown, wrap
from gpuplan.units import so_many


def _params(card: DiffusionCard) -> dict[str, float]:
    return {name: float(one.network(name).params) for name, one in card.components.items()}


def diffusion_row(card: DiffusionCard) -> list[str]:
    """One line of the list of models: all parameters, and those of a denoising step."""
    sizes = _params(card)
    runs = sizes[next(iter(card.of("denoiser")))]
    total = shown("params_total", sum(sizes.values()), "1")
    return [card.id, total, shown("params_active", runs, "1"), "", "", "", card.name]


def diffusion_record(card: DiffusionCard) -> dict[str, object]:
    """The same as numbers; what such a model does not have is empty."""
    sizes = _params(card)
    return {
        "id": card.id, "name": card.name, "params_total": sum(sizes.values()),
        "params_active": sizes[next(iter(card.of("denoiser")))], "layers": None, "hidden": None, "vocab": None,
        "max_context": None, "aliases": " ".join(card.aliases), "params_by_part": sizes,
    }  # fmt: skip


def diffusion_page(card: DiffusionCard, look: Look) -> str:
    """Everything that the card says, with the parameters of its components and its sources."""
    lines = [f"{look.bold(card.id)}  {card.name}"]
    lines += wrap(", ".join(card.aliases), look.width, "  also called ", "    ") if card.aliases else []
    lines += [f"  licence {card.licence}"] if card.licence else []
    sizes = _params(card)
    rows = [
        [name, one.type, shown("params", sizes[name], "1"), f"{sizes[name]:,.0f}", one.dtype]
        for name, one in card.components.items()
    ]
    lines += ["", *columns([["component", "class", "params", "", "stored"], *rows], "llrrl"), ""]
    usual = card.usual
    clip = f", {so_many(usual.frames, 'frame')} at {usual.fps} a second" if usual.frames else ""
    asked = f"usually {usual.width} x {usual.height}{clip}, {so_many(usual.steps, 'step')}, guidance {usual.guidance}"
    lines += [*wrap(f"{asked}, {so_many(usual.text_tokens, 'token')} of text", look.width, "  ", "    "), ""]
    for note in card.notes:
        lines += wrap(note, look.width, "  - ", "    ")
    for key, source in card.sources.items():
        text = f"{key}: {source.kind}, {source.title}, checked {source.checked}" + (f", {source.note}" if source.note else "")
        lines += wrap(text, look.width, "  ", "    ")
        lines += [f"    {source.url}"] if source.url else []
    return "\n".join(lines) + "\n"
