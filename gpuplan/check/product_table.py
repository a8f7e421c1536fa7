"""What is each product made of? The rules file that accelerator files are held to."""

from __future__ import annotations

from functools import cache
from typing import Literal

from gpuplan.schema import Schema
from gpuplan.specs.base import Id, Month, SpecFile, load_spec
from gpuplan.specs.catalog import shipped_folder
from gpuplan.specs.quantity import BytesField, BytesPerSField, CountField, WattsField


class ProductMemory(Schema):
    """The memory of a product."""

    capacity: BytesField
    """How much, as the vendor means it."""
    options: tuple[BytesField, ...] = ()
    """Other sizes it is sold with."""
    type: str
    """HBM3, GDDR6 …"""
    bandwidth: BytesPerSField
    """The datasheet bandwidth."""
    bus_bits: CountField | None = None
    """The width of the bus."""
    unified: bool = False
    """Whether the processor shares it."""


class ProductPcie(Schema):
    """The link to the host."""

    gen: CountField
    """The generation."""
    lanes: CountField
    """The width."""


class ProductLink(Schema):
    """The vendor's link between accelerators."""

    kind: str
    """As accelerator files call it."""
    bandwidth_per_direction: BytesPerSField | None = None
    """All links of one accelerator, one way."""
    links: CountField | None = None
    """How many."""
    domain: CountField
    """How many accelerators a normal group has."""
    topology: str
    """How the group is wired."""


class Product(Schema):
    """A product, for one `unit` of its accelerator file."""

    id: Id
    """The id of its file."""
    name: str
    """What its vendor calls it."""
    vendor: Id
    """Who makes it."""
    family: Id
    """The architecture family."""
    chip: str
    """The architecture and die."""
    capability: str | None = None
    """NVIDIA's version of the instruction set."""
    released: Month
    """When it was announced or could be had."""
    unit: Literal["gpu", "die", "board", "chip", "soc", "socket"]
    """What the figures are for."""
    form: str = ""
    """SXM5, OAM, PCIe dual-slot …"""
    memory: ProductMemory
    """Its memory."""
    units: CountField | None = None
    """Compute units that are enabled."""
    l2: BytesField | None = None
    """The cache that all units share."""
    l3: BytesField | None = None
    """A further cache behind it."""
    scratchpad: BytesField | None = None
    """On-chip memory that software manages."""
    power: WattsField | None = None
    """The power limit that the vendor prints."""
    pcie: ProductPcie | None = None
    """The link to the host."""
    link: ProductLink | None = None
    """The link to other accelerators."""
    page: str = ""
    """The end of the address of its TechPowerUp page, where that was read and agrees on release and memory."""


class Products(SpecFile):
    """Products and what they are made of."""

    products: tuple[Product, ...]
    """The products."""


@cache
def products() -> Products:
    """The table that is shipped."""
    return load_spec(Products, shipped_folder() / "rules" / "products.yaml")
