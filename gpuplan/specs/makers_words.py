"""What makers and sellers write around the part that a name is of: a maker's name in Chinese, a board with its cooler."""

from __future__ import annotations

import re

_CHINESE = {
    "英伟达": "nvidia", "华为": "huawei", "昇腾": "ascend", "寒武纪": "cambricon",
    "昆仑芯": "kunlun", "壁仞": "biren", "摩尔线程": "moore threads", "海光": "hygon",
    "沐曦": "metax", "曦云": "metax", "天数智芯": "iluvatar", "燧原": "enflame", "邃思": "enflame",
    "平头哥": "t-head", "真武": "zhenwu",
    "景嘉微": "jingjia", "瀚博": "vastai-tech", "浪潮": "inspur", "新华三": "h3c",
    "超聚变": "xfusion", "中科曙光": "sugon", "联想": "lenovo", "算能": "sophgo", "砺算": "lisuan",
    "苹果": "apple", "英特尔": "intel", "超微": "supermicro", "显卡": "", "加速卡": "", "服务器": "",
    "笔记本": "laptop", "移动版": "laptop", "魔改": "modded", "双": "2x", "四": "4x", "八": "8x",
    "卡": "",
}  # fmt: skip
"""What stands in Chinese beside a part, and how it is called elsewhere."""
_SELLER = re.compile(
    r"^(?:gigabyte|msi|asus|zotac|pny|evga|palit|inno3d|gainward|sapphire|powercolor|xfx|asrock|sparkle|maxsun|galax|kfa2|colorful|manli|"
    r"leadtek|gunnir|acer|vastarmor|yeston|biostar|onix|hp|dell|lenovo|aorus|tuf|rog)\b",
    re.IGNORECASE,
)
"""Makers of boards, and lines of theirs, with which the name of a card begins in a shop."""
_CARD = re.compile(
    r"(?<![a-z0-9])(?:(?:rtx|gtx|rx|arc)[\s-]?(?:pro[\s-]?)?[ab]?\d{3,4}(?![0-9])(?:[\s-]?(?:ti|super|xtx|xt|gre|d)(?![a-z]))*"
    r"(?:[\s-](?:blackwell|ada|generation|sff|laptop|mobile|max-q|workstation|server|edition)(?![a-z]))*)",
    re.IGNORECASE,
)
_MEMORY = re.compile(r"(?<![a-z0-9.])(\d{1,2})[\s-]?g(?:b|ddr\d?x?)?(?![a-z0-9])", re.IGNORECASE)


def latin(text: str) -> str:
    """A name with the names of makers and the words that stand in Chinese beside a part as they are written elsewhere.

    >>> latin("寒武纪 MLU370"), latin("昇腾910B"), latin("h100")
    ('cambricon MLU370', 'ascend 910B', 'h100')
    """
    if text.isascii():
        return text
    for said, other in _CHINESE.items():
        text = text.replace(said, f" {other} ")
    return " ".join(text.split())


def card_in(name: str) -> str:
    """The graphics card, with its memory, that a shop's name of a board holds; empty where it is no such name.

    Words of its cooler are left out, so that `Ventus 2X` is no count.

    >>> card_in("MSI RTX 3060 Ventus 2X 12G"), card_in("PowerColor Red Devil RX 9070 XT"), card_in("8x RTX 4090")
    ('RTX 3060 12GB', 'RX 9070 XT', '')
    """
    found = _CARD.search(name) if _SELLER.match(name.strip()) else None
    if found is None:
        return ""
    rest = f"{name[: found.start()]} {name[found.end() :]}"
    memory = _MEMORY.search(rest)
    return f"{found[0]} {memory[1]}GB" if memory is not None else found[0]
