package ucd

import "sync"

// AnyScript is the script of characters that belong to every one: spaces, and code points that are
// not assigned.
const AnyScript Props = 0

// Scripts returns the table of scripts. They are numbers without a name; Hiragana and Katakana are
// Han, as SentencePiece has it.
var Scripts = sync.OnceValue(func() *Table { return build(decode(scriptData)) })
