package normalizers

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// Parse reads the field "normalizer" of tokenizer.json. Null is no normalizer, nil.
func Parse(raw json.RawMessage) (Normalizer, error) { return parse(raw, 0) }

func parse(raw json.RawMessage, depth int) (Normalizer, error) {
	if tagged.Null(raw) {
		return nil, nil
	}
	if depth > tagged.MaxDepth {
		return nil, fmt.Errorf("normalizers lie more than %d deep in one another", tagged.MaxDepth)
	}
	kind, err := tagged.Type(raw)
	if err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	n, err := parseKind(kind, raw, depth)
	if err != nil {
		return nil, fmt.Errorf("normalizer %s: %w", kind, err)
	}
	return n, nil
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
		list, err := tagged.Decode[struct{ Normalizers []json.RawMessage }](raw, "normalizers")
		if err != nil {
			return nil, err
		}
		q := make(Sequence, 0, len(list.Normalizers))
		for i, raw := range list.Normalizers {
			n, err := parse(raw, depth+1)
			if err != nil {
				return nil, err
			}
			if n == nil {
				return nil, fmt.Errorf("normalizers[%d] is null", i)
			}
			q = append(q, n)
		}
		return q, nil
	}
	return nil, fmt.Errorf("unknown type; this reader knows BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, ByteLevel, Nmt, Precompiled, Sequence")
}
