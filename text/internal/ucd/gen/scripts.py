"""Writes zz_scripts.bin: which script the pre-tokenizer UnicodeScripts of the Hugging Face tokenizers library (PyPI
tokenizers 0.23.3) takes each code point to be of. It tells only where one script ends and another begins, so the
scripts are numbers here; 0 is that of any, which cuts nowhere.

    python gen/scripts.py # with what requirements.txt lists
"""

import sys

import runs
import tokenizers
from tokenizers import pre_tokenizers

cut = pre_tokenizers.UnicodeScripts().pre_tokenize_str
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
scripted = [c for c in POINTS if cut(chr(c))]  # a text of nothing but any script has no pieces

# Where the script changes from one code point to the next, and which of those stretches are of one script.
starts = [start for _, (start, _) in cut("".join(map(chr, scripted)))] + [len(scripted)]
script, number = {}, 0
left = list(range(len(starts) - 1))
while left:
    number += 1
    first = chr(scripted[starts[left[0]]])
    text = first + "".join(chr(scripted[starts[i]]) + first for i in left)
    cuts = {start for _, (start, _) in cut(text)}
    same = {i for k, i in enumerate(left) if 2 * k + 1 not in cuts}
    for i in same:
        for c in scripted[starts[i] : starts[i + 1]]:
            script[c] = number
    left = [i for i in left if i not in same]

count = runs.write("zz_scripts.bin", lambda c: script.get(c, 0))
print("%d scripts, %d runs" % (number, count), file=sys.stderr)
