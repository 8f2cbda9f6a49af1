package auto

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/internal/specialtoken"
	"github.com/gotrainer/gotrainer/text"
)

// The files of a tokenizer that are read here.
const (
	tokenizerName       = "tokenizer.json"
	tokenizerConfigName = "tokenizer_config.json"
	specialTokensName   = "special_tokens_map.json"
)

// tokenizerConfig is what tokenizer_config.json says, and tokenizer.json does not.
type tokenizerConfig struct {
	truncationSide text.Direction    // where transformers' tokenizer cuts texts that are too long
	special        map[string]string // special tokens: mask_token and cls_token
}

// readTokenizerConfig reads tokenizer_config.json, and special tokens that it does not name from
// special_tokens_map.json. Neither file need be there.
func readTokenizerConfig(dir string) (tokenizerConfig, error) {
	c := tokenizerConfig{special: map[string]string{}}
	for _, name := range []string{tokenizerConfigName, specialTokensName} {
		path := filepath.Join(dir, name)
		content, err := regularfile.ReadFile(path, 64<<20)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return c, err
		}
		var f struct {
			Side string             `json:"truncation_side"`
			Mask specialtoken.Token `json:"mask_token"`
			Cls  specialtoken.Token `json:"cls_token"`
		}
		if err := json.Unmarshal(content, &f); err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
		for key, token := range map[string]specialtoken.Token{"mask_token": f.Mask, "cls_token": f.Cls} {
			if c.special[key] == "" {
				c.special[key] = token.Content
			}
		}
		switch f.Side {
		case "", "right":
		case "left":
			c.truncationSide = text.Left
		default:
			return c, fmt.Errorf("%s: truncation_side is %q, want right or left", path, f.Side)
		}
	}
	return c, nil
}

// specialToken is the id of a special token of the tokenizer, or -1: the one that the folder's files
// have under that key, or else one of these names, BERT's and RoBERTa's. A special token comes before
// a mere word of the vocabulary: MPNet's has both [MASK], which is nothing, and <mask>.
func (m *Model) specialToken(key, bert, roberta string) int64 {
	if m.Tokenizer == nil {
		return -1
	}
	names := []string{bert, roberta}
	if slices.Contains([]string{"mpnet", "roberta", "xlm-roberta"}, m.blueprint.ModelType) {
		slices.Reverse(names)
	}
	if named := m.tokenizerConfig.special[key]; named != "" {
		if id, ok := m.Tokenizer.TokenToID(named); ok {
			return id
		}
	}
	added := m.Tokenizer.Config().AddedTokens
	for _, name := range names {
		if i := slices.IndexFunc(added, func(a text.AddedToken) bool { return a.Special && a.Content == name }); i >= 0 {
			return added[i].ID
		}
	}
	for _, name := range names {
		if id, ok := m.Tokenizer.TokenToID(name); ok {
			return id
		}
	}
	return -1
}
