package hezar

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/gotrainer/gotrainer/text/normalizers"
)

// NormalizerConfig is normalizer_config.yaml.
type NormalizerConfig struct {
	Name            string   `yaml:"name"` // text_normalizer
	ReplacePatterns Patterns `yaml:"replace_patterns"`
	NFKD            *bool    `yaml:"nfkd"` // nil means true
	NFKC            *bool    `yaml:"nfkc"` // nil means true
}

// Patterns are pairs of a regular expression and the replacement of its matches, in order.
type Patterns [][2]string

// UnmarshalYAML reads a list of pairs, or a mapping whose values are pairs.
func (p *Patterns) UnmarshalYAML(node *yaml.Node) error {
	var rows []*yaml.Node
	switch node.Kind {
	case yaml.SequenceNode:
		rows = node.Content
	case yaml.MappingNode:
		for i := 1; i < len(node.Content); i += 2 {
			rows = append(rows, node.Content[i])
		}
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			return nil
		}
	}
	if rows == nil && node.Kind == yaml.ScalarNode {
		return fmt.Errorf("line %d: replace_patterns is %q; want pairs of a pattern and a text", node.Line, node.Value)
	}
	for _, row := range rows {
		var pair []string
		if err := row.Decode(&pair); err != nil {
			return err
		}
		if len(pair) != 2 {
			return fmt.Errorf("line %d: a pattern has %d parts; want a pattern and a text", row.Line, len(pair))
		}
		*p = append(*p, [2]string{pair[0], pair[1]})
	}
	return nil
}

// Normalizer is Hezar's TextNormalizer.
type Normalizer struct {
	Config  NormalizerConfig
	replace []normalizers.Replace
}

// NewNormalizer makes a normalizer from its settings.
func NewNormalizer(c NormalizerConfig) (*Normalizer, error) {
	n := &Normalizer{Config: c}
	for _, p := range c.ReplacePatterns {
		r, err := normalizers.NewReplaceRegexp(p[0], p[1])
		if err != nil {
			return nil, fmt.Errorf("hezar: text normalizer: %w", err)
		}
		n.replace = append(n.replace, r)
	}
	return n, nil
}

// LoadNormalizer reads the text normalizer of a model's folder, or of its folder preprocessor/.
func LoadNormalizer(dir string) (*Normalizer, error) {
	var c NormalizerConfig
	path, err := readConfig(dir, "normalizer_config.yaml", &c)
	if err != nil {
		return nil, fmt.Errorf("hezar: text normalizer: %w", err)
	}
	if c.Name != "" && c.Name != "text_normalizer" {
		return nil, fmt.Errorf("hezar: %s: no text normalizer is named %q; want text_normalizer", path, c.Name)
	}
	return NewNormalizer(c)
}

// Normalize is a call of Hezar's normalizer with its default arguments: compatibility
// decomposition, compatibility composition, then the patterns. As there, the settings nfkd and nfkc
// of the file have no effect in such a call; with [Normalizer.NormalizeWith] they do.
func (n *Normalizer) Normalize(text string) string { return n.NormalizeWith(text, true, true) }

// NormalizeWith is a call with arguments: a form is applied if its argument is true or its setting
// in the file is.
func (n *Normalizer) NormalizeWith(text string, nfkd, nfkc bool) string {
	s := normalizers.NewString(text)
	if nfkd || n.Config.NFKD == nil || *n.Config.NFKD {
		normalizers.NFKD{}.Normalize(&s)
	}
	if nfkc || n.Config.NFKC == nil || *n.Config.NFKC {
		normalizers.NFKC{}.Normalize(&s)
	}
	for _, r := range n.replace {
		r.Normalize(&s)
	}
	return s.Text()
}
