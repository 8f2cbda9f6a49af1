package pretokenizers

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
)

// Parse reads the field "pre_tokenizer" of tokenizer.json. It returns nil for null.
func Parse(raw json.RawMessage) (PreTokenizer, error) { return parse(raw, 0) }

func parse(raw json.RawMessage, depth int) (PreTokenizer, error) {
	return tagged.Parse(raw, "pre-tokenizer", depth, parseKind)
}

func parseKind(kind string, raw json.RawMessage, depth int) (PreTokenizer, error) {
	switch kind {
	case "BertPreTokenizer":
		return BertPreTokenizer{}, nil
	case "WhitespaceSplit":
		return WhitespaceSplit{}, nil
	case "Whitespace":
		return Whitespace{}, nil
	case "UnicodeScripts":
		return UnicodeScripts{}, nil
	case "Punctuation":
		return tagged.Decode[Punctuation](raw) // without a field behavior: isolated, the zero value
	case "Digits":
		return tagged.Decode[Digits](raw, "individual_digits")
	case "ByteLevel":
		return ParseByteLevel(raw)
	case "Metaspace":
		return ParseMetaspace(raw)
	case "CharDelimiterSplit", "Delimiter":
		f, err := tagged.Decode[delimiterJSON](raw, "delimiter")
		if err != nil {
			return nil, err
		}
		r, err := oneRune("delimiter", f.Delimiter)
		return Delimiter{r}, err
	case "FixedLength":
		f := FixedLength{5}
		if err := json.Unmarshal(raw, &f); err != nil {
			return nil, err
		}
		if f.Length <= 0 {
			return nil, fmt.Errorf("length %d; want 1 or more", f.Length)
		}
		return f, nil
	case "Split":
		f, err := tagged.Decode[Split](raw, "pattern", "behavior", "invert")
		if err == nil {
			f.pattern, err = f.Spec.Compile()
		}
		return f, err
	case "Sequence":
		list, err := tagged.List(raw, "pretokenizers", depth, parse)
		return Sequence(list), err
	}
	return nil, fmt.Errorf("unknown type; this reader knows BertPreTokenizer, Whitespace, WhitespaceSplit, " +
		"Punctuation, Digits, Split, ByteLevel, Metaspace, CharDelimiterSplit, FixedLength, UnicodeScripts, Sequence")
}
