"""What keeps an attention layer from being plain multi-head attention, by name and step."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mha_core.models.sites import Site, weight_of

_NORMS = ("q_norm", "k_norm", "q_layernorm", "k_layernorm", "query_layernorm", "qk_norm")


def differences(site: Site, given: dict[str, object], weights: Tensor) -> tuple[str, ...]:
    """One sentence for everything that differs.

    Args:
        site: the layer.
        given: the arguments its forward was called with, by name.
        weights: (batch, h, time, time), the layer's own.
    """
    found = [
        *_projections(site, weights.shape[1]),
        *_positions(site, given),
        *_scores(site),
    ]
    return tuple(found)


def _projections(site: Site, heads: int) -> list[str]:
    shapes = [
        tuple(weight.shape) for module in site.inputs if (weight := weight_of(module)) is not None
    ]
    d_model = shapes[0][1]
    if site.fused and shapes[0][0] != 3 * d_model:
        return [
            f"grouped queries: one projection of {shapes[0][0]} rows holds fewer keys and values "
            f"than the {heads} heads of the queries (step 1, project)"
        ]
    if not site.fused:
        queries, keys = shapes[0][0], shapes[1][0]
        if keys < queries:
            d_k = queries // heads
            return [
                f"grouped queries: {heads} query heads share {keys // d_k} heads of keys and "
                "values (steps 1 and 2, project and split)"
            ]
        if queries != d_model:
            return [
                f"the heads together are {queries} wide, not d_model={d_model} "
                "(steps 2 and 8, split and merge)"
            ]
    return []


def _positions(site: Site, given: dict[str, object]) -> list[str]:
    core, config = site.core, getattr(site.core, "config", None)
    found = []
    if given.get("position_embeddings") is not None or hasattr(core, "rotary_emb"):
        found.append("rotary positions: Q and K are rotated before the scores (step 3, transpose)")
    relative = getattr(core, "position_embedding_type", None) or getattr(
        config, "position_embedding_type", None
    )
    disentangled = given.get("relative_pos") is not None or hasattr(core, "pos_att_type")
    has_bias = (
        given.get("position_bias") is not None
        or getattr(core, "relative_attention_bias", None) is not None
        or getattr(core, "relative_position_bias", None) is not None
        or getattr(core, "has_relative_attention_bias", False)
        or hasattr(core, "relative_position_bias_table")
    )
    if has_bias or disentangled or (isinstance(relative, str) and relative.startswith("relative")):
        found.append("relative positions: a learned bias is added to the scores (step 4, scores)")
    if given.get("alibi") is not None:
        found.append("ALiBi: a bias by distance is added to the scores (step 4, scores)")
    return found


def _scores(site: Site) -> list[str]:
    core, config = site.core, getattr(site.core, "config", None)
    found = []
    if any(getattr(core, name, None) is not None for name in _NORMS):
        found.append("Q and K are normalised head by head (step 3, transpose)")
    if window := _window(core, config):
        found.append(
            f"sliding window: keys {window} or more before the query are hidden (step 4b, mask)"
        )
    if getattr(config, "attn_logit_softcapping", None):
        found.append("soft cap: tanh limits the scores (step 4a, scale)")
    sinks: Any = getattr(core, "sinks", None)
    if isinstance(sinks, Tensor):
        found.append("attention sinks: each row of softmax has one more entry (step 5, softmax)")
    return found


def _window(core: Any, config: Any) -> int | None:
    """Positions that a layer looks back, where that is limited."""
    kinds, index = getattr(config, "layer_types", None), getattr(core, "layer_idx", None)
    if kinds and index is not None and kinds[index] == "full_attention":
        return None
    for owner, name in (
        (core, "sliding_window"),
        (core, "one_sided_attn_window_size"),
        (config, "sliding_window"),
    ):
        if value := getattr(owner, name, None):
            return int(value)
    return None
