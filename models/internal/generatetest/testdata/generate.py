"""Golden values from transformers' generate: python generate.py writes generate.json beside it.

For each of some models with weights from seed 42: what it adds to several prompts at a time, which are padded on the
left, in many ways, and with a generation_config.json.
"""

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

SIZES = dict(
    vocab_size=causal.VOCAB,
    max_position_embeddings=64,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    eos_token_id=causal.END,
    pad_token_id=0,
)
GPT2 = dict(
    vocab_size=causal.VOCAB,
    n_positions=64,
    n_embd=32,
    n_layer=2,
    n_head=4,
    bos_token_id=causal.END,
    eos_token_id=causal.END,
    pad_token_id=0,
)
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
ENDS = list(range(3, 61, 4))  # so many that texts end early
MODELS = [
    ("gpt2", "GPT2LMHeadModel", GPT2, "sdpa"),
    ("gpt2 eager", "GPT2LMHeadModel", GPT2, "eager"),
    ("llama", "LlamaForCausalLM", SIZES, "sdpa"),
    ("llama eager", "LlamaForCausalLM", SIZES, "eager"),
    ("gemma", "GemmaForCausalLM", dict(SIZES, head_dim=8), "sdpa"),
    ("mistral", "MistralForCausalLM", dict(SIZES, sliding_window=6), "sdpa"),
    ("mistral eager", "MistralForCausalLM", dict(SIZES, sliding_window=6), "eager"),
    ("t5", "T5ForConditionalGeneration", T5, "sdpa"),
]
WAYS = [
    dict(max_new_tokens=16),
    dict(max_new_tokens=16, eos_token_id=ENDS),
    dict(max_new_tokens=16, eos_token_id=ENDS, min_new_tokens=5),
    dict(max_new_tokens=16, no_repeat_ngram_size=1),
    dict(max_new_tokens=16, no_repeat_ngram_size=2, repetition_penalty=1.3),
    dict(max_new_tokens=16, do_sample=True, temperature=0.8, top_k=20, top_p=0.9),
    dict(max_new_tokens=16, do_sample=True, top_k=0, min_p=0.1, eos_token_id=ENDS, min_new_tokens=3),
    dict(max_new_tokens=16, do_sample=True, top_k=0, repetition_penalty=0.7, temperature=1.5),
    dict(max_new_tokens=12, num_beams=3),
    dict(max_new_tokens=12, num_beams=3, length_penalty=0.0, eos_token_id=ENDS, min_new_tokens=4),
    dict(max_new_tokens=12, num_beams=2, early_stopping=True, no_repeat_ngram_size=2, eos_token_id=ENDS),
]
FILES = [
    dict(max_new_tokens=9, do_sample=True, temperature=0.5, top_k=11, top_p=0.8, eos_token_id=ENDS),
    dict(max_length=21, min_length=17, eos_token_id=ENDS, repetition_penalty=1.2, no_repeat_ngram_size=3),
    dict(max_new_tokens=9, num_beams=2, length_penalty=2.0, early_stopping=True, eos_token_id=ENDS, min_new_tokens=2),
]
g = torch.Generator().manual_seed(5)
prompts = [torch.randint(1, 60, (n,), generator=g).tolist() for n in (7, 3, 12, 1)]
longest = max(len(p) for p in prompts)
left = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
right = torch.tensor([p + [0] * (longest - len(p)) for p in prompts])
right_mask = mask.flip(1)
out = dict(prompts=prompts, ways=WAYS, files=FILES, models=[])

for name, cls, config, attention in MODELS:
    kind = getattr(transformers, cls)
    torch.manual_seed(42)
    model = kind._from_config(kind.config_class(**config), attn_implementation=attention).eval()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(20)  # tokens that are far apart
    pair = cls.startswith("T5")
    ids, given, skip = (right, right_mask, 1) if pair else (left, mask, longest)

    def write(**settings):
        torch.manual_seed(3)
        return model.generate(ids, attention_mask=given, **settings)[:, skip:].tolist()

    entry = dict(
        name=name,
        architecture=cls,
        attention=attention,
        config=model.config.to_diff_dict() | dict(architectures=[cls]),
        ways=[write(**w) for w in WAYS],
        files=[],
    )
    for f in FILES:
        if pair and "max_length" in f:
            f = dict(f, max_length=10, min_length=6)
        model.generation_config = GenerationConfig(pad_token_id=0, decoder_start_token_id=0 if pair else None, **f)
        entry["files"].append(dict(file=json.loads(model.generation_config.to_json_string()), rows=write()))
    model.generation_config = GenerationConfig()
    out["models"].append(entry)

with open(here / "generate.json", "w") as f:
    json.dump(out, f)
    f.write("\n")
