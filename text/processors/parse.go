package processors

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// Parse reads the field "post_processor" of tokenizer.json. It returns nil for null.
func Parse(raw json.RawMessage) (PostProcessor, error) { return parse(raw, 0) }

func parse(raw json.RawMessage, depth int) (PostProcessor, error) {
	return tagged.Parse(raw, "post-processor", depth, parseKind)
}

func parseKind(kind string, raw json.RawMessage, depth int) (PostProcessor, error) {
	switch kind {
	case "BertProcessing":
		return tagged.Decode[BertProcessing](raw, "sep", "cls")
	case "RobertaProcessing":
		return tagged.Decode[RobertaProcessing](raw, "sep", "cls", "trim_offsets", "add_prefix_space")
	case "ByteLevel":
		b, err := pretokenizers.ParseByteLevel(raw)
		return ByteLevel{b}, err
	case "TemplateProcessing":
		return parseTemplateProcessing(raw)
	case "Sequence":
		list, err := tagged.List(raw, "processors", depth, parse)
		return Sequence(list), err
	}
	return nil, fmt.Errorf("unknown type; this reader knows BertProcessing, RobertaProcessing, TemplateProcessing, " +
		"ByteLevel, Sequence")
}
