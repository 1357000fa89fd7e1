"""The shape of attention: multi-head attention with every step in view."""

from mha_core.attention import MultiHeadAttention, attend
from mha_core.config import MHAConfig
from mha_core.errors import BudgetError, ConfigError
from mha_core.models import trace_layer
from mha_core.records import Step
from mha_core.trace import Trace, trace_forward

__all__ = [
    "BudgetError",
    "ConfigError",
    "MHAConfig",
    "MultiHeadAttention",
    "Step",
    "Trace",
    "attend",
    "trace_forward",
    "trace_layer",
]
