"""The C++ module against the Python one: every step and every gradient, bit for bit."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from torch import Tensor

from mha_core import MHAConfig, attend, masks, trace_forward
from mha_core.inputs import build_module, generator, random_input
from tests.core.support import qkv, randn
from tests.libtorch.support import Server, State, runs, same_bits, weights_of

# Drawn, in float32 and float64; a repeated draw is none, so some are asked for beyond 200.
EXAMPLES = 260


def case_of(config: MHAConfig, x: Tensor, mask: Tensor | None) -> dict[str, object]:
    return {
        **weights_of(build_module(config)),
        "x": x,
        "mask": mask,
        "heads": config.heads,
        "causal": config.causal,
        "scale": config.scale,
        "fill": config.fill,
        "dropout": config.dropout,
        "seed": config.seed,
    }


def gradients(config: MHAConfig, x: Tensor, mask: Tensor | None, upstream: Tensor) -> State:
    module = build_module(config)
    leaf = x.clone().requires_grad_()
    rng = generator(config.seed, "dropout")
    module(leaf, causal=config.causal, mask=mask, generator=rng).backward(upstream)
    found = {"x": leaf.grad} | {name: p.grad for name, p in module.named_parameters()}
    return {f"gradient/{name}": grad for name, grad in found.items() if grad is not None}


def assert_same(server: Server, config: MHAConfig, mask: Tensor | None) -> None:
    x = random_input(config)
    upstream = randn(*x.shape, seed=5, dtype=x.dtype)
    trace = trace_forward(config, mask=mask, profile=False)
    expected = {step.id: trace.tensor(step.id) for step in trace.steps}
    expected |= gradients(config, x, mask, upstream)
    found = server(case_of(config, x, mask) | {"gradient": upstream})
    assert found.keys() == expected.keys()
    different = [name for name in expected if not same_bits(found[name], expected[name])]
    assert different == []


def test_every_step_and_gradient(server: Server) -> None:
    drawn = set()

    @settings(max_examples=EXAMPLES)
    @given(run=runs())
    def holds(run: tuple[MHAConfig, Tensor | None]) -> None:
        config, mask = run
        drawn.add((*config.to_dict().values(), None if mask is None else str(mask.tolist())))
        assert_same(server, config, mask)

    holds()
    assert len(drawn) >= 200


def test_sizes_at_which_kernels_are_threaded_and_blocked(server: Server) -> None:
    for dtype in ("float32", "float64"):
        for causal in (False, True):
            config = MHAConfig(
                batch=3, time=130, d_model=192, heads=6, causal=causal, dtype=dtype, seed=3
            )
            assert_same(server, config, masks.padding([130, 71, 0], 130))


def test_half_types(server: Server) -> None:
    for dtype in ("float16", "bfloat16"):
        assert_same(server, MHAConfig(causal=True, dtype=dtype, time=7), None)


def test_the_core_alone_with_other_keys_than_queries(server: Server) -> None:
    for dtype in (torch.float32, torch.float64):
        q, k, v = qkv(dtype)
        keep = randn(q.shape[2], k.shape[2], seed=9) > 0
        for causal in (False, True):
            output, weights = attend(q, k, v, mask=keep, causal=causal)
            found = server({"q": q, "k": k, "v": v, "mask": keep, "causal": causal})
            assert same_bits(found["output"], output)
            assert same_bits(found["weights"], weights)
