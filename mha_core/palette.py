"""Every colour of the product, for a light and a dark ground.

Designed in OKLCH (Ottosson 2020), where equal steps look equal, and written as sRGB so that a
browser, Pillow and matplotlib show the same. Axis names are tinted by one hue each; a head has
one colour everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Mode = Literal["light", "dark"]


@dataclass(frozen=True)
class Palette:
    """Colours on one ground.

    Attributes:
        background, surface, line, text, muted: of the page, lightest use to strongest.
        good, bad: of a proof that holds and one that does not.
        copy: of memory that was copied.
        tints: of the axis names.
        heads: of the heads, distinct up to 16.
        sequential: for weights, low to high.
        diverging: for scores, negative to positive, the middle near the background.
        hatch: the lines that stand for a masked cell.
    """

    mode: Mode
    background: str
    surface: str
    line: str
    text: str
    muted: str
    good: str
    bad: str
    copy: str
    tints: dict[str, str]
    heads: tuple[str, ...]
    sequential: tuple[str, ...]
    diverging: tuple[str, ...]
    hatch: str

    def head(self, index: int) -> str:
        """The head's colour; repeats after 16."""
        return self.heads[index % len(self.heads)]


LIGHT = Palette(
    mode="light",
    background="#ffffff",
    surface="#f9fafc",
    line="#e3e5ea",
    text="#16171d",
    muted="#666b76",
    good="#14803c",
    bad="#c0262d",
    copy="#ffd08f",
    tints={
        "batch": "#7d5fad",
        "time": "#008276",
        "d_model": "#a0600b",
        "h": "#ac505b",
        "d_k": "#3d73b6",
    },
    heads=(
        "#5294e6", "#da6f54", "#47aa62", "#b774c7", "#b18e00", "#00a9b4", "#8d83e3", "#d46a93",
        "#945915", "#60721d", "#007d66", "#00749a", "#5264a8", "#76589d", "#914e7f", "#9e4b53",
    ),
    sequential=(
        "#ebf5ff", "#c5dffc", "#9fc9f7", "#79b3f2", "#519cec", "#3e80cb", "#2b65ab", "#184b8d",
        "#05326f",
    ),
    diverging=(
        "#0654a2", "#3d74b8", "#6893cc", "#93b3de", "#bfd4ee", "#f6f3f1", "#ecc9bd", "#d9a28f",
        "#c47c63", "#ac5638", "#932e00",
    ),
    hatch="#d9dbe0",
)  # fmt: skip

DARK = Palette(
    mode="dark",
    background="#111217",
    surface="#171920",
    line="#2b2e37",
    text="#e9eaee",
    muted="#9ba0ab",
    good="#4fce7c",
    bad="#ff7b7b",
    copy="#6b4a12",
    tints={
        "batch": "#c3a5f9",
        "time": "#44d0c1",
        "d_model": "#eca760",
        "h": "#fa969f",
        "d_k": "#82baff",
    },
    heads=(
        "#6badff", "#f5886c", "#62c37a", "#d28ce1", "#cba729", "#00c4d0", "#a59cfe", "#f083ac",
        "#ffc183", "#c6dc89", "#7ae9ce", "#7ddfff", "#bbceff", "#dfc0ff", "#ffb5ea", "#ffb7bb",
    ),
    sequential=(
        "#182230", "#203650", "#264b73", "#2b6197", "#2d78bd", "#4094cf", "#59b1e1", "#75cdf3",
        "#94e9ff",
    ),
    diverging=(
        "#86c1ff", "#6b9fe1", "#567eb0", "#435e82", "#314054", "#262323", "#52382f", "#7d4f40",
        "#a96852", "#d78365", "#ff9e7a",
    ),
    hatch="#33363f",
)  # fmt: skip


def palette(mode: str | None) -> Palette:
    """The colours for a "dark" ground, else for a light one."""
    return DARK if mode == "dark" else LIGHT


def rgb(colour: str) -> tuple[int, int, int]:
    """ "#5294e6" -> (82, 148, 230)."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mix(colour: str, other: str, share: float) -> str:
    """`share` of `other` in `colour`, in sRGB."""
    pairs = zip(rgb(colour), rgb(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def ramp(anchors: tuple[str, ...], levels: int) -> NDArray[np.uint8]:
    """`levels` colours along `anchors`, evenly spaced: uint8 (levels, 3). As Plotly does it."""
    stops = np.array([rgb(anchor) for anchor in anchors], dtype=float)
    place = np.linspace(0, len(anchors) - 1, levels)
    channels = [np.interp(place, np.arange(len(anchors)), stops[:, i]) for i in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def colorscale(anchors: tuple[str, ...]) -> list[list[float | str]]:
    """The anchors as Plotly takes them."""
    return [[i / (len(anchors) - 1), anchor] for i, anchor in enumerate(anchors)]
