package omegaconf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Unmarshal parses a mapping like OmegaConf.load. Integers become int64, lists []any. Anchors,
// aliases, tags and interpolations are refused: no configuration of Hezar has any.
func Unmarshal(text []byte) (Map, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("omegaconf: %w", err)
	}
	if document.Kind == 0 { // an empty file
		return Map{}, nil
	}
	v, err := value(document.Content[0], 0)
	if err != nil {
		return nil, err
	}
	m, ok := v.(Map)
	if !ok {
		return nil, errors.New("omegaconf: the file is no mapping; want lines of the form key: value")
	}
	return m, nil
}

func value(n *yaml.Node, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("omegaconf: line %d: more than %d levels", n.Line, maxDepth)
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return nil, fmt.Errorf("omegaconf: line %d: an anchor or alias; write the value out", n.Line)
	}
	if n.Style&yaml.TaggedStyle != 0 {
		return nil, fmt.Errorf("omegaconf: line %d: the tag %s; want plain values", n.Line, n.Tag)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return mapping(n, depth)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := value(c, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	}
	return scalarValue(n)
}

func mapping(n *yaml.Node, depth int) (Map, error) {
	m := make(Map, 0, len(n.Content)/2)
	seen := map[any]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := value(n.Content[i], depth+1)
		if err != nil {
			return nil, err
		}
		switch key.(type) {
		case string, int64:
		default:
			return nil, fmt.Errorf("omegaconf: line %d: the key %q is no string and no integer", n.Content[i].Line,
				n.Content[i].Value)
		}
		if seen[key] {
			return nil, fmt.Errorf("omegaconf: line %d: the key %v occurs twice", n.Content[i].Line, key)
		}
		seen[key] = true
		v, err := value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		m = append(m, Item{key, v})
	}
	return m, nil
}

// loadedFloat matches floats as OmegaConf's loader reads them: 1e-5 is a number, though a string in
// plain YAML 1.1.
var loadedFloat = whole(`[-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+(?:_[0-9]+)*[eE][-+]?[0-9]+|\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)`)

func scalarValue(n *yaml.Node) (any, error) {
	text := n.Value
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	digits := strings.ReplaceAll(text, "_", "")
	switch {
	case n.Style&quoted != 0:
	case null.MatchString(text):
		return nil, nil
	case boolean.MatchString(text):
		return slices.Contains([]string{"yes", "true", "on"}, strings.ToLower(text)), nil
	case loadedFloat.MatchString(text):
		digits = strings.NewReplacer(".inf", "inf", ".nan", "nan").Replace(strings.ToLower(digits))
		v, _ := strconv.ParseFloat(digits, 64) // no syntax error; out of range gives infinity, as in Python
		return v, nil
	case integer.MatchString(text):
		v, err := parseInt(digits)
		if err != nil {
			return nil, fmt.Errorf("omegaconf: line %d: the number %s does not fit into 64 bits", n.Line, text)
		}
		return v, nil
	}
	return text, nil
}

// parseInt parses integers of YAML 1.1: those of Go, octal ones with a leading 0, and sexagesimal
// ones such as 1:30, which is ninety.
func parseInt(text string) (int64, error) {
	first, sixtieths, found := strings.Cut(text, ":")
	total, err := strconv.ParseInt(first, 0, 64)
	for found && err == nil {
		first, sixtieths, found = strings.Cut(sixtieths, ":")
		var v int64
		if v, err = strconv.ParseInt(first, 10, 64); total > math.MaxInt64/60-60 || total < math.MinInt64/60+60 {
			return 0, strconv.ErrRange
		}
		if text[0] == '-' {
			v = -v
		}
		total = total*60 + v
	}
	return total, err
}
