"""A tokenizer as CLIP's: python tokenizer.py writes the folder tokenizer beside it. See
models/internal/modeltest/tokens.py.
"""

import json
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
import tokens
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

CAPTIONS = ["a photo of a cat", "a photo of a dog", "This is a photo of a red running shoe.", "two cats and three dogs"]


def make():
    t = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    t.train_from_iterator(
        tokens.SENTENCES + CAPTIONS * 3,
        trainers.BpeTrainer(
            vocab_size=420,
            end_of_word_suffix="</w>",
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    model = json.loads(t.to_str())["model"]
    vocab, merges = model["vocab"], [tuple(m) for m in model["merges"]]
    for letter in pre_tokenizers.ByteLevel.alphabet():  # CLIP's has all bytes, each also at the end of a word
        vocab.setdefault(letter + "</w>", len(vocab))
    for special in ("<|startoftext|>", "<|endoftext|>"):
        vocab[special] = len(vocab)
    return CLIPTokenizer(vocab=vocab, merges=merges).backend_tokenizer


if __name__ == "__main__":
    tokens.write(here / "tokenizer", make)
