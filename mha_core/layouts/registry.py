"""The layouts by name: what each calls its tensors, and what its names leave open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mha_core.errors import ConfigError

# How one matrix holds W_q, W_k and W_v: [3, h, d_k] or [h, 3, d_k] along its rows.
ORDERS = ("stacked", "interleaved")
# How a matrix is stored: (out, in), y = x Wᵀ, as nn.Linear; or (in, out), y = x W.
ORIENTATIONS = ("linear", "conv1d")

ROTATED = (
    "Models with these names often rotate query and key by position (RoPE), or add a bias for "
    "distance (ALiBi); neither is applied here"
)


@dataclass(frozen=True)
class Layout:
    """One way to name and store the four projections.

    Attributes:
        name: key in `LAYOUTS`.
        label: for people: whose names these are.
        weights: W_q, W_k, W_v and W_o; or one tensor for the first three, and W_o.
        biases: theirs; or one for the first three, and W_o's.
        orders: of `ORDERS`, those that one tensor for three may have. Several are asked for;
            none where there is no such tensor.
        orientations: of `ORIENTATIONS`, those the matrices may have. Several are asked for.
        note: what models with these names do besides; "" for nothing.
    """

    name: str
    label: str
    weights: tuple[str, ...]
    biases: tuple[str, ...]
    orders: tuple[str, ...] = ()
    orientations: tuple[str, ...] = ("linear",)
    note: str = ""

    @property
    def anchor(self) -> str:
        """The name that a file is searched for."""
        return self.weights[0]

    @property
    def fused(self) -> bool:
        """Whether one matrix holds W_q, W_k and W_v."""
        return len(self.weights) == 2


def _modules(
    name: str,
    label: str,
    *modules: str,
    orders: tuple[str, ...] = (),
    orientations: tuple[str, ...] = ("linear",),
    note: str = "",
) -> Layout:
    return Layout(
        name,
        label,
        tuple(f"{module}.weight" for module in modules),
        tuple(f"{module}.bias" for module in modules),
        orders,
        orientations,
        note,
    )


_ALL = (
    Layout(
        "torch",
        "nn.MultiheadAttention",
        ("in_proj_weight", "out_proj.weight"),
        ("in_proj_bias", "out_proj.bias"),
        ("stacked",),
    ),
    Layout(
        "torch-separate",
        "nn.MultiheadAttention with kdim or vdim",
        ("q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"),
        ("in_proj_bias", "out_proj.bias"),
        ("stacked",),
    ),
    _modules("mha_core", "this library", "W_q", "W_k", "W_v", "W_o"),
    Layout(
        "matrices",
        "matrices without a module",
        ("W_q", "W_k", "W_v", "W_o"),
        ("b_q", "b_k", "b_v", "b_o"),
        orientations=ORIENTATIONS,
    ),
    _modules("out_proj", "BART, CLIP, Whisper", "q_proj", "k_proj", "v_proj", "out_proj"),
    _modules(
        "o_proj", "LLaMA, Mistral, Qwen", "q_proj", "k_proj", "v_proj", "o_proj", note=ROTATED
    ),
    _modules("bert", "BERT, RoBERTa", "self.query", "self.key", "self.value", "output.dense"),
    _modules("vit", "ViT", "attention.query", "attention.key", "attention.value", "output.dense"),
    _modules("query", "query, key, value", "query", "key", "value", "dense"),
    _modules("W_query", "from scratch", "W_query", "W_key", "W_value", "out_proj"),
    _modules("wq", "LLaMA as first published", "wq", "wk", "wv", "wo", note=ROTATED),
    _modules("distilbert", "DistilBERT", "q_lin", "k_lin", "v_lin", "out_lin"),
    _modules("to_q", "diffusers", "to_q", "to_k", "to_v", "to_out.0"),
    _modules("to_out", "lucidrains", "to_q", "to_k", "to_v", "to_out"),
    _modules(
        "gpt2", "GPT-2", "c_attn", "c_proj", orders=("stacked",), orientations=("conv1d",)
    ),
    _modules("c_attn", "nanoGPT", "c_attn", "c_proj", orders=ORDERS),
    _modules("qkv", "timm", "qkv", "proj", orders=ORDERS),
    _modules("to_qkv", "lucidrains, one matrix", "to_qkv", "to_out", orders=ORDERS),
    _modules("qkv_proj", "one q, k, v matrix", "qkv_proj", "o_proj", orders=ORDERS, note=ROTATED),
    _modules("Wqkv", "MPT, FlashAttention", "Wqkv", "out_proj", orders=ORDERS, note=ROTATED),
    _modules(
        "query_key_value", "GPT-NeoX, BLOOM", "query_key_value", "dense", orders=ORDERS,
        note=ROTATED,
    ),
)  # fmt: skip

LAYOUTS: dict[str, Layout] = {layout.name: layout for layout in _ALL}

# What W_o is called in files that mix names of several layouts.
OUTPUTS: tuple[str, ...] = tuple(
    dict.fromkeys(layout.weights[-1] for layout in _ALL if layout.weights[-1].endswith(".weight"))
)


def layout_named(name: str) -> Layout:
    """The layout of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in LAYOUTS:
        raise ConfigError(
            "layout",
            name,
            "is not known",
            works=f"These work: {', '.join(LAYOUTS)}",
            repairs=[{"layout": known} for known in LAYOUTS],
        )
    return LAYOUTS[name]


def choose(field: str, value: str | None, offered: Sequence[str], where: str) -> str | None:
    """`value` where it is offered; what is left where nothing has to be chosen.

    Args:
        field: what is chosen, for the error.
        value: the choice; None where the caller made none.
        offered: what may be chosen; empty where the field means nothing.
        where: the layout or layer, for the error.

    Returns:
        The choice; None where `offered` is empty.

    Raises:
        ConfigError: the choice is missing, or not offered.
    """
    if value is None and len(offered) <= 1:
        return offered[0] if offered else None
    if value in offered:
        return value
    works = f"These work: {', '.join(offered) or None}"
    repairs = [{field: choice} for choice in offered or (None,)]
    if value is None:
        rule = f"must be chosen: neither names nor shapes of {where} tell"
    else:
        rule = f"is not one that {where} can have"
    raise ConfigError(field, value, rule, works=works, repairs=repairs)
