"""A trace says of every step what plain torch, asked independently, says too."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given
from torch.nn import functional as F

from mha_core import ConfigError, MHAConfig, masks, trace_forward
from mha_core.inputs import build_module, random_input
from mha_core.steps import STEPS
from tests.core.support import BATCH, D_K, D_MODEL, HEADS, TIME, config, configs, randn

ODD = {
    "odd sizes": config(),
    "causal": config(causal=True),
    "dropout": config(dropout=0.3, causal=True),
    "without bias": config(bias=False),
    "one position": config(time=1),
    "one head": config(heads=1),
    "one column a head": config(heads=D_MODEL),
    "one batch item": config(batch=1),
    "one of everything": config(batch=1, time=1, d_model=1, heads=1),
    "float32": config(dtype="float32"),
    "bfloat16": config(dtype="bfloat16"),
}
every_size = pytest.mark.parametrize("made", ODD.values(), ids=ODD)


def recomputed(made):
    """Every step by plain torch calls, from the same weights and input."""
    module, x = build_module(made), random_input(made)
    batch, time, heads, d_k = made.batch, made.time, made.heads, made.d_k
    steps = {"input": x}
    for n in "qkv":
        layer = getattr(module, f"W_{n}")
        steps[f"project_{n}"] = F.linear(x, layer.weight, layer.bias)
        steps[f"split_{n}"] = steps[f"project_{n}"].view(batch, time, heads, d_k)
        steps[f"transpose_{n}"] = steps[f"split_{n}"].transpose(1, 2)
    steps["scores"] = torch.matmul(steps["transpose_q"], steps["transpose_k"].mT)
    scores = steps["scale"] = steps["scores"] / d_k**0.5
    if made.causal:
        upper = torch.ones(time, time).triu(1).bool()
        scores = steps["mask"] = scores.masked_fill(upper, float("-inf"))
    steps["softmax"] = torch.softmax(scores, dim=-1)
    steps["weighted_values"] = torch.matmul(steps["softmax"], steps["transpose_v"])
    steps["transpose_back"] = steps["weighted_values"].permute(0, 2, 1, 3)
    steps["merge"] = steps["transpose_back"].contiguous().view(batch, time, -1)
    steps["output"] = F.linear(steps["merge"], module.W_o.weight, module.W_o.bias)
    return steps


@every_size
def test_shapes_strides_and_contiguity_are_those_of_plain_torch(made):
    trace = trace_forward(made, profile=False)
    with torch.no_grad():
        expected = recomputed(made)
    assert [step.id for step in trace.steps if step.id != "dropout"] == sorted(
        expected, key=list(STEPS).index
    )
    for step, tensor in expected.items():
        assert trace[step].shape == tuple(tensor.shape)
        assert trace[step].strides == tensor.stride()
        assert trace[step].offset == tensor.storage_offset() == 0
        assert trace[step].contiguous == tensor.is_contiguous()
        assert trace[step].dtype is tensor.dtype is made.torch_dtype
        assert trace[step].nbytes == tensor.numel() * made.torch_dtype.itemsize


def address(tensor):
    return tensor.untyped_storage().data_ptr()


@every_size
def test_a_step_is_a_view_exactly_where_it_shares_memory_with_what_it_read(made):
    trace = trace_forward(made, profile=False)
    with torch.no_grad():
        expected = recomputed(made)
    for step, tensor in expected.items():
        reads = [read for read in trace[step].reads if read in expected]
        shares = [read for read in reads if address(expected[read]) == address(tensor)]
        assert trace[step].view_of == (shares[0] if shares else None)
        assert (trace[step].storage == "view") == bool(shares)


@pytest.mark.parametrize("name", ["odd sizes", "causal", "one head", "one batch item"])
def test_every_tensor_is_bit_for_bit_what_plain_torch_gives(name):
    trace = trace_forward(ODD[name], profile=False)
    with torch.no_grad():
        for step, tensor in recomputed(ODD[name]).items():
            assert torch.equal(trace.tensor(step), tensor)


@every_size
def test_output_and_weights_are_bit_for_bit_the_modules_own(made):
    trace = trace_forward(made)
    seen = {}
    generator = torch.Generator().manual_seed(0)

    def observe(step, tensor):
        seen[step] = tensor
        return tensor

    module = build_module(made).eval()
    output = module(random_input(made), causal=made.causal, generator=generator, observe=observe)
    assert torch.equal(trace.weights, seen["softmax"])
    if not made.dropout:
        assert torch.equal(trace.output, output)
    assert not trace.output.requires_grad


@every_size
def test_every_step_reads_the_steps_and_shapes_that_the_vocabulary_says(made):
    trace = trace_forward(made, profile=False)
    axes = {"batch": made.batch, "time": made.time, "d_model": made.d_model}
    axes |= {"h": made.heads, "d_k": made.d_k}
    for step in trace.steps:
        spec = STEPS[step.id]
        assert step.shape == tuple(axes[axis] for axis in spec.output)
        inputs = tuple(tuple(axes[axis] for axis in shape) for shape in spec.inputs)
        assert step.input_shapes == inputs
        assert len(step.reads) == len(inputs)
        assert set(step.reads) <= set(spec.reads)


def test_what_reads_the_scores_reads_the_last_form_of_them_that_ran():
    open_, closed = trace_forward(config()), trace_forward(config(causal=True, dropout=0.1))
    assert open_["softmax"].reads == ("scale",)
    assert closed["softmax"].reads == ("mask",)
    assert open_["weighted_values"].reads == ("softmax", "transpose_v")
    assert closed["weighted_values"].reads == ("dropout", "transpose_v")


def test_keys_are_transposed_in_the_input_shape_of_the_scores():
    step = trace_forward(config(), profile=False)["scores"]
    assert step.input_shapes == ((BATCH, HEADS, TIME, D_K), (BATCH, HEADS, D_K, TIME))


@given(configs())
def test_a_trace_has_the_steps_that_ran_and_no_others(made):
    trace = trace_forward(made, profile=False)
    ran = {"mask": made.causal, "dropout": False}
    assert [step.id for step in trace.steps] == [step for step in STEPS if ran.get(step, True)]
    assert ("mask" in trace) == made.causal
    assert trace.config == made


@pytest.mark.parametrize("keep", [[], ["softmax"], ["input", "scores", "output"], list(STEPS)])
def test_only_the_tensors_named_are_kept(keep):
    trace = trace_forward(config(), keep=keep, profile=False)
    kept = [step.id for step in trace.steps if step.tensor is not None]
    assert kept == [step for step in keep if step in trace]
    assert trace.kept_bytes == sum(trace[step].nbytes for step in kept if not trace[step].view_of)


def test_kept_views_of_one_storage_are_counted_once():
    trace = trace_forward(config(), keep=["project_q", "split_q", "transpose_q"], profile=False)
    assert trace.kept_bytes == BATCH * TIME * D_MODEL * 8


def test_a_tensor_that_was_not_kept_or_did_not_run_is_refused_by_name():
    trace = trace_forward(config(), keep=["softmax"], profile=False)
    with pytest.raises(ConfigError, match=r"step='scores': ran, but its tensor was not kept"):
        trace.tensor("scores")
    with pytest.raises(ConfigError, match=r"step='mask': did not run\. input, project_q"):
        trace.tensor("mask")
    with pytest.raises(ConfigError, match="step='output'"):
        _ = trace.output


def test_visible_is_none_without_a_mask_and_the_joined_mask_with_one():
    keep = masks.padding([TIME, 3], TIME)
    assert trace_forward(config(), profile=False).visible is None
    assert torch.equal(
        trace_forward(config(causal=True), profile=False).visible, masks.causal(TIME)
    )
    both = trace_forward(config(causal=True), mask=keep, profile=False)
    assert torch.equal(both.visible, masks.causal(TIME) & keep)
    bias = randn(TIME, TIME).masked_fill(~masks.causal(TIME), -torch.inf)
    assert torch.equal(trace_forward(config(), mask=bias, profile=False).visible, bias.isfinite())


def test_threads_that_trace_at_once_get_what_each_gets_alone():
    made = [MHAConfig(seed=seed, time=5 + seed, causal=bool(seed % 2)) for seed in range(4)]
    alone = [trace_forward(one) for one in made]
    together = {}
    start = threading.Barrier(len(made))

    def work(one):
        start.wait()
        for _ in range(3):
            together[one.seed] = trace_forward(one)

    threads = [threading.Thread(target=work, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in alone:
        other = together[one.config.seed]
        assert torch.equal(one.output, other.output)
        assert one.peak_bytes == other.peak_bytes
        for mine, theirs in zip(one.steps, other.steps, strict=True):
            assert torch.equal(mine.tensor, theirs.tensor)
            assert mine.operators == theirs.operators
