"""Golden values from transformers' generate: python start.py writes start.json beside it.

What a T5 with weights from seed 42 writes when generation_config.json names the token that a text begins with."""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import json

import torch
import transformers
from transformers import GenerationConfig

T5 = dict(
    vocab_size=causal.VOCAB,
    d_model=32,
    d_kv=8,
    d_ff=48,
    num_layers=2,
    num_heads=4,
    eos_token_id=causal.END,
    decoder_start_token_id=0,
)
ALL = dict(max_new_tokens=8, no_repeat_ngram_size=1, eos_token_id=causal.END, pad_token_id=0)
FILES = [
    dict(decoder_start_token_id=9),
    dict(bos_token_id=17),
    dict(decoder_start_token_id=9, bos_token_id=17),
    dict(decoder_start_token_id=23, num_beams=2),
]
prompts = [[5, 6, 7], [31, 2, 44]]
ids = torch.tensor(prompts)
torch.manual_seed(42)
kind = transformers.T5ForConditionalGeneration
model = kind._from_config(kind.config_class(**T5), attn_implementation="sdpa").eval()
with torch.no_grad():
    model.get_input_embeddings().weight.mul_(20)  # tokens that are far apart
out = dict(
    prompts=prompts, config=model.config.to_diff_dict() | dict(architectures=["T5ForConditionalGeneration"]), files=[]
)
for f in FILES:
    model.generation_config = GenerationConfig(**ALL, **f)
    rows = model.generate(ids, attention_mask=torch.ones_like(ids))[:, 1:].tolist()
    out["files"].append(dict(file=json.loads(model.generation_config.to_json_string()), rows=rows))

with open(here / "start.json", "w") as f:
    json.dump(out, f)
    f.write("\n")
