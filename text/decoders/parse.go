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

// Parse reads the field "decoder" of tokenizer.json. It returns nil for null.
func Parse(raw json.RawMessage) (Decoder, error) { return parse(raw, 0) }

func parse(raw json.RawMessage, depth int) (Decoder, error) {
	return tagged.Parse(raw, "decoder", depth, parseKind)
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
		list, err := tagged.List(raw, "decoders", depth, parse)
		return Sequence(list), err
	}
	return nil, errors.New("unknown type; this reader knows WordPiece, ByteLevel, Metaspace, BPEDecoder, CTC, " +
		"Replace, Fuse, ByteFallback, Strip, Sequence")
}
