package normalizers

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// Parse reads the field "normalizer" of tokenizer.json. It returns nil for null.
func Parse(raw json.RawMessage) (Normalizer, error) { return parse(raw, 0) }

func parse(raw json.RawMessage, depth int) (Normalizer, error) {
	return tagged.Parse(raw, "normalizer", depth, parseKind)
}

func parseKind(kind string, raw json.RawMessage, depth int) (Normalizer, error) {
	switch kind {
	case "BertNormalizer":
		return tagged.Decode[BertNormalizer](raw, "clean_text", "handle_chinese_chars", "lowercase")
	case "NFC":
		return NFC{}, nil
	case "NFD":
		return NFD{}, nil
	case "NFKC":
		return NFKC{}, nil
	case "NFKD":
		return NFKD{}, nil
	case "Lowercase":
		return Lowercase{}, nil
	case "StripAccents":
		return StripAccents{}, nil
	case "Nmt":
		return Nmt{}, nil
	case "ByteLevel":
		return ByteLevel{}, nil
	case "Strip":
		return tagged.Decode[Strip](raw, "strip_left", "strip_right")
	case "Prepend":
		return tagged.Decode[Prepend](raw, "prepend")
	case "Precompiled":
		return parsePrecompiled(raw)
	case "Replace":
		return ParseReplace(raw)
	case "Sequence":
		list, err := tagged.List(raw, "normalizers", depth, parse)
		return Sequence(list), err
	}
	return nil, fmt.Errorf("unknown type; this reader knows BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, " +
		"StripAccents, Strip, Replace, Prepend, ByteLevel, Nmt, Precompiled, Sequence")
}
