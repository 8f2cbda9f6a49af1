"""Golden values of training, evaluating and using a SegFormer as transformers' task guide "Semantic segmentation" does:
python segment.py writes segment.safetensors and segment.json beside it.

A run of Trainer with accumulation and its evaluation with mean_iou, the maps that post_process_semantic_segmentation
makes of a picture, and a model with updates of peft, whose decode head is trained. Needs peft 0.21.2 and torchvision
0.26.0, without which transformers has no image processor of SegFormer.
"""

import json
import os
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
root = here.parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(root / "models/internal/modeltest"), str(root / "metrics/testdata")]
import encoder  # first, since it chooses the code paths of libtorch
import torch
import torchvision  # noqa: F401: says what is missing
from meaniou import mean_iou
from peft import LoraConfig, get_peft_model
from PIL import Image
from safetensors import safe_open
from transformers import (
    SegformerConfig,
    SegformerForSemanticSegmentation,
    Trainer,
    TrainingArguments,
    default_data_collator,
)
from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil

CONFIG = dict(
    num_encoder_blocks=2,
    hidden_sizes=[8, 12],
    depths=[1, 1],
    num_attention_heads=[1, 2],
    sr_ratios=[2, 1],
    patch_sizes=[7, 3],
    strides=[4, 2],
    mlp_ratios=[2, 2],
    decoder_hidden_size=16,
    hidden_dropout_prob=0.1,
    initializer_range=0.1,
    id2label={0: "low", 1: "middle", 2: "high", 3: "nowhere"},
    label2id={"low": 0, "middle": 1, "high": 2, "nowhere": 3},
)
encoder.tensors.clear()
samples = encoder.mapped(3, 16, 24, 4)


def sha(t):
    return encoder.hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def plain(name):
    """The name that a parameter has in files of the model"""
    for part in ("base_model.model.", ".default", ".base_layer", ".modules_to_save"):
        name = name.replace(part, "")
    return encoder.in_files(name, "Segformer")


def own(model, of=lambda p: p):
    return {plain(n): sha(of(p)) for n, p in model.named_parameters() if "original_module" not in n}


def make():
    torch.manual_seed(42)
    return SegformerForSemanticSegmentation(SegformerConfig(**CONFIG))


def compute_metrics(p):
    logits = torch.from_numpy(p.predictions)
    logits = torch.nn.functional.interpolate(logits, size=p.label_ids.shape[-2:], mode="bilinear", align_corners=False)
    predicted = logits.argmax(dim=1).numpy()
    r = mean_iou(list(zip(predicted, p.label_ids)), 4, 255)
    for key in ("iou", "accuracy"):
        r |= {f"{key}_{CONFIG['id2label'][i]}": v for i, v in enumerate(r.pop("per_category_" + key))}
    return r


def run(model, updates, accumulate=1):
    args = TrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        max_steps=updates,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=accumulate,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        label_names=["labels"],
    )
    t = Trainer(
        model=model,
        args=args,
        train_dataset=samples,
        eval_dataset=samples[:45],
        data_collator=default_data_collator,
        compute_metrics=compute_metrics,
    )
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    return t, dict(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=own(model),
    )


model = make()
out = dict(model=model.config.to_diff_dict())
trainer, entry = run(model, 20, accumulate=2)
skipped = ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second", "epoch")
evaluated = {k.removeprefix("eval_"): float(v) for k, v in trainer.evaluate().items() if k not in skipped}
out["run"] = entry | dict(evaluation={k: "nan" if v != v else v.hex() for k, v in evaluated.items()})

processor = SegformerImageProcessorPil(size=dict(height=20, width=28))
picture = Image.open(root / "vision/testdata/files/rgb.png")
model.eval()
with torch.no_grad():
    result = model(**processor(picture, return_tensors="pt"))
    for name, sizes in dict(whole=[picture.size[::-1]], small=[(5, 7)]).items():
        made = processor.post_process_semantic_segmentation(result, target_sizes=sizes)[0]
        encoder.tensors["predicted." + name] = made.to(torch.uint8)


def adapted():
    base = make()
    return get_peft_model(
        base,
        LoraConfig(
            r=2,
            lora_alpha=4,
            target_modules=["q_proj", "v_proj"],
            modules_to_save=["decode_head"],
            init_lora_weights=False,
        ),
    )


def saved(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as f:
            tensors = {k: sha(f.get_tensor(k)) for k in f.keys()}
        config = json.load(open(os.path.join(folder, "adapter_config.json")))
    return dict(saved=tensors, config=config | dict(target_modules=["q_proj", "v_proj"]))


model = adapted()
entry = dict(initial=own(model), trained=[plain(n) for n, p in model.named_parameters() if p.requires_grad])
entry |= saved(model)
entry |= run(model, 6)[1]
entry["final_saved"] = saved(model)["saved"]
out["adapter"] = entry

encoder.save_file(
    {k: v.contiguous() for k, v in encoder.tensors.items()},
    str(here / "segment.safetensors"),
    metadata={"made with": f"torch {torch.__version__}, transformers {encoder.transformers.__version__}"},
)
with open(here / "segment.json", "w") as f:
    json.dump(out, f)
    f.write("\n")
