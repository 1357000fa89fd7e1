"""Reshapes that people really meet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """A pattern with its sizes.

    Attributes:
        pattern, shape, axes: as typed.
        colour: which axis gives the elements their colours, as `flow.colour_axes` names it.
        element: the one followed.
        about: where it comes from, in a sentence.
    """

    pattern: str
    shape: str
    axes: str
    colour: str
    element: int
    about: str


PRESETS = {
    "split heads": Preset(
        "b t (h d) -> b h t d", "2, 6, 32", "h=4", "out1", 117,
        "d_model becomes h heads of d_k, and each head gets its own (time, d_k) block.",
    ),
    "merge heads": Preset(
        "b h t d -> b t (h d)", "2, 4, 6, 8", "", "in1", 141,
        "The heads of a position side by side again: the step that must copy.",
    ),
    "fused QKV": Preset(
        "b t (qkv h d) -> qkv b h t d", "2, 4, 36", "qkv=3 h=3", "out0", 68,
        "One projection of width 3 × d_model, taken apart into queries, keys and values.",
    ),
    "grouped-query repeat": Preset(
        "b g t d -> b (g r) t d", "2, 2, 5, 6", "r=3", "in1", 44,
        "Each key/value head serves r query heads: repeated, it is copied r times.",
    ),
    "image patches": Preset(
        "b c (h p) (w q) -> b (h w) (p q c)", "1, 3, 8, 8", "p=4 q=4", "out1", 93,
        "A picture as a sequence of patches, as in a vision transformer.",
    ),
    "pixel shuffle": Preset(
        "b (c r s) h w -> b c (h r) (w s)", "1, 8, 3, 4", "r=2 s=2", "in1", 41,
        "Channels become pixels: r × s times the resolution, as in super-resolution.",
    ),
}  # fmt: skip
