package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// Parse reads the field "model" of tokenizer.json.
func Parse(raw json.RawMessage) (Model, error) {
	kind, err := tagged.Type(raw)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	var m Model
	switch kind {
	case "WordPiece":
		m, err = parseWordPiece(raw)
	case "WordLevel":
		m, err = parseWordLevel(raw)
	case "BPE":
		m, err = parseBPE(raw)
	case "Unigram":
		m, err = parseUnigram(raw)
	default:
		return nil, fmt.Errorf("model of unknown type %q; this reader knows WordPiece, WordLevel, BPE, Unigram", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", kind, err)
	}
	return m, nil
}

func parseWordPiece(raw json.RawMessage) (Model, error) {
	f, err := tagged.Decode[struct {
		Unknown  string           `json:"unk_token"`
		Prefix   string           `json:"continuing_subword_prefix"`
		MaxChars int              `json:"max_input_chars_per_word"`
		Vocab    map[string]int64 `json:"vocab"`
	}](raw, "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab")
	if err != nil {
		return nil, err
	}
	return NewWordPiece(f.Vocab, WordPieceOptions{
		UnknownToken: f.Unknown, Prefix: f.Prefix, NoPrefix: f.Prefix == "", MaxCharsPerWord: f.MaxChars,
		allowZeroMaximum: true,
	})
}

func parseWordLevel(raw json.RawMessage) (Model, error) {
	f, err := tagged.Decode[struct {
		Unknown string           `json:"unk_token"`
		Vocab   map[string]int64 `json:"vocab"`
	}](raw, "unk_token", "vocab")
	if err != nil {
		return nil, err
	}
	return NewWordLevel(f.Vocab, f.Unknown)
}

// marshalModel writes the fields, then the vocabulary in the order of its ids, as the reference
// does.
func marshalModel(kind string, fields any, v *vocabulary) ([]byte, error) {
	head, err := tagged.Marshal(kind, fields)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(head[:len(head)-1])
	b.WriteString(`,"vocab":{`)
	first := true
	for token, id := range v.Vocab() {
		if !first {
			b.WriteByte(',')
		}
		first = false
		key, err := json.Marshal(token)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.WriteString(strconv.FormatInt(id, 10))
	}
	b.WriteString("}}")
	return b.Bytes(), nil
}
