"""FLOPs and bytes in closed form, step by step. Tested against what torch counts and allocates.

A matrix product of (m, k) and (k, n) is 2·m·n·k floating-point operations, as torch's FLOP
counter has it; bias, scale, mask and softmax are not counted there, nor here.
"""

from __future__ import annotations

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
