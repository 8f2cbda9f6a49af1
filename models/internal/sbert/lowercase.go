package sbert

import (
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/normalizers"
)

// Lowercasing returns a tokenizer that converts texts to lower case first, which is the same one if
// it already does: do_lower_case. A nil tokenizer stays nil.
func Lowercasing(t *text.Tokenizer) (*text.Tokenizer, error) {
	if t == nil {
		return nil, nil
	}
	c := t.Config()
	if isLowercasing(c.Normalizer) {
		return t, nil
	}
	all := normalizers.Sequence{normalizers.Lowercase{}}
	switch n := c.Normalizer.(type) {
	case nil:
	case normalizers.Sequence:
		all = append(all, n...)
	default:
		all = append(all, n)
	}
	c.Normalizer = all
	return text.New(c)
}

func isLowercasing(n normalizers.Normalizer) bool {
	switch n := n.(type) {
	case normalizers.Lowercase:
		return true
	case normalizers.BertNormalizer:
		return n.Lowercase
	case normalizers.Sequence:
		for _, one := range n {
			if isLowercasing(one) {
				return true
			}
		}
	}
	return false
}
