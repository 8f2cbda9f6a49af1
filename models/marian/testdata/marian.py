"""Golden values from transformers' MarianMTModel: python marian.py writes marian.safetensors and marian.json beside it.

For each of some models: initial weights from seed 42, forward and backward passes, one with an adapter of peft, a run
of transformers.Seq2SeqTrainer, and what generate writes about several texts, with settings and with defaults in
files. Of the positions of a model as large as opus-mt's, a hash.
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
from causal import generator, mask, padded, ragged, rows, sha, tensors, tok
from safetensors.torch import load_file
from transformers import DataCollatorForSeq2Seq, MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

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
    decoder_start_token_id=0,
    eos_token_id=causal.END,
    forced_eos_token_id=causal.END,
)
MODELS = {  # name: settings
    "marian": dict(activation_function="swish", scale_embedding=True),  # as opus-mt has them
    "marian of two vocabularies": dict(
        share_encoder_decoder_embeddings=False,
        decoder_vocab_size=67,
        d_model=33,
        encoder_attention_heads=3,
        decoder_attention_heads=1,
        decoder_layers=3,
        decoder_ffn_dim=40,
        decoder_start_token_id=65,
        attention_dropout=0.2,
        activation_dropout=0.1,
        encoder_layerdrop=0.4,
        decoder_layerdrop=0.3,
        init_std=0.05,
    ),
}
OPUS = dict(num_beams=4, bad_words_ids=[[0]], forced_eos_token_id=causal.END, renormalize_logits=True, max_length=14)
WAYS = [
    dict(max_new_tokens=12),
    dict(OPUS),
    dict(OPUS, num_return_sequences=2, no_repeat_ngram_size=2, length_penalty=0.6, bad_words_ids=[[0], [17], [28, 16]]),
    dict(OPUS, do_sample=True, num_beams=1, temperature=0.7, top_k=20, bad_words_ids=[[0], [5, 6], [7]]),
    dict(OPUS, do_sample=True, num_beams=3, max_length=9),
    dict(max_new_tokens=6, renormalize_logits=True, repetition_penalty=1.5, forced_eos_token_id=[5, 6]),
]
FILES = [
    (
        "generation_config.json",
        dict(OPUS, eos_token_id=causal.END, pad_token_id=0, bos_token_id=0, decoder_start_token_id=0),
    ),
    ("config.json", dict(OPUS, static_position_embeddings=True, normalize_before=False)),
    ("config.json", dict(forced_eos_token_id=None)),
    ("config.json", {}),
]
out = {"models": []}
targets = ragged(48, 2)
tensors.update({f"target.{i}": t for i, t in enumerate(targets)})
labels = torch.nn.utils.rnn.pad_sequence(targets[:4], batch_first=True, padding_value=-100)


def parameters(model, of=lambda p: p):
    """Without the positions, which are parameters there, but are computed and neither trained nor saved"""
    return {n: sha(of(p)) for n, p in model.named_parameters() if "embed_positions" not in n}


def norms(grads):
    return {n: float(f"{g.double().norm():.6g}") for n, g in grads.items()}


for label, settings in MODELS.items():
    config = MarianConfig(**SIZES | settings)
    bias = torch.randn(1, config.decoder_vocab_size, generator=torch.Generator().manual_seed(5))
    tensors[f"{label}, bias"] = bias

    def make(attention="sdpa", dtype=torch.float32):
        torch.manual_seed(42)
        model = MarianMTModel._from_config(MarianConfig(**SIZES | settings), attn_implementation=attention, dtype=dtype)
        after = generator()
        model.final_logits_bias.copy_(bias)
        return model, after

    model, after = make()
    entry = dict(name=label, generator=after, initial=parameters(model), cases=[], texts=[], files=[])
    entry["parameters"] = list(entry["initial"])
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "config.json")))
        entry["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))

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
        trained = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}  # layers may be left out
        entry["cases"].append(
            dict(
                name=name,
                attention=attention,
                full=full,
                bf16=bf16,
                half=half,
                generator=after,
                grads={n: sha(g.view(torch.int16) if half else g) for n, g in trained.items()},
                norms=norms(trained),
            )
        )

    for attention in ("sdpa", "eager"):
        case(attention, attention)
        if label == "marian":
            case(attention + " without padding", attention, full=True)
            case(attention + " bf16", attention, bf16=True)
    case("weights in bfloat16", "sdpa", half=True)

    def adapted():
        """A pass of the model with an adapter of peft"""
        model = peft.get_peft_model(
            make()[0],
            peft.LoraConfig(
                r=4,
                lora_dropout=0.1,
                init_lora_weights=False,
                task_type="SEQ_2_SEQ_LM",
                target_modules=["q_proj", "v_proj"],  # peft has no default
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
        return dict(saved=saved, grads={n: sha(g) for n, g in trained.items()}, norms=norms(trained))

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

    def write(model, **settings):
        """generate. Its beam search takes vocab_size for the number of logits, which fails with two vocabularies"""
        sizes, model.config.vocab_size = model.config.vocab_size, config.decoder_vocab_size
        written = model.generate(padded, attention_mask=mask, **settings)[:, 1:].tolist()
        model.config.vocab_size = sizes
        return written

    model.eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8 if p.dim() == 2 and p.requires_grad else 1)  # tokens that are far apart
    for chosen in WAYS:
        torch.manual_seed(3)
        entry["texts"].append(write(model, **chosen))
    for name, defaults in FILES:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            model.save_pretrained(folder)
            (folder / "generation_config.json").unlink()
            written = (
                defaults if name == "generation_config.json" else json.loads((folder / name).read_text()) | defaults
            )
            (folder / name).write_text(json.dumps(written))
            rows_written = write(MarianMTModel.from_pretrained(folder))
            entry["files"].append(dict(name=name, content=written, rows=rows_written))
    out["models"].append(entry)

out["positions"] = sha(MarianSinusoidalPositionalEmbedding(512, 512).create_weight())
causal.write(str(here / "marian"), out)
