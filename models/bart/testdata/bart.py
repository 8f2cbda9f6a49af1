"""Golden values from transformers' BartForConditionalGeneration and MBartForConditionalGeneration: python bart.py
writes bart.safetensors and bart.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, one with an adapter of peft, a run
of transformers.Seq2SeqTrainer, and what generate writes about several texts, with settings and with defaults in
files. Of their classifiers, a pass; of the tokenizers of mBART, what they make of texts in two languages.
"""

import json
import os
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import peft
import torch
import transformers
from causal import generator, mask, padded, parameters, ragged, rows, sha, tensors, tok
from safetensors.torch import load_file
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

SIZES = dict(
    vocab_size=causal.VOCAB,
    max_position_embeddings=20,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    pad_token_id=0,
    bos_token_id=3,
    eos_token_id=causal.END,
    forced_eos_token_id=causal.END,
)
OTHER = dict(
    decoder_layers=3,
    encoder_attention_heads=2,
    decoder_ffn_dim=40,
    attention_dropout=0.2,
    activation_dropout=0.1,
    encoder_layerdrop=0.4,
    decoder_layerdrop=0.3,
)
MODELS = {  # name: class, settings
    "bart": ("Bart", dict(decoder_start_token_id=causal.END)),
    "bart of other settings": (
        "Bart",
        dict(OTHER, decoder_start_token_id=2, activation_function="relu", scale_embedding=True, init_std=0.05),
    ),
    "mbart": ("MBart", dict(scale_embedding=True, attention_dropout=0.1)),
    "mbart of other settings": (
        "MBart",
        dict(OTHER, decoder_start_token_id=5, activation_function="gelu_new", dropout=0.0),
    ),
}
CNN = dict(
    num_beams=4, length_penalty=2.0, no_repeat_ngram_size=3, min_length=6, max_length=14, early_stopping=True
)  # as facebook/bart-large-cnn has them
WAYS = [
    dict(max_new_tokens=12),
    dict(max_new_tokens=12, forced_bos_token_id=7),
    dict(max_new_tokens=12, do_sample=True, temperature=0.7, top_k=20, top_p=0.9, forced_bos_token_id=9),
    dict(CNN, forced_bos_token_id=11),
    dict(CNN),
    dict(max_new_tokens=8, num_beams=3, num_return_sequences=3, forced_bos_token_id=7, forced_eos_token_id=[5, 6]),
    dict(max_new_tokens=9, num_beams=3, do_sample=True, forced_bos_token_id=4),
    dict(max_new_tokens=6, forced_bos_token_id=7, begin_suppress_tokens=list(range(0, 60, 2)), repetition_penalty=1.5),
    dict(max_new_tokens=1, forced_bos_token_id=7),
]
FILES = [
    (
        "generation_config.json",
        dict(CNN, forced_bos_token_id=3, eos_token_id=causal.END, pad_token_id=0, decoder_start_token_id=8),
    ),
    ("config.json", dict(CNN, force_bos_token_to_be_generated=True)),
    ("config.json", {}),
]
out = {"models": []}
targets = ragged(48, 2)
tensors.update({f"target.{i}": t for i, t in enumerate(targets)})
tensors["bias"] = torch.randn(1, causal.VOCAB, generator=torch.Generator().manual_seed(5))
labels = torch.nn.utils.rnn.pad_sequence(targets[:4], batch_first=True, padding_value=-100)

for label, (family, settings) in MODELS.items():

    def make(attention="sdpa", dtype=torch.float32):
        torch.manual_seed(42)
        model = getattr(transformers, family + "ForConditionalGeneration")._from_config(
            getattr(transformers, family + "Config")(**SIZES | settings), attn_implementation=attention, dtype=dtype
        )
        after = generator()
        model.final_logits_bias.copy_(tensors["bias"])
        return model, after

    model, after = make()
    entry = dict(name=label, generator=after, initial=parameters(model), cases=[], texts=[], files=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))

    def case(name, attention, full=False, bf16=False, half=False):
        name = f"{label}, {name}"
        model = make(attention, torch.bfloat16 if half else torch.float32)[0].train()
        ids, given, wanted = (
            (
                padded[:, :5].clamp(min=1).contiguous(),
                torch.ones(4, 5, dtype=torch.int64),
                labels[:, :3].clamp(min=1).contiguous(),
            )
            if full
            else (padded, mask, labels)
        )
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            result = model(input_ids=ids, attention_mask=given, labels=wanted)
        result.loss.backward()
        after = generator()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            evaluated = model(input_ids=ids, attention_mask=given, labels=wanted).logits
        tensors.update(
            {name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach(), name + ".eval": evaluated}
        )
        trained = {
            n: p.grad for n, p in model.named_parameters() if p.grad is not None
        }  # layers may have been left out
        entry["cases"].append(
            dict(
                name=name,
                attention=attention,
                full=full,
                bf16=bf16,
                half=half,
                generator=after,
                grads={n: sha(g.view(torch.int16) if half else g) for n, g in trained.items()},
                norms={n: float(f"{g.double().norm():.6g}") for n, g in trained.items()},
            )
        )

    for attention in ("sdpa", "eager"):
        case(attention, attention)
        if "of other settings" in label:
            continue
        case(attention + " without padding", attention, full=True)
        case(attention + " bf16", attention, bf16=True)
    if "of other settings" not in label:
        case("weights in bfloat16", "sdpa", half=True)

    def adapted():
        """A pass of the model with an adapter of peft"""
        targets = None if family == "Bart" else ["q_proj", "v_proj"]  # peft has no default for mBART
        model = peft.get_peft_model(
            make()[0],
            peft.LoraConfig(
                r=4, lora_dropout=0.1, init_lora_weights=False, task_type="SEQ_2_SEQ_LM", target_modules=targets
            ),
        ).train()
        torch.manual_seed(7)
        result = model(input_ids=padded, attention_mask=mask, labels=labels)
        result.loss.backward()
        tensors[f"{label}, adapter.logits"] = result.logits.detach()
        trained = {
            n.removeprefix("base_model.model.").replace(".default.", "."): p.grad
            for n, p in model.named_parameters()
            if p.requires_grad and p.grad is not None
        }
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            saved = {n: sha(p) for n, p in load_file(os.path.join(folder, "adapter_model.safetensors")).items()}
        return dict(
            saved=saved,
            grads={n: sha(g) for n, g in trained.items()},
            norms={n: float(f"{g.double().norm():.6g}") for n, g in trained.items()},
        )

    entry["adapter"] = adapted()

    model, _ = make()
    args = Seq2SeqTrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        max_steps=10,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=args,
        train_dataset=[dict(input_ids=r.tolist(), labels=t.tolist()) for r, t in zip(rows, targets)],
        data_collator=DataCollatorForSeq2Seq(tok, model=model),
    )
    trainer.train()
    log = [r for r in trainer.state.log_history if "loss" in r]
    entry.update(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=parameters(model),
    )
    model.eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8 if p.dim() == 2 else 1)  # tokens that are far apart
    for chosen in WAYS:
        torch.manual_seed(3)
        entry["texts"].append(model.generate(padded, attention_mask=mask, **chosen)[:, 1:].tolist())
    for name, defaults in FILES:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model.save_pretrained(folder)
            (folder / "generation_config.json").unlink()
            written = (
                defaults if name == "generation_config.json" else json.loads((folder / name).read_text()) | defaults
            )
            (folder / name).write_text(json.dumps(written))
            again = type(model).from_pretrained(folder)
            entry["files"].append(
                dict(name=name, content=written, rows=again.generate(padded, attention_mask=mask)[:, 1:].tolist())
            )
    out["models"].append(entry)


def tokenizer(family, source, target):
    """A small tokenizer of mBART, its files, and what it makes of a text in each language, and of one after src_lang
    and tgt_lang were changed
    """
    words = [
        ("<s>", 0.0),
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("▁", -2.0),
        ("▁in", -1.0),
        ("▁Paris", -1.5),
        ("a", -3.0),
        ("b", -3.5),
    ]
    codes = (
        transformers.models.mbart50.tokenization_mbart50.FAIRSEQ_LANGUAGE_CODES
        if family == "MBart50"
        else transformers.models.mbart.tokenization_mbart.FAIRSEQ_LANGUAGE_CODES
    )
    cls = getattr(transformers, family + "Tokenizer")
    t = cls(vocab=words + [(c, 0.0) for c in codes] + [("<mask>", 0.0)], src_lang=source, tgt_lang=target)
    with tempfile.TemporaryDirectory() as folder:
        t.save_pretrained(folder)
        files = {f: open(os.path.join(folder, f)).read() for f in ("tokenizer.json", "tokenizer_config.json")}
        t = cls.from_pretrained(folder)
    made = [t("in Paris", text_target="Paris ab")]
    t.src_lang, t.tgt_lang = "fr_XX", "de_DE"
    made.append(t("in Paris", text_target="Paris ab"))
    return dict(
        family=family,
        source=source,
        target=target,
        files=files,
        ids=[m["input_ids"] for m in made],
        labels=[m["labels"] for m in made],
        code=t.convert_tokens_to_ids("de_DE"),
        size=len(t),
        text=t.decode([t.convert_tokens_to_ids("de_DE"), *t("in Paris ab").input_ids], skip_special_tokens=True),
    )


def classifier(family):
    """Initial weights of a classifier, and a pass over texts that end"""
    name = f"{family} classifier"
    torch.manual_seed(42)
    model = getattr(transformers, family + "ForSequenceClassification")._from_config(
        getattr(transformers, family + "Config")(
            **SIZES, decoder_start_token_id=5, classifier_dropout=0.2, problem_type="single_label_classification"
        )
    )
    entry = dict(name=name, generator=generator(), initial=parameters(model), labels=model.config.num_labels)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
    texts = [torch.cat([r, torch.tensor([causal.END])]) for r in rows[:4]]
    inputs = dict(input_ids=causal.pad(texts), attention_mask=causal.pad([torch.ones_like(r) for r in texts]))
    model.train()
    torch.manual_seed(7)
    result = model(**inputs, labels=torch.tensor([0, 1, 1, 0]))
    result.loss.backward()
    entry["case"] = dict(
        name=name,
        generator=generator(),
        grads=parameters(model, lambda p: p.grad),
        norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
    )
    tensors.update(
        {
            name + ".logits": result.logits.detach(),
            name + ".loss": result.loss.detach(),
            name + ".eval": model.eval()(**inputs).logits.detach(),
        }
    )
    return entry


out["classifiers"] = [classifier("Bart"), classifier("MBart")]
out["tokenizers"] = [
    tokenizer("MBart", "en_XX", "ro_RO"),
    tokenizer("MBart50", "en_XX", "ro_RO"),
    tokenizer("MBart", "ru_RU", None),
]
causal.write(str(here / "bart"), out)
