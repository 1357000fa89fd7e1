"""FLOPs and bytes in closed form, step by step. Tested against what torch counts and allocates.

Bytes are of the tensors that the forward makes, with the copies hidden in it; the input and the
weights were there before, and what a kernel takes for itself while it runs is not in a formula.
A matrix product of (m, k) and (k, n) is 2·m·n·k floating-point operations, as torch's FLOP
counter has it; bias, scale, mask and softmax are not counted there, nor here.
"""

from __future__ import annotations

import math

from mha_core.config import MHAConfig
from mha_core.steps import STEPS


def itemsize(config: MHAConfig) -> int:
    """Bytes of one number."""
    return config.torch_dtype.itemsize


def flops(config: MHAConfig) -> dict[str, int]:
    """FLOPs of every step."""
    projection = 2 * config.batch * config.time * config.d_model**2
    # h heads of d_k: the heads share d_model, so their number cancels.
    product = 2 * config.batch * config.time**2 * config.d_model
    counts = dict.fromkeys(STEPS, 0)
    counts |= dict.fromkeys(("project_q", "project_k", "project_v", "output"), projection)
    counts |= dict.fromkeys(("scores", "weighted_values"), product)
    return counts


def parameters(config: MHAConfig) -> int:
    """Numbers in the four matrices and, with bias, the four biases: the same for every h."""
    return 4 * config.d_model**2 + (4 * config.d_model if config.bias else 0)


def activation_bytes(config: MHAConfig) -> int:
    """Bytes of one (batch, time, d_model) tensor."""
    return config.batch * config.time * config.d_model * itemsize(config)


def map_bytes(config: MHAConfig) -> int:
    """Bytes of one (batch, h, time, time) tensor."""
    return config.batch * config.heads * config.time**2 * itemsize(config)


def crossover_time(config: MHAConfig) -> int:
    """The time at which attention costs as many FLOPs as the four projections.

    8·batch·time·d_model² = 4·batch·time²·d_model, so that time = 2·d_model, whatever h and batch.
    """
    return 2 * config.d_model


def allocated(config: MHAConfig) -> dict[str, int]:
    """Bytes of all storage that every step creates, kept or not."""
    activation, score = activation_bytes(config), map_bytes(config)
    copied = activation if _heads_are_copied(config) else 0
    counts = dict.fromkeys(STEPS, 0)
    counts |= dict.fromkeys(("project_q", "project_k", "project_v", "output"), activation)
    counts["scores"] = 2 * copied + score
    counts["scale"] = counts["softmax"] = score
    if config.causal:
        counts["mask"] = score + sum(_mask_bytes(config))
    if config.dropout > 0.0:  # what is drawn, the product, the product scaled up
        counts["dropout"] = 3 * score
    counts["weighted_values"] = copied + activation
    counts["merge"] = activation if config.heads > 1 and config.time > 1 else 0
    return counts


def peak(config: MHAConfig) -> int:
    """The most bytes alive at once in tensors that the forward made.

    q, k and v stay alive to the end. Beside them: under the scores, the copies of q and k; from
    there to softmax, two maps, the one read and the one written, with the mask; under dropout,
    four; from the merge on, the weights and two activations.
    """
    activation, score = activation_bytes(config), map_bytes(config)
    copied = activation if _heads_are_copied(config) else 0
    mask = config.time**2 if config.causal else 0
    return 3 * activation + max(
        2 * copied + score,
        _softmax_peak(config),
        (2 if config.dropout > 0.0 else 1) * score + mask + copied + activation,
        score + 2 * activation,
    )


def attend_peak(config: MHAConfig) -> int:
    """The same for `attend` alone, on q, k and v of (batch, h, time, d_k) that are contiguous."""
    weights = (2 if config.dropout > 0.0 else 1) * map_bytes(config)
    mask = config.time**2 if config.causal else 0
    return max(_softmax_peak(config), weights + mask + activation_bytes(config))


def _heads_are_copied(config: MHAConfig) -> bool:
    """Whether a batched product copies q, k and v: batch and h are one axis to it, which no
    stride describes after the transpose, unless one of three axes has a single entry."""
    return config.batch > 1 and config.heads > 1 and config.time > 1


def _mask_bytes(config: MHAConfig) -> tuple[int, ...]:
    """What the causal mask takes: ones, their lower half, its negation, a finite fill twice."""
    cells = config.time**2
    finite = 0 if config.fill == -math.inf else cells * itemsize(config)
    return cells, cells, cells, finite, finite


def _softmax_peak(config: MHAConfig) -> int:
    """The most bytes alive between the scores and the weights."""
    score = map_bytes(config)
    if config.dropout > 0.0:
        return 4 * score + (config.time**2 if config.causal else 0)
    if not config.causal:
        return 2 * score
    mask, _, negated, finite, _ = _mask_bytes(config)
    if not finite:
        return 2 * score + mask + negated
    # While the fill is written out, the masked scores are not there yet.
    return max(2 * score + mask + finite, score + mask + negated + 2 * finite)
