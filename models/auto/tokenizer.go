package auto

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/internal/specialtoken"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/normalizers"
)

// The names of tokenizer files that are read here.
const (
	tokenizerName       = "tokenizer.json"
	tokenizerConfigName = "tokenizer_config.json"
	specialTokensName   = "special_tokens_map.json"
)

// tokenizerConfig contains the settings of tokenizer_config.json that tokenizer.json does not
// contain.
type tokenizerConfig struct {
	truncationSide text.Direction    // where transformers' tokenizer truncates texts that are too long
	paddingSide    text.Direction    // where it pads texts that are too short
	maskless       bool              // it does not say where a text is padded: model_input_names
	lowercases     bool              // its class lower-cases texts, whatever tokenizer.json says
	special        map[string]string // special tokens: mask_token, cls_token and pad_token

	sourceLanguage, targetLanguage string // of an mBART: src_lang and tgt_lang
}

// readTokenizerConfig reads tokenizer_config.json, and from special_tokens_map.json the special
// tokens that are missing in it. Both files may be missing.
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
			Pads string             `json:"padding_side"`
			Kind string             `json:"tokenizer_class"`
			Gets []string           `json:"model_input_names"`
			Mask specialtoken.Token `json:"mask_token"`
			Cls  specialtoken.Token `json:"cls_token"`
			Pad  specialtoken.Token `json:"pad_token"`
			From string             `json:"src_lang"`
			To   string             `json:"tgt_lang"`
		}
		if err := json.Unmarshal(content, &f); err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
		for key, token := range map[string]specialtoken.Token{"mask_token": f.Mask, "cls_token": f.Cls,
			"pad_token": f.Pad} {
			if c.special[key] == "" {
				c.special[key] = token.Content
			}
		}
		c.sourceLanguage, c.targetLanguage = cmp.Or(c.sourceLanguage, f.From), cmp.Or(c.targetLanguage, f.To)
		if f.Gets != nil {
			c.maskless = !slices.Contains(f.Gets, "attention_mask")
		}
		if f.Kind == "Siglip2Tokenizer" {
			c.lowercases, f.Pads = true, cmp.Or(f.Pads, "left")
		}
		for key, side := range map[string]struct {
			found string
			to    *text.Direction
		}{"truncation_side": {f.Side, &c.truncationSide}, "padding_side": {f.Pads, &c.paddingSide}} {
			switch side.found {
			case "", "right":
			case "left":
				*side.to = text.Left
			default:
				return c, fmt.Errorf("%s: %s is %q, want right or left", path, key, side.found)
			}
		}
	}
	return c, nil
}

// lowercased returns a tokenizer that lower-cases texts before anything else.
func lowercased(t *text.Tokenizer) (*text.Tokenizer, error) {
	c, all := t.Config(), normalizers.Sequence{normalizers.Lowercase{}}
	if c.Normalizer != nil {
		all = append(all, c.Normalizer)
	}
	c.Normalizer = all
	return text.New(c)
}

// specialToken returns the id of a special token of the tokenizer, or -1: the one that the folder's
// files name under the key, or else one with the name in BERT or RoBERTa. Special tokens take
// precedence over ordinary words of the vocabulary: MPNet's has both [MASK], which has no function,
// and <mask>.
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
