package ucd

import "sync"

// AnyScript is the script of characters that go with every script: spaces and unassigned code
// points.
const AnyScript Props = 0

// Scripts returns the table of scripts, which are numbers without names. Hiragana and Katakana
// count as Han, as in SentencePiece.
var Scripts = sync.OnceValue(func() *Table { return build(decode(scriptData)) })
