#!/usr/bin/env python3
"""Models go from transformers to Go and back, and keep the bits of their logits and weights.

    python scripts/auto_interop.py [CLASS...]   # all classes, or those whose names begin so

transformers saves a model. Go loads it, computes logits and saves it. transformers' Auto class loads what Go saved.
The models: eight encoders with five heads each, GPT-2 and every type of models/llama with two, T5, mT5, BART, mBART,
Marian with one vocabulary and with two, ViT, DeiT, DINOv2, ResNet, both versions of ConvNeXt, Swin, SegFormer with both of
its heads, CLIP and SigLIP with and without a classifier, YOLOS and DETR, which find objects, TrOCR with a ViT and a DeiT,
LLaVA with a Llama and a Qwen2, Whisper, and Wav2Vec2 and HuBERT, with CTC and as classifiers.
Weights are read from model.safetensors, its shards, pytorch_model.bin and its shards.

All models but ResNet make the same way with an adapter of peft on all linear layers below the head. Image models have
an image processor, whose numbers are compared as well. A TrOCR has a TrOCRProcessor, with a tokenizer, a LLaVA has a
LlavaProcessor, and a Whisper has a WhisperProcessor. A model of CTC has a Wav2Vec2Processor, and all models of sound hear a WAV file. A folder that
has tokenizer.json alone must come back with a tokenizer that gives the same ids, and so must the files of a
MarianTokenizer.

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
import wave

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))
import pins  # noqa: E402, F401

os.environ["HF_HUB_OFFLINE"] = "1"
import peft
import tokenizers
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil
from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

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
        classifier_pooling="mean",
    ),
    "DebertaV2": dict(
        BERT,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        position_biased_input=False,
        conv_kernel_size=3,
        type_vocab_size=0,
    ),
    "DistilBert": dict(vocab_size=300, dim=48, n_layers=3, n_heads=4, hidden_dim=96, max_position_embeddings=40),
}
HEADS = {
    "SequenceClassification": dict(id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1}),
    "TokenClassification": dict(num_labels=5),
    "QuestionAnswering": {},
    "MultipleChoice": {},
    "MaskedLM": {},
}
KINDS = [
    (getattr(transformers, e + "Config")(**sizes, **labels), getattr(transformers, f"{e}For{head}"), head)
    for e, sizes in ENCODERS.items()
    for head, labels in HEADS.items()
]
GPT2 = dict(vocab_size=300, n_positions=40, n_embd=48, n_layer=3, n_head=4)
KINDS.append((transformers.GPT2Config(**GPT2), transformers.GPT2LMHeadModel, "CausalLM"))
KINDS.append(
    (
        transformers.GPT2Config(pad_token_id=1, num_labels=3, **GPT2),
        transformers.GPT2ForSequenceClassification,
        "SequenceClassification",
    )
)
for kind, settings in {
    "Llama": dict(
        rope_parameters=dict(
            rope_type="llama3",
            rope_theta=5e5,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=16,
        )
    ),
    "Mistral": dict(head_dim=16, sliding_window=5),
    "Qwen2": dict(tie_word_embeddings=True),
    "Qwen3": dict(head_dim=16, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "Phi3": dict(
        pad_token_id=0,
        rope_parameters=dict(
            rope_type="longrope", partial_rotary_factor=0.5, short_factor=[1.0, 1.2, 1.5], long_factor=[1.0, 2.0, 5.0]
        ),
        original_max_position_embeddings=8,
    ),
    "Gemma": dict(head_dim=16),
    "Gemma2": dict(head_dim=16, sliding_window=5, attn_logit_softcapping=None),
    "Gemma3": dict(
        head_dim=16, sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"]
    ),
    "SmolLM3": dict(pad_token_id=0, no_rope_layers=[1, 0, 1]),
    "Olmo2": {},
    "Mixtral": dict(num_local_experts=4, head_dim=16, output_router_logits=True),
    "Qwen2Moe": dict(
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=40,
        decoder_sparse_step=2,
        use_sliding_window=True,
        sliding_window=5,
    ),
    "Qwen3Moe": dict(
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        head_dim=16,
        mlp_only_layers=[1],
        norm_topk_prob=True,
    ),
    "Granite": dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=2.5),
}.items():
    text = "Gemma3Text" if kind == "Gemma3" else kind
    config = getattr(transformers, text + "Config")
    KINDS.append(
        (config(num_key_value_heads=2, **BERT, **settings), getattr(transformers, kind + "ForCausalLM"), "CausalLM")
    )
    if kind != "Granite":  # which transformers has no classifier of
        KINDS.append(
            (
                config(num_key_value_heads=2, num_labels=1, **BERT, **dict(settings, pad_token_id=1)),
                getattr(transformers, text + "ForSequenceClassification"),
                "SequenceClassification",
            )
        )
for kind, settings in (
    ("T5", {}),
    ("T5", dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    ("MT5", {}),
):
    KINDS.append(
        (
            getattr(transformers, kind + "Config")(
                vocab_size=300,
                d_model=48,
                d_kv=16,
                d_ff=96,
                num_layers=2,
                num_heads=4,
                decoder_start_token_id=0,
                **settings,
            ),
            getattr(transformers, kind + "ForConditionalGeneration"),
            "Seq2SeqLM",
        )
    )
for kind, settings in (
    ("Bart", dict(decoder_layerdrop=0.1)),
    ("MBart", dict(scale_embedding=True, decoder_start_token_id=5)),
):
    KINDS.append(
        (
            getattr(transformers, kind + "Config")(
                vocab_size=300,
                d_model=48,
                encoder_layers=2,
                decoder_layers=3,
                encoder_attention_heads=4,
                decoder_attention_heads=2,
                encoder_ffn_dim=96,
                decoder_ffn_dim=64,
                max_position_embeddings=40,
                **settings,
            ),
            getattr(transformers, kind + "ForConditionalGeneration"),
            "Seq2SeqLM",
        )
    )
KINDS.append(
    (
        transformers.BartConfig(
            vocab_size=300,
            d_model=48,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=96,
            decoder_ffn_dim=96,
            max_position_embeddings=40,
        ),
        transformers.BartForSequenceClassification,
        "SequenceClassification",
    )
)
MARIAN = dict(
    vocab_size=300,
    d_model=48,
    encoder_layers=2,
    decoder_layers=1,
    encoder_attention_heads=4,
    decoder_attention_heads=2,
    encoder_ffn_dim=96,
    decoder_ffn_dim=64,
    max_position_embeddings=40,
    activation_function="swish",
    scale_embedding=True,
    pad_token_id=1,
    decoder_start_token_id=1,
)
for settings in ({}, dict(share_encoder_decoder_embeddings=False, decoder_vocab_size=320)):
    KINDS.append((transformers.MarianConfig(**MARIAN, **settings), transformers.MarianMTModel, "Seq2SeqLM"))
for kind, settings in {
    "ViT": dict(hidden_dropout_prob=0.1),
    "DeiT": dict(image_size=[32, 48], patch_size=[8, 12], qkv_bias=False),
}.items():
    KINDS.append(
        (
            getattr(transformers, kind + "Config")(
                **dict(
                    dict(
                        hidden_size=48,
                        num_hidden_layers=3,
                        num_attention_heads=4,
                        intermediate_size=96,
                        image_size=32,
                        patch_size=8,
                        num_labels=5,
                    ),
                    **settings,
                )
            ),
            getattr(transformers, kind + "ForImageClassification"),
            "ImageClassification",
        )
    )
DINOV2 = dict(
    hidden_size=48, num_hidden_layers=3, num_attention_heads=4, mlp_ratio=2, image_size=32, patch_size=8, num_labels=5
)
CONVNEXT = dict(hidden_sizes=[16, 32, 24], depths=[1, 2, 1], num_stages=3, image_size=48, num_labels=5)
for kind, settings in {
    "Dinov2": dict(DINOV2, use_swiglu_ffn=True),
    "Dinov2WithRegisters": DINOV2,
    "ResNet": dict(embedding_size=16, hidden_sizes=[64, 96], depths=[2, 1], num_labels=5),
    "ConvNext": dict(CONVNEXT, drop_path_rate=0.1),
    "ConvNextV2": dict(CONVNEXT, patch_size=[2, 3]),
    "Swin": dict(
        embed_dim=16,
        depths=[2, 2, 1],
        num_heads=[2, 4, 4],
        window_size=3,
        image_size=[40, 36],
        patch_size=2,
        use_absolute_embeddings=True,
        num_labels=5,
    ),
}.items():
    KINDS.append(
        (
            getattr(transformers, kind + "Config")(**settings),
            getattr(transformers, kind + "ForImageClassification"),
            "ImageClassification",
        )
    )
for head in ("SemanticSegmentation", "ImageClassification"):
    config = transformers.SegformerConfig(
        num_encoder_blocks=3,
        hidden_sizes=[16, 24, 32],
        depths=[1, 2, 1],
        num_attention_heads=[1, 2, 4],
        sr_ratios=[4, 2, 1],
        patch_sizes=[7, 3, 3],
        strides=[4, 2, 2],
        mlp_ratios=[2, 2, 3],
        decoder_hidden_size=24,
        num_labels=5,
    )
    KINDS.append((config, getattr(transformers, "SegformerFor" + head), head))
for kind, settings in {
    "Yolos": dict(
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=[32, 48],
        patch_size=8,
        num_detection_tokens=7,
        num_labels=5,
    ),
    "Detr": dict(
        backbone_config=transformers.ResNetConfig(
            embedding_size=16, hidden_sizes=[64, 96], depths=[2, 1], out_features=["stage2"]
        ),
        use_timm_backbone=False,
        d_model=48,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_layers=2,
        decoder_attention_heads=4,
        decoder_ffn_dim=96,
        num_queries=7,
        num_labels=5,
    ),
}.items():
    KINDS.append(
        (
            getattr(transformers, kind + "Config")(**settings),
            getattr(transformers, kind + "ForObjectDetection"),
            "ObjectDetection",
        )
    )
CLIP = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
for cls, head in {
    transformers.CLIPModel: "ZeroShotImageClassification",
    transformers.CLIPForImageClassification: "ImageClassification",
}.items():
    KINDS.append(
        (
            transformers.CLIPConfig(
                text_config=dict(CLIP, vocab_size=300, max_position_embeddings=40, eos_token_id=7),
                vision_config=dict(CLIP, image_size=32, patch_size=8),
                projection_dim=24,
                num_labels=5 if head == "ImageClassification" else 2,
            ),
            cls,
            head,
        )
    )

for cls, head in {
    transformers.SiglipModel: "ZeroShotImageClassification",
    transformers.SiglipForImageClassification: "ImageClassification",
}.items():
    KINDS.append(
        (
            transformers.SiglipConfig(
                text_config=dict(CLIP, vocab_size=300, max_position_embeddings=40),
                vision_config=dict(CLIP, image_size=32, patch_size=8),
                num_labels=5 if head == "ImageClassification" else 2,
            ),
            cls,
            head,
        )
    )

VISION = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=[32, 48])
TROCR = dict(
    vocab_size=300,
    decoder_layers=2,
    decoder_attention_heads=4,
    decoder_ffn_dim=64,
    max_position_embeddings=40,
    is_decoder=True,
)
for seen, settings in {
    "vit": dict(d_model=32, scale_embedding=True),
    "deit": dict(d_model=40, cross_attention_hidden_size=48, layernorm_embedding=False, tie_word_embeddings=False),
}.items():
    KINDS.append(
        (
            transformers.VisionEncoderDecoderConfig(
                encoder=dict(VISION, model_type=seen, patch_size=8),
                decoder=dict(TROCR, model_type="trocr", **settings),
                decoder_start_token_id=2,
                pad_token_id=1,
                eos_token_id=2,
            ),
            transformers.VisionEncoderDecoderModel,
            "ImageTextToText",
        )
    )

for kind, settings in {
    "llama": dict(num_key_value_heads=2),
    "qwen2": dict(num_key_value_heads=4, tie_word_embeddings=True),
}.items():
    KINDS.append(
        (
            transformers.LlavaConfig(
                vision_config=dict(CLIP, model_type="clip_vision_model", image_size=32, patch_size=8),
                text_config=dict(BERT, model_type=kind, **settings),
                image_token_index=4,
                vision_feature_layer=[-2, -1] if kind == "qwen2" else -2,
            ),
            transformers.LlavaForConditionalGeneration,
            "ImageTextToText",
        )
    )

KINDS.append(
    (
        transformers.WhisperConfig(
            vocab_size=300,
            num_mel_bins=16,
            d_model=48,
            encoder_layers=2,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=2,
            encoder_ffn_dim=96,
            decoder_ffn_dim=64,
            max_source_positions=50,
            max_target_positions=40,
            pad_token_id=0,
            bos_token_id=0,
            eos_token_id=0,
            decoder_start_token_id=1,
            suppress_tokens=[7, 8],
            begin_suppress_tokens=[9, 0],
            decoder_layerdrop=0.1,
        ),
        transformers.WhisperForConditionalGeneration,
        "SpeechSeq2Seq",
    )
)

HEARS = dict(
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=48,
    conv_dim=[16, 24],
    conv_stride=[5, 4],
    conv_kernel=[10, 4],
    num_conv_pos_embeddings=8,
    num_conv_pos_embedding_groups=4,
)
WHOLE = dict(feat_extract_norm="layer", do_stable_layer_norm=True, conv_bias=True)
for cls, kind, head, settings in [
    ("Wav2Vec2Config", "Wav2Vec2ForCTC", "CTC", dict(vocab_size=12)),
    ("Wav2Vec2Config", "Wav2Vec2ForSequenceClassification", "AudioClassification", dict(WHOLE, num_labels=3)),
    ("HubertConfig", "HubertForCTC", "CTC", dict(WHOLE, vocab_size=12, pad_token_id=2)),
    ("HubertConfig", "HubertForSequenceClassification", "AudioClassification", dict(use_weighted_layer_sum=True)),
]:
    KINDS.append((getattr(transformers, cls)(**HEARS, **settings), getattr(transformers, kind), head))
SOUND = ("SpeechSeq2Seq", "CTC", "AudioClassification")


def image_processor(config):
    """that of a model, whose pictures are cut out of larger ones"""
    if config.model_type.startswith("dinov2"):
        return BitImageProcessorPil(size=dict(shortest_edge=48), crop_size=dict(height=40, width=40))
    if config.model_type == "yolos":
        return YolosImageProcessorPil(size=dict(shortest_edge=40, longest_edge=65))
    if config.model_type == "detr":
        return DetrImageProcessorPil(size=dict(max_height=60, max_width=65), pad_size=dict(height=60, width=65))
    if config.model_type in ("clip", "llava"):
        return CLIPImageProcessorPil(size=dict(shortest_edge=35), crop_size=dict(height=32, width=32))
    if config.model_type == "siglip":
        return SiglipImageProcessorPil(size=dict(height=32, width=32))
    if config.model_type == "vision-encoder-decoder":
        return image_processor(config.encoder)
    if config.model_type in ("resnet", "convnext", "convnextv2"):
        return ConvNextImageProcessorPil(size=dict(shortest_edge=48), crop_pct=0.9)
    if config.model_type == "segformer":
        return SegformerImageProcessorPil(size=dict(height=40, width=48), do_reduce_labels=True)
    height, width = config.image_size if isinstance(config.image_size, list) else (config.image_size, config.image_size)
    cls = {"deit": DeiTImageProcessorPil}.get(config.model_type, ViTImageProcessorPil)
    return cls(
        size=dict(height=height + 5, width=width + 2),
        do_center_crop=True,
        crop_size=dict(height=height, width=width),
        image_mean=[0.485, 0.456, 0.406],
        image_std=[0.229, 0.224, 0.225],
    )


def logits_of(model, ids, mask, pixels=None):
    if model.config.model_type == "whisper":
        return model(input_features=pixels, decoder_input_ids=ids[:1, :5]).logits
    if model.config.model_type in ("wav2vec2", "hubert"):
        whole = torch.ones_like(pixels, dtype=torch.long) if model.config.feat_extract_norm == "layer" else None
        return model(pixels, attention_mask=whole).logits
    if hasattr(model, "logit_scale"):
        return model(input_ids=ids, attention_mask=mask, pixel_values=pixels).logits_per_text
    if model.config.model_type in ("yolos", "detr"):
        out = model(pixels)
        return torch.cat([out.logits, out.pred_boxes], -1)
    if model.config.model_type == "llava":  # the first text, after the image
        image = torch.full((1, 16), model.config.image_token_index)
        return model(input_ids=torch.cat([image, ids[:1]], 1), pixel_values=pixels).logits
    if pixels is not None:
        text = dict(decoder_input_ids=ids[:1, :5]) if model.config.is_encoder_decoder else {}
        return model(pixel_values=pixels, **text).logits
    second = dict(decoder_input_ids=ids[:, :5]) if model.config.is_encoder_decoder and hasattr(model, "lm_head") else {}
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    if type(whole).__name__.endswith("MultipleChoice"):  # all texts are choices
        return model(input_ids=ids[None], attention_mask=mask[None]).logits.T
    out = model(input_ids=ids, attention_mask=mask, **second)
    return out.logits if "logits" in out else torch.stack([out.start_logits, out.end_logits], -1)


def shards(folder, state):
    """pytorch_model.bin in two files with an index, as transformers 4 wrote them"""
    names, parts = list(state), {}
    for i, part in enumerate([names[: len(names) // 2], names[len(names) // 2 :]], 1):
        file = f"pytorch_model-{i:05}-of-00002.bin"
        torch.save({n: state[n] for n in part}, folder / file)
        parts.update({n: file for n in part})
    (folder / "pytorch_model.bin.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": parts})
    )


def save(layout, model, folder):
    if layout == "safetensors":
        model.save_pretrained(folder)
        return
    if layout == "shards of safetensors":
        model.save_pretrained(folder, max_shard_size="50KB")
        assert (folder / "model.safetensors.index.json").exists(), "transformers wrote one file"
        return
    folder.mkdir()
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    if layout == "bin":
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    else:
        shards(folder, model.state_dict())


def write_tokenizer(kind, folder):
    """tokenizer.json that is not what the class of the model makes of its vocabulary: cased, or with a space before
    each text
    """
    if kind in ("Bert", "DistilBert"):
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        t = tokenizers.Tokenizer(
            tokenizers.models.WordPiece(
                {w: i for i, w in enumerate([*special, "Paris", "paris", "in"])}, unk_token="[UNK]"
            )
        )
        t.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=False)
        t.pre_tokenizer, t.decoder = tokenizers.pre_tokenizers.BertPreTokenizer(), tokenizers.decoders.WordPiece()
        t.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    else:
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        t = tokenizers.Tokenizer(
            tokenizers.models.BPE(
                {w: i for i, w in enumerate([*special, "i", "n", "P", "Ġ", "in", "Ġin", "ĠP"])},
                [("i", "n"), ("Ġ", "in"), ("Ġ", "P")],
            )
        )
        t.pre_tokenizer, t.decoder = (
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True),
            tokenizers.decoders.ByteLevel(),
        )
        t.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    t.add_special_tokens(special)
    t.save(str(folder / "tokenizer.json"))


def same_tokens(model, folder):
    """whether transformers makes of the folder the ids and types of its tokenizer.json"""
    t, auto = (
        tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    for pair in [("in Paris",), ("in Paris", "P in")]:
        want, got = t.encode(*pair), auto(*pair)
        if got["input_ids"] != want.ids or got.get("token_type_ids", want.type_ids) != want.type_ids:
            return False
    typed = getattr(model.config, "type_vocab_size", 1) > 1 and any(want.type_ids)
    return (
        ("token_type_ids" in got) == typed
        and auto.mask_token in auto.get_vocab()
        and auto.pad_token in auto.get_vocab()
    )


TASKS = {
    "SequenceClassification": "SEQ_CLS",
    "TokenClassification": "TOKEN_CLS",
    "QuestionAnswering": "QUESTION_ANS",
    "MultipleChoice": None,
    "CausalLM": "CAUSAL_LM",
    "MaskedLM": None,
    "Seq2SeqLM": "SEQ_2_SEQ_LM",
    "ImageClassification": None,
    "SemanticSegmentation": None,
    "ObjectDetection": None,
    "ZeroShotImageClassification": None,
    "ImageTextToText": None,
    "SpeechSeq2Seq": None,
    "CTC": None,
    "AudioClassification": None,
}
NEW = {
    "ImageClassification": ["classifier"],
    "SemanticSegmentation": ["decode_head"],
    "ObjectDetection": ["class_labels_classifier", "bbox_predictor"],
    "AudioClassification": ["projector", "classifier"],
}


def adapter(program, model, head, folder, inputs, picture=None, processor=None):
    """What is wrong with a model's adapter that Go has loaded and saved"""
    base, there, back = folder / "base", folder / "python", folder / "go"
    cls = getattr(transformers, f"AutoModelFor{head}")
    model.save_pretrained(base)
    torch.manual_seed(4)
    linear = [
        n
        for n, m in model.named_modules()
        if isinstance(m, (torch.nn.Linear, transformers.pytorch_utils.Conv1D))
        and n.startswith((model.base_model_prefix + ".", "encoder.", "decoder.", "text_model.", "vision_model."))
        # an update of the last, within torch.nn.MultiheadAttention, is not used by peft
        and not n.endswith(("output_projection", "proj_out", "head.attention.out_proj"))
        # peft 0.21 takes the names of layers beside experts for those of the experts
        and not (hasattr(model.config, "num_experts_per_tok") and ".mlp." in n)
    ]
    adapted = peft.get_peft_model(
        cls.from_pretrained(base),
        peft.LoraConfig(
            r=4,
            target_modules=linear,
            lora_dropout=0.1,
            init_lora_weights=False,
            task_type=TASKS[head],
            modules_to_save=NEW.get(head),
        ),
    ).eval()
    adapted.save_pretrained(there)
    pixels = None
    if processor:
        whole_processor(processor, head, model.config).save_pretrained(there)
        pixels = numbers(processor, head, picture, there)
    save_file(inputs, there / "inputs.safetensors")
    subprocess.run([program, head, there, back], check=True, stderr=subprocess.DEVNULL)
    again = peft.PeftModel.from_pretrained(cls.from_pretrained(base), back).eval()
    with torch.no_grad():
        want, python = (logits_of(m, inputs["ids"], inputs["mask"], pixels) for m in (adapted, again))
    saved, loaded = (load_file(f / "adapter_model.safetensors") for f in (there, back))
    settings = [dict(json.load(open(f / "adapter_config.json"))) for f in (there, back)]
    for s in settings:
        s["target_modules"] = sorted(s["target_modules"])
    return [
        what
        for what, bad in {
            "logits of Go": not torch.equal(load_file(back / "logits.safetensors")["logits"], want),
            "logits of what Go saved": not torch.equal(python, want),
            "weights": saved.keys() != loaded.keys() or any(not torch.equal(v, loaded[n]) for n, v in saved.items()),
            "settings": any(settings[0][k] != v for k, v in settings[1].items() if k != "init_lora_weights"),
        }.items()
        if bad
    ]


def whole_processor(processor, head, config):
    """An image processor, or a TrOCRProcessor, LlavaProcessor, WhisperProcessor or Wav2Vec2Processor, which
    transformers 5 saves in other files
    """
    if config.model_type == "llava":
        words = ["<s>", "</s>", "<pad>", "<unk>", "<image>", "in", "Pin"]
        t = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
        t.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        t.add_special_tokens(words[:5])
        made = transformers.PreTrainedTokenizerFast(
            tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
        )
        return transformers.LlavaProcessor(
            processor,
            made,
            patch_size=8,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
            chat_template="{{ messages[0].content }}",
        )
    if head == "CTC":
        with tempfile.TemporaryDirectory() as folder:
            vocab = pathlib.Path(folder) / "vocab.json"
            vocab.write_text(json.dumps({w: i for i, w in enumerate(["<s>", "</s>", "<pad>", "|", "<unk>", *"inP"])}))
            return transformers.Wav2Vec2Processor(processor, transformers.Wav2Vec2CTCTokenizer(str(vocab)))
    if head == "ImageTextToText":
        words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "i", "n", "P", "Ġ", "in", "Ġin", "ĠP"]
        kind, tokenizer = transformers.TrOCRProcessor, transformers.RobertaTokenizerFast
        settings = {}
    elif head == "SpeechSeq2Seq":
        words = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|zh|>", "<|transcribe|>", "<|notimestamps|>"]
        words += ["<|translate|>", "i", "n", "P", "Ġ", "in", "Ġin", "ĠP"]
        kind, tokenizer = transformers.WhisperProcessor, transformers.WhisperTokenizerFast
        settings = dict(language="zh", task="transcribe")
    else:
        return processor
    vocab, merges = {w: i for i, w in enumerate(words)}, [("i", "n"), ("Ġ", "in"), ("Ġ", "P")]
    made = tokenizer(vocab=vocab, merges=merges, **settings)
    if head == "SpeechSeq2Seq":
        made.add_special_tokens({"additional_special_tokens": words[1:7]})
    return kind(processor, made)


def same_processor(processor, folder, picture):
    """whether transformers makes of a picture or sound and its text what it made before"""
    seen = {"backend": "pil"} if hasattr(processor, "image_processor") else {}  # as here, whatever is installed
    again = type(processor).from_pretrained(folder, **seen)
    said = "in <image> Pin" if hasattr(processor, "image_token") else "in Pin"
    want, got = (p(picture, text=said, return_tensors="pt", **rate(p)) for p in (processor, again))
    if getattr(processor, "chat_template", None) != getattr(again, "chat_template", None):
        return False
    return want.keys() == got.keys() and all(torch.equal(want[k], got[k]) for k in want)


def rate(processor):
    """What a processor of sound wants to know of it"""
    extractor = getattr(processor, "feature_extractor", processor)
    return {"sampling_rate": extractor.sampling_rate} if hasattr(extractor, "sampling_rate") else {}


def numbers(processor, head, picture, folder):
    """What a model takes of a picture or sound, which is written into a folder"""
    if head not in SOUND:
        picture.save(folder / "picture.png")
        return processor(picture, return_tensors="pt").pixel_values
    with wave.open(str(folder / "speech.wav"), "wb") as f:
        f.setparams((1, 2, processor.sampling_rate, 0, "NONE", ""))
        f.writeframes((picture * 32768).astype("<i2").tobytes())
    made = processor(picture, return_tensors="pt", **rate(processor))
    return made["input_features" if "input_features" in made else "input_values"]


def write_marian(config, folder):
    """the files of a MarianTokenizer with as many vocabularies as the model"""
    files = pathlib.Path("text/testdata/marian") / ("shared" if config.share_encoder_decoder_embeddings else "separate")
    shutil.copytree(files, folder, ignore=lambda *_: ["cases.json"], dirs_exist_ok=True)


def same_marian(there, back):
    """whether transformers makes of the folder what it made of the other one"""
    want, got = (transformers.AutoTokenizer.from_pretrained(f) for f in (there, back))
    text = dict(text=">>fra<< the bus stop", text_target="une grenouille")
    return type(got) is transformers.MarianTokenizer and got(**text).data == want(**text).data


def all_settings(config):
    """The settings of a config, and of the configs in it"""
    parts = {k: all_settings(getattr(config, k)) for k in config.sub_configs}
    own = {k: getattr(config, k) for k in config.to_dict() if k not in IGNORED and k not in parts}
    own = {k: list(v) if isinstance(v, tuple) else v for k, v in own.items()}  # files have lists
    return own | parts


# what transformers sets where it saves or loads a model
IGNORED = ("architectures", "dtype", "problem_type", "transformers_version", "_name_or_path")


def tell(name, wrong):
    print(f"{name}: {'equal to the last bit' if not wrong else 'DIFFERENT: ' + ', '.join(wrong)}", flush=True)
    return len(wrong)


def main():
    failures = 0
    kinds = [k for k in KINDS if k[1].__name__.startswith(tuple(sys.argv[1:]))] if sys.argv[1:] else KINDS
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        program = scratch / "auto_interop"
        subprocess.run(["go", "build", "-o", program, "./scripts/auto_interop"], check=True)
        g = torch.Generator().manual_seed(1)
        ids = torch.randint(5, 300, (4, 12), generator=g)
        mask = torch.ones_like(ids)
        ids[1, 5:] = 1
        ids[:, 4] = 2  # the end of a text, from which BART reads a class
        mask[1, 5:] = 0
        picture = Image.fromarray(torch.randint(0, 256, (50, 70, 3), generator=g, dtype=torch.uint8).numpy())
        picture.save(scratch / "picture.png")
        for config, kind, head in kinds:
            torch.manual_seed(3)
            model = kind(config).eval()
            pixels = processor = None
            seen = picture
            if head.endswith(("ImageClassification", "SemanticSegmentation", "ImageTextToText", "ObjectDetection")):
                processor = image_processor(config)
            if head == "SpeechSeq2Seq":
                processor = transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins, chunk_length=1)
            elif head in SOUND:
                processor = transformers.Wav2Vec2FeatureExtractor(
                    return_attention_mask=config.feat_extract_norm == "layer"
                )
            if head in SOUND:
                seen = torch.randint(-9000, 9000, (12345,), generator=g).to(torch.float32).numpy() / 32768
            if processor:
                pixels = numbers(processor, head, seen, scratch)
            if (
                getattr(config, "scale_decoder_outputs", True) is False
            ):  # T5 1.1, whose files have an output layer of its own
                model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
                model._tied_weights_keys = {k: v for k, v in model._tied_weights_keys.items() if k != "lm_head.weight"}
                model.all_tied_weights_keys = dict(model._tied_weights_keys)
            with torch.no_grad():
                want = logits_of(model, ids, mask, pixels)
            title = kind.__name__ + (" 1.1" if getattr(config, "scale_decoder_outputs", True) is False else "")
            if not getattr(config, "share_encoder_decoder_embeddings", True):
                title += " of two vocabularies"
            if head == "ImageTextToText":
                title += f" of {getattr(config, 'encoder', config.get_text_config()).model_type}"
            for layout in ["safetensors", "shards of safetensors", "bin", "shards of bin"]:
                name = f"{title}, {layout}"
                there, back = scratch / name / "python", scratch / name / "go"
                there.parent.mkdir()
                save(layout, model, there)
                encoder = kind.__name__.split("For")[0]
                tokenized = encoder in ("Bert", "DistilBert", "Roberta", "Bart") and layout == "safetensors"
                if tokenized:
                    write_tokenizer(encoder, there)
                if config.model_type == "marian":
                    write_marian(config, there)
                reads = (
                    whole_processor(processor, head, config)
                    if head in ("ImageTextToText", "SpeechSeq2Seq", "CTC")
                    else None
                )
                if processor:
                    (reads or processor).save_pretrained(there)
                    numbers(processor, head, seen, there)
                if reads or head not in ("ImageClassification", "SemanticSegmentation", "ObjectDetection"):
                    save_file({"ids": ids, "mask": mask}, there / "inputs.safetensors")
                subprocess.run([program, head, there, back], check=True, stderr=subprocess.DEVNULL)
                logits = load_file(back / "logits.safetensors")["logits"]
                (back / "logits.safetensors").unlink()
                again, info = getattr(transformers, f"AutoModelFor{head}").from_pretrained(
                    back, output_loading_info=True
                )
                with torch.no_grad():
                    python = logits_of(again.eval(), ids, mask, pixels)
                wrong = [
                    what
                    for what, bad in {
                        "logits of Go": not torch.equal(logits, want),
                        "logits of what Go saved": not torch.equal(python, want),
                        "class": type(again) is not kind,
                        "weights": any(
                            not torch.equal(v, again.state_dict()[n]) for n, v in model.state_dict().items()
                        ),
                        "labels": again.config.id2label != config.id2label,
                        "image processor": processor
                        and type(processor).from_pretrained(back).to_dict() != processor.to_dict(),
                        "processor": reads and not same_processor(reads, back, seen),
                        "tokenizer": tokenized and not same_tokens(model, back),
                        "MarianTokenizer": config.model_type == "marian" and not same_marian(there, back),
                        "names": any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")),
                        "settings": any(all_settings(again.config)[k] != v for k, v in all_settings(config).items()),
                    }.items()
                    if bad
                ]
                failures += tell(name, wrong)
            if config.model_type != "resnet":
                failures += tell(
                    f"{title}, adapter",
                    adapter(
                        program,
                        model,
                        head,
                        scratch / f"{title}, adapter",
                        {"ids": ids, "mask": mask},
                        seen,
                        processor,
                    ),
                )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
