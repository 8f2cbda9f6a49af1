"""Golden values from transformers' decoders with a head that classifies texts, LlamaForSequenceClassification and
others: python score.py writes score.safetensors, score.json and heads.json beside it.

score.json has what models/internal/modeltest/encoder.py records of each model. heads.json has passes with other labels
and other places of padding, and heads drawn on the checkpoints of language models.
"""

import json
import os
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import encoder  # first, since it chooses the code paths of libtorch
import torch
import transformers
from encoder import VOCAB, hashes, state

HEADS = ["SequenceClassification"]
SIZES = dict(
    max_position_embeddings=40,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    pad_token_id=0,
    eos_token_id=3,
    bos_token_id=2,
)
FULL, SLIDING = "full_attention", "sliding_attention"
GPT2 = dict(n_positions=40, n_embd=16, n_layer=2, n_head=4, pad_token_id=0, eos_token_id=3, bos_token_id=2)
WAYS = {
    "sdpa": dict(),
    "eager": dict(attention="eager"),
    "without padding": dict(length=6),
    "bf16": dict(bf16=True),
    "checkpointing": dict(checkpointing=True),
    "weights of bf16": dict(dtype="bfloat16"),
}
FEW = {k: WAYS[k] for k in ("sdpa", "bf16")}
MODELS = [  # name, class, settings, cases
    ("llama", "Llama", SIZES | dict(num_key_value_heads=2, attention_dropout=0.1), WAYS),
    ("mistral", "Mistral", SIZES | dict(num_key_value_heads=2, sliding_window=4), FEW),
    ("qwen2", "Qwen2", SIZES | dict(num_key_value_heads=2, tie_word_embeddings=True), FEW),
    ("qwen3", "Qwen3", SIZES | dict(num_key_value_heads=2, head_dim=6), FEW),
    ("phi3", "Phi3", SIZES | dict(num_key_value_heads=2, resid_pdrop=0.1), FEW),
    ("gemma", "Gemma", SIZES | dict(num_key_value_heads=1, head_dim=8), FEW),
    (
        "gemma2",
        "Gemma2",
        SIZES
        | dict(
            num_key_value_heads=2,
            head_dim=8,
            sliding_window=4,
            query_pre_attn_scalar=12,
            attn_logit_softcapping=None,
            final_logit_softcapping=0.5,
        ),
        FEW,
    ),
    (
        "gemma3",
        "Gemma3Text",
        SIZES
        | dict(
            num_key_value_heads=2, head_dim=8, sliding_window=4, query_pre_attn_scalar=12, layer_types=[SLIDING, FULL]
        ),
        FEW,
    ),
    ("smollm3", "SmolLM3", SIZES | dict(num_key_value_heads=2, no_rope_layers=[0, 1]), FEW),
    ("olmo2", "Olmo2", SIZES | dict(num_key_value_heads=2), FEW),
    ("gpt2", "GPT2", GPT2, WAYS),
]
IDS = torch.tensor(
    [
        [2, 9, 14, 33, 3, 0, 0],
        [0, 0, 2, 40, 7, 7, 3],
        [2, 8, 0, 0, 11, 5, 0],
        [0, 0, 0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0, 0, 0],
    ]
)  # padded on the right, on the left, within, and nothing else
MASK = torch.tensor(
    [[1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0]]
)
NUMBERS = torch.tensor([[0.5, -1.0, 2.0], [0.0, 1.0, 0.25], [-3.0, 1.5, 1.0], [1.0, 0.0, 0.0], [0.25, 0.5, -0.5]])


def pass_of(name, prefix, settings, rows=slice(None), **head):
    """A forward and backward pass"""
    torch.manual_seed(42)
    model = getattr(transformers, f"{prefix}ForSequenceClassification")(
        getattr(transformers, f"{prefix}Config")(vocab_size=VOCAB, **settings, **head)
    ).train()
    problem, n = head.get("problem_type"), head["num_labels"]
    labels = (
        torch.tensor([2, 0, 1, 1, -100])
        if problem == "single_label_classification"
        else (NUMBERS > 0).float()[:, :n]
        if problem == "multi_label_classification"
        else NUMBERS[:, :n].squeeze(-1)
    )
    torch.manual_seed(7)
    result = model(input_ids=IDS[rows], attention_mask=MASK[rows], labels=labels[rows])
    result.loss.backward()
    key = f"heads.{name}"
    encoder.tensors.update(
        {
            key + ".logits": result.logits.detach(),
            key + ".loss": result.loss.detach(),
            key + ".labels": labels[rows].clone(),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.load(open(os.path.join(folder, "config.json")))
    return dict(
        name=name,
        config=config,
        first=rows.start or 0,
        end=rows.stop or len(IDS),
        grads=hashes(model, lambda p: p.grad),
        norms=[float(f"{p.grad.double().norm():.4g}") for p in model.parameters()],
    )


def drawn(name, prefix, settings):
    """The head that from_pretrained draws on the checkpoint of a language model, and on that of other classes"""
    causal = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}.get(prefix, f"{prefix}ForCausalLM")
    cls = getattr(transformers, f"{prefix}ForSequenceClassification")
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(42)
        model = getattr(transformers, causal)(getattr(transformers, f"{prefix}Config")(vocab_size=VOCAB, **settings))
        model.save_pretrained(folder)
        config = json.load(open(os.path.join(folder, "config.json")))
        torch.manual_seed(5)
        made = cls.from_pretrained(folder, num_labels=1)
        return dict(name=name, config=config, weights=hashes(made), generator=state())


def without(settings, key):
    return {k: v for k, v in settings.items() if k != key} | {key: None}


passes = []
for prefix, settings in (("Llama", SIZES), ("GPT2", GPT2)):
    passes += [
        pass_of(f"{prefix}, a number", prefix, settings, num_labels=1),
        pass_of(f"{prefix}, numbers", prefix, settings, num_labels=3, problem_type="regression"),
        pass_of(f"{prefix}, several labels", prefix, settings, num_labels=3, problem_type="multi_label_classification"),
        pass_of(f"{prefix}, one label", prefix, settings, num_labels=3, problem_type="single_label_classification"),
        pass_of(
            f"{prefix}, no padding token",
            prefix,
            without(settings, "pad_token_id"),
            slice(1, 2),
            num_labels=3,
            problem_type="single_label_classification",
        ),
    ]
heads = dict(
    ids=IDS.tolist(),
    mask=MASK.tolist(),
    passes=passes,
    drawn=[drawn(name, prefix, settings) for name, prefix, settings, _ in MODELS],
)
with open(here / "heads.json", "w") as f:
    json.dump(heads, f)
    f.write("\n")
encoder.write(
    str(here / "score"), "", [(name, settings, HEADS, ways, True, prefix) for name, prefix, settings, ways in MODELS]
)
