"""Golden values from peft for image classifiers: python adapter.py writes adapter.safetensors, adapter.json and the
folders of two adapters beside it.

For each of some models with updates: initial weights from seed 42, a forward and backward pass, a run of
transformers.Trainer, what is saved, and the weights after merge_and_unload. Names of weights are those in files of
models (encoder.in_files), names in files of adapters are peft's. Needs peft 0.21.2.
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
from peft import LoraConfig, get_peft_model
from safetensors import safe_open

VIT = dict(
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    image_size=12,
    patch_size=4,
    hidden_dropout_prob=0.1,
)
CONVNEXT = dict(
    hidden_sizes=[8, 12], depths=[1, 2], num_stages=2, image_size=16, patch_size=2, layer_scale_init_value=0.3
)
HEAD = dict(modules_to_save=["classifier"])
MODELS = [  # name, what the class begins with, configuration, settings of LoraConfig, checkpointing
    ("vit", "ViT", VIT, dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], **HEAD), False),
    (
        "vit, all layers",
        "ViT",
        VIT,
        dict(
            r=2,
            lora_dropout=0.1,
            use_rslora=True,
            bias="lora_only",
            target_modules="all-linear",
            init_lora_weights=False,
            **HEAD,
        ),
        True,
    ),
    (
        "vit, patterns",
        "ViT",
        VIT,
        dict(r=4, target_modules=r".*\.(k_proj|fc1)", rank_pattern={"fc1": 2}, **HEAD),
        False,
    ),
    (
        "deit, dora",
        "DeiT",
        VIT,
        dict(
            r=4,
            use_dora=True,
            target_modules=["o_proj", "fc2"],
            layers_to_transform=[1],
            init_lora_weights=False,
            **HEAD,
        ),
        False,
    ),
    (
        "convnext",
        "ConvNext",
        CONVNEXT,
        dict(r=4, lora_dropout=0.2, target_modules=["pwconv1", "pwconv2"], init_lora_weights="gaussian", **HEAD),
        False,
    ),
    (
        "convnextv2",
        "ConvNextV2",
        {k: v for k, v in CONVNEXT.items() if "scale" not in k},
        dict(r=2, target_modules="all-linear", init_lora_weights=False, **HEAD),
        False,
    ),
]
out = {"models": []}
encoder.tensors.clear()


def sha(t):
    return encoder.hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def generator():
    return sha(torch.get_rng_state())


for name, kind, config, settings, checkpointing in MODELS:

    def plain(name):
        """The name that a parameter has in files of the model"""
        for part in ("base_model.model.", ".default", ".base_layer", ".modules_to_save"):
            name = name.replace(part, "")
        return encoder.in_files(name, kind)

    def own(model, of=lambda p: p):
        return {plain(n): sha(of(p)) for n, p in model.named_parameters() if "original_module" not in n}

    def make():
        torch.manual_seed(42)
        return get_peft_model(
            getattr(transformers, kind + "ForImageClassification")(
                getattr(transformers, kind + "Config")(num_labels=3, **config)
            ),
            LoraConfig(**settings),
        )

    model = make()
    entry = dict(
        name=name,
        initial=own(model),
        generator=generator(),
        trained=[plain(n) for n, p in model.named_parameters() if p.requires_grad],
        checkpointing=checkpointing,
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        entry["config"] = json.load(open(os.path.join(folder, "adapter_config.json")))
        with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as f:
            entry["saved"] = {k: sha(f.get_tensor(k)) for k in f.keys()}
    entry["config"]["target_modules"] = (
        sorted(settings["target_modules"])
        if isinstance(settings["target_modules"], list)
        else settings["target_modules"]
    )
    entry["model"] = model.get_base_model().config.to_diff_dict()

    side = config["image_size"]
    samples = encoder.pictures(3, side, side)
    pixels = torch.stack([s["pixel_values"] for s in samples[:4]])
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    torch.manual_seed(7)
    logits = model(pixel_values=pixels).logits
    logits.square().mean().backward()
    entry["after"] = generator()
    trained = {plain(n): p for n, p in model.named_parameters() if p.requires_grad}
    entry.update(
        grads={n: sha(p.grad) for n, p in trained.items()},
        norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in trained.items()},
    )
    model.eval()
    with torch.no_grad():
        encoder.tensors.update({name + ".logits": logits.detach(), name + ".eval": model(pixel_values=pixels).logits})

    model = make()
    args = transformers.TrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        max_steps=12,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        label_names=["labels"],
    )
    t = transformers.Trainer(
        model=model, args=args, train_dataset=samples, data_collator=transformers.default_data_collator
    )
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    entry.update(
        losses=[r["loss"].hex() for r in log], grad_norms=[float(r["grad_norm"]).hex() for r in log], final=own(model)
    )
    model.eval()
    if name in ("vit", "convnext"):
        model.save_pretrained(here / name)
        os.remove(here / name / "README.md")
    with torch.no_grad():
        encoder.tensors[name + ".trained"] = model(pixel_values=pixels).logits
        merged = model.merge_and_unload()
        entry["merged"] = {encoder.in_files(n, kind): sha(p) for n, p in merged.named_parameters()}
        encoder.tensors[name + ".merged"] = merged(pixel_values=pixels).logits
    out["models"].append(entry)

encoder.save_file(
    {k: v.contiguous() for k, v in encoder.tensors.items()},
    str(here / "adapter.safetensors"),
    metadata={"made with": f"torch {torch.__version__}, transformers {transformers.__version__}"},
)
with open(here / "adapter.json", "w") as f:
    json.dump(out, f, indent=0)
    f.write("\n")
