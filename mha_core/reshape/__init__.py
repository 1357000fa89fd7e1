"""Any reshape of up to six axes: an einops pattern or a chain of torch steps, parsed, run, traced.

    from mha_core.reshape import plan_pattern, run

    done = run(plan_pattern("b t (h d) -> b h t d", shape="2, 6, 32", axes="h=4"))
    done.steps[-1].strides, done.copies, done.agrees

What is typed is read by a closed grammar and never evaluated as code.
"""

from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.flow import Flow, Scene, flow
from mha_core.reshape.listing import program, torch_chain
from mha_core.reshape.plan import Plan, plan_chain, plan_pattern
from mha_core.reshape.run import Run, Step, run
from mha_core.reshape.tables import table

__all__ = [
    "Flow",
    "Plan",
    "ReshapeError",
    "Run",
    "Scene",
    "Step",
    "flow",
    "plan_chain",
    "plan_pattern",
    "program",
    "run",
    "table",
    "torch_chain",
]
