package processors

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// Parse reads the field "post_processor" of tokenizer.json. Null is no post-processor, nil.
func Parse(raw json.RawMessage) (PostProcessor, error) { return parse(raw, 0) }

func parse(raw json.RawMessage, depth int) (PostProcessor, error) {
	if tagged.Null(raw) {
		return nil, nil
	}
	if depth > tagged.MaxDepth {
		return nil, fmt.Errorf("post-processors lie more than %d deep in one another", tagged.MaxDepth)
	}
	kind, err := tagged.Type(raw)
	if err != nil {
		return nil, fmt.Errorf("post-processor: %w", err)
	}
	p, err := parseKind(kind, raw, depth)
	if err != nil {
		return nil, fmt.Errorf("post-processor %s: %w", kind, err)
	}
	return p, nil
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
		list, err := tagged.Decode[struct{ Processors []json.RawMessage }](raw, "processors")
		if err != nil {
			return nil, err
		}
		q := make(Sequence, 0, len(list.Processors))
		for i, raw := range list.Processors {
			p, err := parse(raw, depth+1)
			if err != nil {
				return nil, err
			}
			if p == nil {
				return nil, fmt.Errorf("processors[%d] is null", i)
			}
			q = append(q, p)
		}
		return q, nil
	}
	return nil, fmt.Errorf("unknown type; this reader knows BertProcessing, RobertaProcessing, TemplateProcessing, ByteLevel, Sequence")
}
