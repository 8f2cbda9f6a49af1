"""Golden values from transformers' generate: python writers.py writes writers.json beside it.

What models with weights from seed 42 add to several prompts at a time, which are padded on the left, with settings that
generate.py does not have; of Phi-3 with longrope, what it adds to each prompt by itself. Texts are cut behind what
ends them, which is found out anew here: generate goes on with padding, or with tokens.
"""

import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import json
import string

import torch
import transformers
from tokenizers import Tokenizer, decoders, models
from transformers import GenerationConfig, PreTrainedTokenizerFast
from transformers.generation import StopStringCriteria

SIZES = dict(
    vocab_size=causal.VOCAB,
    max_position_embeddings=64,
    hidden_size=32,
    num_hidden_layers=3,
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
FULL, SLIDING = "full_attention", "sliding_attention"
ROPES = {
    FULL: dict(rope_type="linear", rope_theta=5000.0, factor=8.0),
    SLIDING: dict(rope_type="default", rope_theta=100.0),
}
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.1, 1.25, 1.5], long_factor=[1.0, 2.0, 3.5, 8.0])
MODELS = [  # name, transformers' class, settings, way of attention
    ("gpt2", "GPT2LMHeadModel", GPT2, "sdpa"),
    ("llama", "LlamaForCausalLM", SIZES, "sdpa"),
    ("qwen2", "Qwen2ForCausalLM", dict(SIZES, use_sliding_window=True, sliding_window=5, max_window_layers=1), "sdpa"),
    ("qwen3", "Qwen3ForCausalLM", dict(SIZES, head_dim=10), "sdpa"),
    (
        "gemma2",
        "Gemma2ForCausalLM",
        dict(
            SIZES,
            head_dim=10,
            sliding_window=6,
            query_pre_attn_scalar=12,
            attn_logit_softcapping=5.0,
            final_logit_softcapping=3.0,
        ),
        "eager",
    ),
    (
        "gemma3",
        "Gemma3ForCausalLM",
        dict(
            SIZES,
            head_dim=10,
            sliding_window=6,
            query_pre_attn_scalar=12,
            layer_types=[SLIDING, FULL, SLIDING],
            rope_parameters=ROPES,
        ),
        "sdpa",
    ),
    ("phi3", "Phi3ForCausalLM", dict(SIZES, sliding_window=6), "sdpa"),
    ("smollm3", "SmolLM3ForCausalLM", dict(SIZES, no_rope_layers=[0, 1, 0]), "sdpa"),
    ("olmo2", "Olmo2ForCausalLM", SIZES, "sdpa"),
    (
        "granite",
        "GraniteForCausalLM",
        dict(SIZES, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=2.5),
        "sdpa",
    ),
    ("t5", "T5ForConditionalGeneration", T5, "sdpa"),
    (
        "phi3 longrope",
        "Phi3ForCausalLM",
        dict(SIZES, initializer_range=0.3, original_max_position_embeddings=10, rope_parameters=LONG),
        "sdpa",
    ),
]
ENDS = list(range(3, 61, 4))  # so many that texts end early
STOPS = ["b", "fg", "gab", "kk"]
WAYS = [
    dict(max_new_tokens=16),
    dict(max_new_tokens=16, do_sample=True, temperature=0.8, top_k=20, num_return_sequences=3, eos_token_id=ENDS),
    dict(max_new_tokens=12, num_beams=3, num_return_sequences=2, eos_token_id=ENDS),
    dict(
        max_new_tokens=12,
        bad_words_ids=[[5], [60], [9, 12], [1, 1, 1]],
        suppress_tokens=[8, 31],
        begin_suppress_tokens=list(range(20, 50)),
    ),
    dict(max_new_tokens=6, forced_eos_token_id=[7, 9]),
    dict(max_new_tokens=6, num_beams=3, forced_eos_token_id=7, bad_words_ids=[[5], [9, 12]]),
    dict(max_new_tokens=12, num_beams=3, early_stopping="never", length_penalty=1.5, eos_token_id=ENDS),
    dict(max_new_tokens=12, num_beams=3, early_stopping=False, length_penalty=-0.5, eos_token_id=ENDS),
    dict(max_new_tokens=12, do_sample=True, num_beams=3, top_k=10, temperature=1.2, eos_token_id=[60, 5, 9]),
    dict(
        max_new_tokens=12,
        do_sample=True,
        num_beams=2,
        num_return_sequences=2,
        top_k=0,
        top_p=0.8,
        min_p=0.2,
        eos_token_id=ENDS,
    ),
    dict(max_new_tokens=16, stop_strings=STOPS),
    dict(
        max_new_tokens=16,
        stop_strings=STOPS[1:],
        do_sample=True,
        top_k=0,
        num_return_sequences=2,
        eos_token_id=ENDS,
        min_new_tokens=4,
    ),
    dict(max_new_tokens=12, stop_strings=STOPS, num_beams=3, early_stopping=True),
]
FILES = [  # generation_config.json of the second model and of T5
    dict(
        max_new_tokens=9,
        do_sample=True,
        num_beams=3,
        num_return_sequences=2,
        early_stopping="never",
        length_penalty=0.5,
        top_k=30,
        eos_token_id=ENDS,
        stop_strings=STOPS,
    ),
    dict(
        max_new_tokens=9,
        eos_token_id=[60],
        bad_words_ids=[[5], [9, 12]],
        suppress_tokens=[8, 31],
        begin_suppress_tokens=list(range(20, 50)),
        forced_eos_token_id=[7, 9],
        stop_strings="kk",
    ),
]
letters = string.ascii_lowercase + string.ascii_uppercase
vocab = (
    {"<pad>": 0}
    | {c: i + 1 for i, c in enumerate(letters)}
    | {"ab": 53, "fg": 54, "gab": 55, "kk": 56, "bf": 57, "gfg": 58, "kab": 59, "</s>": 60}
)
tok = Tokenizer(
    models.BPE(vocab, [("a", "b"), ("f", "g"), ("k", "k"), ("b", "f"), ("g", "ab"), ("g", "fg"), ("k", "ab")])
)
tok.decoder = decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tok)
g = torch.Generator().manual_seed(5)
prompts = [torch.randint(1, 60, (n,), generator=g).tolist() for n in (7, 3, 12, 1)]
longest = max(len(p) for p in prompts)
left = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
right = torch.tensor([p + [0] * (longest - len(p)) for p in prompts])
right_mask = mask.flip(1)


def cut(rows, begun, eos_token_id=causal.END, stop_strings=None, **_):
    """What is added to rows of so many tokens, to where each ends."""
    ends = eos_token_id if isinstance(eos_token_id, list) else [eos_token_id]
    stops = StopStringCriteria(tokenizer, stop_strings) if stop_strings else None
    added = []
    for row in rows:
        n = begun + 1
        while n < len(row) and int(row[n - 1]) not in ends and not (stops and stops(row[None, :n], None)[0]):
            n += 1
        added.append(row[begun:n].tolist())
    return added


def write(model, ids, attention_mask, begun, settings, **given):
    torch.manual_seed(3)
    return cut(model.generate(ids, attention_mask=attention_mask, tokenizer=tokenizer, **given), begun, **settings)


out = dict(prompts=prompts, ways=WAYS, tokenizer=json.loads(tok.to_str()), models=[])
for name, cls, config, attention in MODELS:
    kind = getattr(transformers, cls)
    torch.manual_seed(42)
    model = kind._from_config(kind.config_class(**config), attn_implementation=attention).eval()
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(5 if name == "phi3 longrope" else 20)  # tokens that are far apart
    entry = dict(
        name=name, architecture=cls, attention=attention, config=model.config.to_diff_dict() | dict(architectures=[cls])
    )
    if (
        name == "phi3 longrope"
    ):  # a batch turns all of its texts as its longest one, and forgets the past where that gets long
        alone = [torch.tensor([p]) for p in prompts]
        entry["ways"] = [
            sum(
                (write(model, p, torch.ones_like(p), p.shape[1], WAYS[0], use_cache=False, **WAYS[0]) for p in alone),
                [],
            )
        ]
    if cls.startswith("T5"):
        batch = (model, right, right_mask, 1)
    else:
        batch = (model, left, mask, longest)
    if "ways" not in entry:
        entry["ways"] = [write(*batch, w, **w) for w in WAYS]
    for f in FILES if name in ("llama", "t5") else []:
        model.generation_config = GenerationConfig(
            pad_token_id=0, decoder_start_token_id=0 if name == "t5" else None, **f
        )
        entry.setdefault("files", []).append(
            dict(file=json.loads(model.generation_config.to_json_string()), rows=write(*batch, f))
        )
    out["models"].append(entry)

with open(here / "writers.json", "w") as f:
    json.dump(out, f)
    f.write("\n")
