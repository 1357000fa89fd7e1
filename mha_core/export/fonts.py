"""Which fonts draw a label, and what stands in for a letter that none of them has."""

from __future__ import annotations

from functools import cache

from matplotlib import font_manager

MISSING = "□"
# Beyond matplotlib's own DejaVu Sans: fonts of other scripts, where the machine has them.
_OTHERS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "Noto Sans KR",
    "Hiragino Sans", "PingFang SC", "Microsoft YaHei", "Malgun Gothic", "WenQuanYi Zen Hei",
    "Noto Sans Devanagari", "Noto Sans Thai", "Noto Sans Hebrew", "Noto Sans Arabic",
    "Arial Unicode MS", "Segoe UI Symbol", "Noto Sans Symbols2", "Noto Emoji", "Unifont",
)  # fmt: skip


@cache
def families() -> list[str]:
    """DejaVu Sans first: it comes with matplotlib, so figures are alike on every machine."""
    installed = set(font_manager.get_font_names())
    return ["sans-serif", *(name for name in _OTHERS if name in installed)]


def drawable(label: str) -> str:
    """The label, with `MISSING` for every letter that no font here has."""
    return "".join(letter if _has(letter) else MISSING for letter in label)


@cache
def _fonts() -> list[font_manager.FontPath | str]:
    names = ["DejaVu Sans", *families()[1:]]
    return [font_manager.findfont(name) for name in names]


def _has(letter: str) -> bool:
    return any(font_manager.get_font(path).get_char_index(ord(letter)) != 0 for path in _fonts())
