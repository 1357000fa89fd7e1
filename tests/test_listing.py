"""The program shown gives the numbers shown, bit for bit, and needs torch alone."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import MHAConfig, trace_forward
from mha_core.inputs import text_input
from mha_core.listing import program
from tests.core.support import config, configs

# Quotes, backslashes, braces, what ends a string or a line, other scripts, and a repetition.
WORDS = (
    "the", 'say "x"', "it's", "C:\\new\\x41", "\\", "{batch}", "{{x}}", "%s", "a\nb", "\r\t\0",
    '"""', "'''", "naïve", "日本語", "👩‍👩‍👧", "the", "", " ", "#", "\u2028",
)  # fmt: skip

CONFIGS = {
    "defaults": MHAConfig(),
    "odd sizes": config(),
    "causal": config(causal=True),
    "dropout": config(dropout=0.3),
    "dropout and causal": config(dropout=0.1, causal=True, dtype="float32"),
    "without bias": config(bias=False),
    "scale": config(scale=0.25, causal=True),
    "integer scale": config(scale=2),
    "negative scale": config(scale=-1.5e-3),
    "finite fill": config(causal=True, fill=-1e9),
    "small fill": config(causal=True, fill=-10),
    "lowest fill": config(causal=True, fill=-65504.0, dtype="float16"),
    "bfloat16": config(dtype="bfloat16", causal=True),
    "float16": config(dtype="float16", dropout=0.5),
    "float32": config(dtype="float32", bias=False, causal=True),
    "one of everything": config(batch=1, time=1, d_model=1, heads=1, causal=True),
    "one head": config(heads=1),
    "one column a head": config(heads=21),
    "another seed": config(seed=2**63 - 1),
}
every_config = pytest.mark.parametrize("made", CONFIGS.values(), ids=CONFIGS)


def run(source):
    """What a program leaves behind, run here."""
    names = {"__name__": "__main__"}
    exec(compile(source, "<listing>", "exec"), names)
    return names


def traced(made, tokens=None):
    x = None if tokens is None else text_input(made, tokens)
    return trace_forward(made, x=x, profile=False)


def check(made, tokens=None):
    found, trace = run(program(made, tokens)), traced(made, tokens)
    for name, wanted in (("x", trace.x), ("weights", trace.weights), ("output", trace.output)):
        assert found[name].dtype is wanted.dtype
        assert torch.equal(found[name], wanted)


@every_config
def test_the_program_gives_the_same_bits(made, capsys):
    check(made)
    shapes = tuple(traced(made).output.shape), tuple(traced(made).weights.shape)
    assert capsys.readouterr().out == f"output {shapes[0]} weights {shapes[1]}\n"


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("d_model", [24, 21])
def test_the_program_of_a_text_gives_the_same_bits(dtype, d_model):
    check(config(time=len(WORDS), dtype=dtype, causal=True, d_model=d_model), WORDS)


@given(configs(), st.data())
def test_the_program_of_any_configuration_and_text_gives_the_same_bits(made, data):
    words = st.text(st.characters(codec="utf-8"), max_size=8)
    tokens = data.draw(st.none() | st.lists(words, min_size=made.time, max_size=made.time))
    check(made, tokens)


@every_config
@pytest.mark.parametrize("words", [None, WORDS])
def test_the_program_imports_torch_and_the_standard_library_alone(made, words):
    source = program(made, words)
    tree = ast.parse(source)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    roots = {name.split(".")[0] for name in imported}
    assert roots - {"torch"} <= sys.stdlib_module_names
    assert "torch" in roots
    assert ast.get_docstring(tree)


@every_config
def test_the_program_has_no_line_for_what_does_not_happen(made):
    source = program(made)
    assert ("dropout" in source) == (made.dropout > 0)
    assert ("keep" in source) == made.causal
    assert ("masked_fill" in source) == made.causal
    assert ("math.inf" in source) == (made.causal and math.isinf(made.fill))
    assert ("biases" in source) == made.bias
    assert ("math.sqrt(d_k)" in source) == (made.scale is None)
    assert "tokens" not in source
    assert max(map(len, source.splitlines())) <= 100
    assert not any(line != line.rstrip() for line in source.splitlines())


@pytest.mark.parametrize("made", [config(dropout=0.3), config(bias=False), config(causal=True)])
def test_the_program_leaves_torchs_own_random_stream_as_it_was(made):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    run(program(made))
    run(program(made, ["a"] * made.time))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(100)
    check(made)  # and does not read it


def test_the_words_are_in_the_program_as_data():
    source = program(config(time=len(WORDS)), WORDS)
    (assigned,) = (
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "tokens"
    )
    assert tuple(ast.literal_eval(assigned)) == WORDS
    plain = program(config(time=1), ["x"])
    attack = program(config(time=1), ['"]; import os; os._exit(3) #'])
    assert [type(node) for node in ast.parse(attack).body] == [
        type(node) for node in ast.parse(plain).body
    ]


ALONE = """\
import contextlib, io, json, sys
programs = json.load(sys.stdin)
found = []
for source in programs:
    names = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, "<listing>", "exec"), names)
    found.append([names[name].double().flatten().tolist() for name in ("output", "weights")])
print(json.dumps({"found": found, "mha_core": "mha_core" in sys.modules}))
"""


def test_in_an_interpreter_without_this_package_the_bits_are_the_same(tmp_path):
    runs = [(made, None) for made in CONFIGS.values()]
    runs.append((config(time=len(WORDS), causal=True), WORDS))
    sources = [program(made, words) for made, words in runs]
    done = subprocess.run(
        [sys.executable, "-I", "-c", ALONE],
        input=json.dumps(sources), capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["mha_core"] is False
    assert len(told["found"]) == len(runs)
    for (made, words), (output, weights) in zip(runs, told["found"], strict=True):
        trace = traced(made, words)
        assert output == trace.output.double().flatten().tolist()
        assert weights == trace.weights.double().flatten().tolist()
