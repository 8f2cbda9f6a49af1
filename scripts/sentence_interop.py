#!/usr/bin/env python3
"""Models go from sentence-transformers to Go and back, and keep the bits of their numbers and weights.

    python scripts/sentence_interop.py

For each encoder and decoder, with several modules behind it: sentence-transformers saves a model. Go loads it, encodes texts and
saves it. sentence-transformers loads what Go saved. The same is done for a model with an adapter of peft, for settings
as older versions wrote them, for cross encoders, which score pairs, and for language models that score them.

Run it from the root of the repository, with the packages of scripts/golden/requirements.txt. The Go side finds
libtorch as always (GOTRAINER_LIB).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))
import pins  # noqa: E402, F401

os.environ["HF_HUB_OFFLINE"] = "1"
import peft
import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
BERT = dict(
    vocab_size=300,
    hidden_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=96,
    max_position_embeddings=40,
)
ENCODERS = {
    "Bert": BERT,
    "Roberta": BERT,
    "XLMRoberta": BERT,
    "MPNet": BERT,
    "Electra": dict(BERT, embedding_size=16),
    "ModernBert": dict(
        BERT,
        intermediate_size=64,
        local_attention=8,
        pad_token_id=1,
        bos_token_id=2,
        eos_token_id=3,
        cls_token_id=2,
        sep_token_id=3,
    ),
    "DebertaV2": dict(
        BERT,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        type_vocab_size=0,
    ),
    "DistilBert": dict(vocab_size=300, dim=48, n_layers=3, n_heads=4, hidden_dim=96, max_position_embeddings=40),
    "Qwen3": dict(BERT, num_key_value_heads=2, head_dim=12),
    "Mistral": dict(BERT, num_key_value_heads=2, sliding_window=6),
    "Llama": dict(BERT, num_key_value_heads=4, is_causal=False),
    "Gemma3Text": dict(
        BERT,
        num_key_value_heads=2,
        head_dim=12,
        sliding_window=8,
        sliding_window_pattern=2,
        use_bidirectional_attention=True,
    ),
    "GPT2": dict(vocab_size=300, n_embd=48, n_layer=3, n_head=4, n_inner=96, n_positions=40),
}
LINEAR = (torch.nn.Linear, transformers.pytorch_utils.Conv1D)
PAIRS = [["w5 W6 w7", "w8"], ["w8", "w9 w10 w11 w12"], ["w20 w21", "w22 w23 w24 w25 w26 w27 w28"], ["w30", ""]]
# of as many tokens as each other, since sentence-transformers pads language models on the left
EQUAL = [["w5 w6", "w8 w9"], ["w5 w6 w7", "w20"], ["w7", "w20 w21 w9"], ["w30", "w31 w32 w33"]]
TEXTS = ["w5 W6 w7", "w8", "w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19", "w20 w21 w22 w23 w24"]
SHAPES = {  # pooling, the modules behind it, and what is changed of the model
    "mean": ("mean", lambda: [], {}),
    "cls, max": (("cls", "max"), lambda: [Normalize()], dict(max_seq_length=8)),
    "lasttoken, weightedmean": (
        ("lasttoken", "weightedmean"),
        lambda: [Dense(96, 24, bias=False), Normalize()],
        dict(prompts={"query": "w30 w31 "}, default_prompt_name="query"),
    ),
    "mean_sqrt_len_tokens": (
        "mean_sqrt_len_tokens",
        lambda: [
            Dense(48, 48, activation_function=torch.nn.GELU(), use_residual=True),
            Dense(48, 8, use_residual=True),
        ],
        dict(truncate_dim=5, similarity_fn_name="dot"),
    ),
}


LANGUAGE_MODELS = {
    "Qwen3": dict(ENCODERS["Qwen3"], tie_word_embeddings=True),
    "Llama": dict(BERT, num_key_value_heads=4),
    "Gemma": dict(BERT, num_key_value_heads=2, head_dim=12),
    "GPT2": ENCODERS["GPT2"],
}
TEMPLATES = {  # of contents that are texts, and of contents that have parts
    "flat": """<s> {{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("w40") }} :
{{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }} w41
{{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }} w42 w43""",
    "structured": """{% for m in messages %}<s> {{ m.role }} {{ m.content[0].text }} </s> {% endfor %}
{% if add_generation_prompt %}w44 {% endif %}w45""",
}


def base(encoder, folder, auto=transformers.AutoModel, settings=None, template=None):
    """A folder with an encoder, or with a language model, whose vocabulary has yes and no."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    words = [f"w{i}" for i in range(5, 300)]
    if settings is None:
        settings = ENCODERS[encoder]
    else:
        words[-2:] = ["yes", "no"]
    t = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names + words)}, unk_token="<unk>"))
    t.pre_tokenizer, t.normalizer = pre_tokenizers.WhitespaceSplit(), normalizers.Sequence([normalizers.NFC()])
    typed = encoder in ("Bert", "Electra")
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1" if typed else "<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if typed else ["input_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=t,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        mask_token="<mask>",
        model_input_names=inputs,
        **({} if template is None else dict(chat_template=template)),
    ).save_pretrained(folder)
    torch.manual_seed(3)
    config = getattr(transformers, encoder + "Config")(
        **settings, **({} if "pad_token_id" in settings else dict(pad_token_id=1))
    )
    auto.from_config(config).save_pretrained(folder)
    return str(folder)


def legacy(folder):
    """The settings as sentence-transformers 2 wrote them, where they can say it."""
    pooling = json.loads((folder / "1_Pooling/config.json").read_text())
    modes = pooling["pooling_mode"] if isinstance(pooling["pooling_mode"], list) else [pooling["pooling_mode"]]
    keys = {
        "cls": "cls_token",
        "max": "max_tokens",
        "mean": "mean_tokens",
        "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
        "weightedmean": "weightedmean_tokens",
        "lasttoken": "lasttoken",
    }
    (folder / "1_Pooling/config.json").write_text(
        json.dumps(
            {"word_embedding_dimension": pooling["embedding_dimension"]}
            | {"pooling_mode_" + k: m in modes for m, k in keys.items()}
        )
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8, "do_lower_case": True}))
    modules = json.loads((folder / "modules.json").read_text())
    for m in modules:
        m["type"] = "sentence_transformers.models." + m["type"].split(".")[-1]
    (folder / "modules.json").write_text(json.dumps(modules))


def check(program, model, there, back, pairs=PAIRS):
    def numbers(m):
        made = m.predict(pairs) if isinstance(m, CrossEncoder) else m.encode(TEXTS)
        return torch.from_numpy(made).reshape(len(made), -1)

    def settings(m):
        own = type(m.activation_fn) if isinstance(m, CrossEncoder) else (m.similarity_fn_name, m.truncate_dim)
        return {k: v for k, v in m.prompts.items() if v}, m.default_prompt_name, own

    if isinstance(model, CrossEncoder):
        (there / "pairs.json").write_text(json.dumps(pairs))
    else:
        (there / "texts.json").write_text(json.dumps(TEXTS))
    want = numbers(model)
    subprocess.run([program, there, back], check=True)
    go = torch.tensor(json.loads((back / "numbers.json").read_text()))
    again = type(model)(str(back), device="cpu")
    before, after = model.state_dict(), again.state_dict()
    return [
        what
        for what, bad in {
            "numbers of Go": not torch.equal(go, want),
            "numbers of what Go saved": not torch.equal(numbers(again), want),
            "weights": before.keys() != after.keys() or any(not torch.equal(v, after[n]) for n, v in before.items()),
            "modules": [type(m) for m in model] != [type(m) for m in again],
            "settings": settings(model) != settings(again),
            "length": min(model.max_seq_length, 38) != min(again.max_seq_length, 38),
        }.items()
        if bad
    ]


def before_6(folder):
    """The folder of a cross encoder as versions 3 and 4 of sentence-transformers wrote it."""
    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    config = json.loads((folder / "config.json").read_text())
    if config["id2label"] == {"0": "LABEL_0"}:
        config["sbert_ce_default_activation_function"] = settings["activation_fn"]
    else:
        config["sentence_transformers"] = {"version": "4.1.0", "activation_fn": settings["activation_fn"]}
    (folder / "config.json").write_text(json.dumps(config))


def cross_encoders(program, encoder, base, scratch):
    """The classifiers of pairs that an encoder makes: with one label and several, as older versions, with an adapter."""
    failures = 0
    for labels, o in ((1, dict(activation_fn=torch.nn.Identity())), (3, dict(max_length=9))):
        for older in (False, True):
            title = f"{encoder}, cross encoder with {labels} labels" + (", older settings" if older else "")
            there = scratch / title / "python"
            torch.manual_seed(6)
            model = CrossEncoder(base, num_labels=labels, device="cpu", **o)
            if not older:
                model.prompts, model.default_prompt_name = {"query": "w30 w31 "}, "query"
            model.save_pretrained(str(there), create_model_card=False)
            if older:
                before_6(there)
                model = CrossEncoder(str(there), device="cpu")
            failures += tell(title, check(program, model, there, scratch / title / "go"))
    title = f"{encoder}, cross encoder with an adapter"
    whole, there = scratch / title / "whole", scratch / title / "python"
    torch.manual_seed(6)
    CrossEncoder(base, num_labels=1, device="cpu").save_pretrained(str(whole), create_model_card=False)
    model = CrossEncoder(str(whole), device="cpu")
    heads = [n for n, _ in model[0].model.named_children() if n in ("classifier", "pre_classifier", "head")]
    linear = [n for n, m in model[0].model.base_model.named_modules() if isinstance(m, LINEAR) and "pooler" not in n]
    torch.manual_seed(5)
    model[0].model.add_adapter(
        peft.LoraConfig(r=4, target_modules=linear, modules_to_save=heads, init_lora_weights=False, task_type="SEQ_CLS")
    )
    model.save_pretrained(str(there), create_model_card=False)
    return failures + tell(title, check(program, model, there, scratch / title / "go"))


def language_models(program, prefix, scratch):
    """Language models that score pairs, of texts as they are and of messages, with an adapter, and as plain folders."""
    failures = 0

    def folder(name, template):
        of = dict(auto=transformers.AutoModelForCausalLM, settings=LANGUAGE_MODELS[prefix])
        return base(prefix, scratch / f"{prefix} as a language model" / name, template=template, **of)

    for name, template in (("texts", None), *TEMPLATES.items()):
        path = pathlib.Path(folder(name, template))
        for kind in ("plain", "saved", "adapter"):
            if kind == "plain" and prefix == "GPT2":  # GPT2LMHeadModel, of which CrossEncoder makes a classifier
                continue
            title = f"{prefix}, language model, {name}, {kind}"
            there = scratch / title / "python"
            if kind == "plain":  # without modules.json
                shutil.copytree(path, there)
                model = CrossEncoder(str(there), device="cpu")
            else:
                chat = {} if name != "structured" else dict(chat_template=dict(add_generation_prompt=True))
                o = dict(transformer_task="text-generation", processing_kwargs=chat)
                model = CrossEncoder(
                    modules=[Transformer(str(path), **o), LogitScore(298, None if kind == "adapter" else 299)],
                    activation_fn=torch.nn.Identity(),
                    prompts={"query": "w30 w31 "},
                    default_prompt_name="query",
                    device="cpu",
                )
                model.max_seq_length = 30
            if kind == "adapter":
                linear = [n for n, m in model[0].model.base_model.named_modules() if isinstance(m, LINEAR)]
                torch.manual_seed(5)
                model[0].model.add_adapter(
                    peft.LoraConfig(r=4, target_modules=linear, init_lora_weights=False, task_type="CAUSAL_LM")
                )
            if kind != "plain":
                model.save_pretrained(str(there), create_model_card=False)
            failures += tell(title, check(program, model, there, scratch / title / "go", EQUAL))
    return failures


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        program = scratch / "sentence_interop"
        subprocess.run(["go", "build", "-o", program, "./scripts/sentence_interop"], check=True)
        for encoder in ENCODERS:
            folder = base(encoder, scratch / encoder)
            for name, (pooling, modules, settings) in SHAPES.items():
                torch.manual_seed(4)
                model = SentenceTransformer(
                    modules=[Transformer(folder), Pooling(48, pooling), *modules()], device="cpu"
                )
                for key, value in settings.items():
                    setattr(model, key, value)
                for older in (False, True) if name in ("mean", "cls, max") else (False,):
                    title = f"{encoder}, {name}" + (", older settings" if older else "")
                    there = scratch / title / "python"
                    model.save_pretrained(str(there), create_model_card=False)
                    if older:
                        legacy(there)
                        model = SentenceTransformer(str(there), device="cpu")
                    failures += tell(title, check(program, model, there, scratch / title / "go"))
            # an adapter, whose weights Python keeps under other names
            plain = scratch / encoder / "whole"
            SentenceTransformer(modules=[Transformer(folder), Pooling(48, "mean")], device="cpu").save_pretrained(
                str(plain), create_model_card=False
            )
            model = SentenceTransformer(str(plain), device="cpu")
            linear = [n for n, m in model[0].auto_model.named_modules() if isinstance(m, LINEAR) and "pooler" not in n]
            torch.manual_seed(5)
            model.add_adapter(
                peft.LoraConfig(r=4, target_modules=linear, init_lora_weights=False, task_type="FEATURE_EXTRACTION")
            )
            there = scratch / f"{encoder}, adapter" / "python"
            model.save_pretrained(str(there), create_model_card=False)
            failures += tell(
                f"{encoder}, adapter", check(program, model, there, scratch / f"{encoder}, adapter" / "go")
            )
            failures += cross_encoders(program, encoder, folder, scratch)
        for prefix in LANGUAGE_MODELS:
            failures += language_models(program, prefix, scratch)
    return 1 if failures else 0


def tell(name, wrong):
    print(f"{name}: {'equal to the last bit' if not wrong else 'DIFFERENT: ' + ', '.join(wrong)}", flush=True)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
