"""Golden values from transformers' YolosForObjectDetection and DetrForObjectDetection: python detection.py writes
detection.safetensors and detection.json beside it.

For each model: initial weights from seed 42, forward and backward passes on padded images with any number of objects,
a head drawn for other classes, 20 updates of transformers.Trainer, and what the trained model finds. Tensors are stored
by the first 8 digits of their sha256, in the order of the parameters, but for images, losses and predictions.

Needs transformers 5.17.0, torch 2.11.0, scipy and accelerate.
"""

import hashlib
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
import transformers
from goldenfile import save_file
from safetensors.torch import load_file
from transformers import Trainer, TrainingArguments
from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

torch.set_num_threads(1)
IMAGES, CLASSES = 16, 3
tensors = {}


def sha(t):
    t = t.detach().contiguous()
    return hashlib.sha256((t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()).hexdigest()[:8]


def state():
    return sha(torch.get_rng_state())


def hashes(model, of=lambda p: p):
    return ["" if of(p) is None else sha(of(p)) for p in model.parameters()]


def pictures():
    """Images of several sizes with up to three bright rectangles, and COCO's annotations of these"""
    g, out = torch.Generator().manual_seed(2), []

    def rand(a, b):
        return int(torch.randint(a, b, (), generator=g))

    for i in range(IMAGES):
        height, width = rand(16, 34), rand(16, 42)
        image = torch.randint(0, 120, (height, width, 3), generator=g, dtype=torch.uint8)
        annotations = []
        for k in range(i % 4):
            x, y, w, h, kind = rand(0, width - 6), rand(0, height - 6), rand(4, 14), rand(4, 14), rand(0, CLASSES)
            image[y : y + h, x : x + w, kind] += 120
            annotations.append(
                dict(bbox=[x + 0.25, y + 0.5, w, h], category_id=kind, area=w * h, iscrowd=int(k == 2 and i % 8 == 3))
            )
        tensors[f"image.{i}"] = image
        out.append((image.numpy(), dict(image_id=i, annotations=annotations)))
    return out


data = pictures()


def collate(kind, rows, masks):
    p = dict(Yolos=YolosImageProcessorPil, Detr=DetrImageProcessorPil)[kind](do_resize=False)
    made = p(images=[r[0] for r in rows], annotations=[r[1] for r in rows], return_tensors="pt")
    batch = dict(pixel_values=made["pixel_values"])
    batch["labels"] = [{k: l[k] for k in ("class_labels", "boxes")} for l in made["labels"]]
    if masks:
        batch["pixel_mask"] = made["pixel_mask"]
    return batch


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return len(data)

    def __getitem__(self, i):
        return data[i]


def in_files(name, kind):
    """The name in files of what transformers 5 renames in memory"""
    if kind == "Detr":
        for memory, to in (("backbone.", "backbone.conv_encoder."), ("o_proj", "out_proj"), ("mlp.fc", "fc")):
            name = name.replace(memory, to)
    return name


def thaw(model, kind):
    """Trains all but the first stage of DETR's backbone, as transformers means to: it looks for stage.1 in the names
    of stages.1, and so freezes all of it
    """
    if kind == "Detr":
        for name, p in model.model.backbone.named_parameters():
            p.requires_grad_(any(f"stages.{i}" in name for i in (1, 2, 3)))
    return model


def entry(label, kind, settings, cases):
    cls = getattr(transformers, kind + "ForObjectDetection")
    masks = kind == "Detr"

    def make(attention=None, dtype=torch.float32):
        torch.manual_seed(42)
        config = getattr(transformers, kind + "Config")(num_labels=CLASSES, **settings)
        return thaw(cls._from_config(config, attn_implementation=attention, dtype=dtype), kind)

    model = make()
    e = dict(
        name=label,
        architecture=cls.__name__,
        generator=state(),
        parameters=[in_files(n, kind) for n, _ in model.named_parameters()],
        initial=hashes(model),
        cases=[],
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        e["config"] = json.load(open(os.path.join(folder, "config.json")))
        e["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))
        torch.manual_seed(5)
        fine = cls.from_pretrained(folder, num_labels=5, ignore_mismatched_sizes=True)
        e.update(fine=hashes(fine), fine_generator=state())
    for name, how in cases.items():
        model = make(how.get("attention"), getattr(torch, how.get("dtype", "float32"))).train()
        if how.get("checkpointing"):
            model.gradient_checkpointing_enable()
        rows = data[how.get("first", 0) :][: how.get("count", 4)]
        batch = collate(kind, rows, masks)
        batch["pixel_values"] = batch["pixel_values"].to(model.dtype)
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.get("bf16", False)):
            result = model(**batch)
        result.loss.backward()
        after = state()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.get("bf16", False)):
            evaluated = model(**batch)
        key = f"{label}, {name}"
        tensors.update(
            {
                key + ".logits": result.logits.detach().clone(),
                key + ".boxes": result.pred_boxes.detach().clone(),
                key + ".eval": evaluated.logits.clone(),
                key + ".loss": result.loss.detach(),
                key + ".evalloss": evaluated.loss,
            }
        )
        norms = [0.0 if p.grad is None else float(f"{p.grad.double().norm():.4g}") for p in model.parameters()]
        e["cases"].append(
            dict(dict(name=name, generator=after, grads=hashes(model, lambda p: p.grad), norms=norms), **how)
        )
    model = make()
    args = TrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        max_steps=20,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    t = Trainer(model=model, args=args, train_dataset=Rows(), data_collator=lambda rows: collate(kind, rows, masks))
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    e.update(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=hashes(model),
        final_generator=state(),
    )
    model.eval()
    p = YolosImageProcessorPil(do_resize=False)
    for i in (3, 7):
        image = data[i][0]
        with torch.no_grad():
            out = model(pixel_values=p(images=[image], return_tensors="pt")["pixel_values"])
        found = p.post_process_object_detection(out, threshold=0.0, target_sizes=[image.shape[:2]])[0]
        tensors.update({f"{label}.found.{i}.{k}": v.clone() for k, v in found.items()})
    return e


SIZES = dict(
    hidden_size=16,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=24,
    image_size=[24, 32],
    patch_size=4,
    num_detection_tokens=6,
)
DROPOUT = dict(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2)
OTHER = dict(
    use_mid_position_embeddings=False,
    image_size=[23, 30],
    num_detection_tokens=2,  # fewer than there are objects in some images
    qkv_bias=False,
    hidden_act="gelu_new",
    initializer_range=0.1,
    layer_norm_eps=1e-6,
    class_cost=2,
    bbox_cost=3,
    giou_cost=1,
    bbox_loss_coefficient=4,
    giou_loss_coefficient=3,
    eos_coefficient=0.25,
)
WAYS = {
    "sdpa": dict(),
    "eager": dict(attention="eager"),
    "without objects": dict(count=1),
    "one image": dict(first=3, count=1),
    "bf16": dict(bf16=True),
    "checkpointing": dict(checkpointing=True),
}
RESNET = dict(
    model_type="resnet",
    embedding_size=6,
    hidden_sizes=[8, 16],
    depths=[1, 2],
    layer_type="basic",
    out_features=["stage2"],
)
DETR = dict(
    backbone_config=RESNET,
    use_timm_backbone=False,
    d_model=16,
    encoder_layers=2,
    encoder_attention_heads=4,
    encoder_ffn_dim=24,
    decoder_layers=3,
    decoder_attention_heads=2,
    decoder_ffn_dim=20,
    num_queries=6,
)
DETR_DROPOUT = dict(dropout=0.1, attention_dropout=0.2, activation_dropout=0.15, auxiliary_loss=True)
DETR_OTHER = dict(
    backbone_config=dict(RESNET, hidden_sizes=[12, 16], layer_type="bottleneck", hidden_act="gelu"),
    position_embedding_type="learned",
    num_queries=2,
    dropout=0.0,
    activation_function="gelu",
    init_std=0.1,
    eos_coefficient=0.3,
)
MODELS = [
    ("yolos", "Yolos", SIZES, {k: WAYS[k] for k in ("sdpa", "eager")}),
    ("yolos with dropout", "Yolos", SIZES | DROPOUT, WAYS),
    ("yolos with other settings", "Yolos", SIZES | OTHER, {k: WAYS[k] for k in ("sdpa", "one image")}),
    ("detr", "Detr", DETR, {k: WAYS[k] for k in ("sdpa", "eager")}),
    ("detr with dropout", "Detr", DETR | DETR_DROPOUT, WAYS),
    (
        "detr with other settings",
        "Detr",
        DETR | DETR_OTHER,
        {k: WAYS[k] for k in ("sdpa", "one image", "checkpointing")},
    ),
]

if __name__ == "__main__":
    models = [entry(*m) for m in MODELS]
    save_file(
        {k: v.contiguous() for k, v in tensors.items()},
        str(here / "detection.safetensors"),
        metadata={"made with": f"torch {torch.__version__}, transformers {transformers.__version__}"},
    )
    with open(here / "detection.json", "w") as f:
        json.dump({"models": models, "annotations": [r[1]["annotations"] for r in data]}, f)
        f.write("\n")
