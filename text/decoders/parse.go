package decoders

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// Parse reads the field "decoder" of tokenizer.json. Null is no decoder, nil.
func Parse(raw json.RawMessage) (Decoder, error) { return parse(raw, 0) }

func parse(raw json.RawMessage, depth int) (Decoder, error) {
	if tagged.Null(raw) {
		return nil, nil
	}
	if depth > tagged.MaxDepth {
		return nil, fmt.Errorf("decoders lie more than %d deep in one another", tagged.MaxDepth)
	}
	kind, err := tagged.Type(raw)
	if err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	d, err := parseKind(kind, raw, depth)
	if err != nil {
		return nil, fmt.Errorf("decoder %s: %w", kind, err)
	}
	return d, nil
}

func parseKind(kind string, raw json.RawMessage, depth int) (Decoder, error) {
	switch kind {
	case "WordPiece":
		return tagged.Decode[WordPiece](raw, "prefix", "cleanup")
	case "ByteLevel":
		b, err := pretokenizers.ParseByteLevel(raw)
		return ByteLevel{b}, err
	case "Metaspace":
		m, err := pretokenizers.ParseMetaspace(raw)
		return Metaspace{m}, err
	case "BPEDecoder":
		return tagged.Decode[BPEDecoder](raw, "suffix")
	case "CTC":
		return tagged.Decode[CTC](raw, "pad_token", "word_delimiter_token", "cleanup")
	case "Replace":
		r, err := normalizers.ParseReplace(raw)
		return Replace{r}, err
	case "Fuse":
		return Fuse{}, nil
	case "ByteFallback":
		return ByteFallback{}, nil
	case "Strip":
		d, err := tagged.Decode[Strip](raw, "content", "start", "stop")
		if err == nil && utf8.RuneCountInString(d.Content) != 1 {
			err = fmt.Errorf("content %q; want one character", d.Content)
		}
		if err == nil && (d.Start < 0 || d.Stop < 0) {
			err = errors.New("start and stop must not be negative")
		}
		return d, err
	case "Sequence":
		list, err := tagged.Decode[struct{ Decoders []json.RawMessage }](raw, "decoders")
		if err != nil {
			return nil, err
		}
		q := make(Sequence, 0, len(list.Decoders))
		for i, raw := range list.Decoders {
			d, err := parse(raw, depth+1)
			if err != nil {
				return nil, err
			}
			if d == nil {
				return nil, fmt.Errorf("decoders[%d] is null", i)
			}
			q = append(q, d)
		}
		return q, nil
	}
	return nil, errors.New("unknown type; this reader knows WordPiece, ByteLevel, Metaspace, BPEDecoder, CTC, Replace, Fuse, ByteFallback, Strip, Sequence")
}
