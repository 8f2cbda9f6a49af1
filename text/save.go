package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/internal/specialtoken"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// Save writes tokenizer.json and tokenizer_config.json into a folder, where Python's libraries and
// [LoadTokenizer] find them. A MarianTokenizer, for which there is no tokenizer.json, is written as
// the files that it was loaded from.
//
// tokenizer_config.json says that tokenizer.json describes the whole tokenizer
// (PreTrainedTokenizerFast). Given the class of a model instead, transformers would use only the
// vocabulary and lower-case cased text. It also names the special tokens that the tokenizer is
// seen to have, and lists token_type_ids in model_input_names if those of pairs differ. Other
// settings in an existing tokenizer_config.json, such as model_max_length or other
// model_input_names, are kept.
func (t *Tokenizer) Save(dir string) error {
	if t.marian != nil {
		return t.saveMarian(dir)
	}
	data, err := t.MarshalJSON()
	if err != nil {
		return err
	}
	settings, err := t.settings(filepath.Join(dir, configFile))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, tokenizerFile), append(data, '\n'), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, configFile), settings, 0o666)
}

// settings returns tokenizer_config.json for this tokenizer, with the other settings of the file at
// path.
func (t *Tokenizer) settings(path string) ([]byte, error) {
	c := map[string]any{}
	old, err := regularfile.ReadFile(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("tokenizer: %w", err)
	default:
		kept := map[string]json.RawMessage{} // raw, so that numbers do not change
		if err := json.Unmarshal(old, &kept); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for key, value := range kept {
			c[key] = value
		}
	}
	delete(c, "added_tokens_decoder") // it is in tokenizer.json, and here may be outdated
	c["tokenizer_class"] = "PreTrainedTokenizerFast"
	if space, ok := prefixSpace(t.config.PreTokenizer); ok {
		c["add_prefix_space"] = space
	}
	if c["model_input_names"] == nil {
		names, err := t.inputNames()
		if err != nil {
			return nil, err
		}
		c["model_input_names"] = names
	}
	special := t.specialNames()
	for _, key := range specialKeys {
		if raw, ok := c[key.name].(json.RawMessage); ok {
			var kept specialtoken.Token
			if err := json.Unmarshal(raw, &kept); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, key.name, err)
			}
			if _, ok := t.TokenToID(kept.Content); ok {
				continue
			}
			delete(c, key.name)
		}
		if token := special[key.name]; token != "" {
			c[key.name] = token
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(c)
	return b.Bytes(), err
}

// specialKeys lists the special tokens of tokenizer_config.json with their usual texts in BERT,
// RoBERTa and GPT-2.
var specialKeys = []struct {
	name  string
	usual []string
}{
	{"unk_token", []string{"[UNK]", "<unk>"}}, {"sep_token", []string{"[SEP]", "</s>"}},
	{"pad_token", []string{"[PAD]", "<pad>"}}, {"cls_token", []string{"[CLS]", "<s>"}},
	{"mask_token", []string{"[MASK]", "<mask>"}}, {"bos_token", []string{"<s>", endOfText}},
	{"eos_token", []string{"</s>", endOfText}},
}

// specialNames returns the special tokens by key: those that the post-processor puts around a text,
// and added special tokens with a usual text. It does not look at other tokens of the vocabulary,
// since declaring one special would make it match in ordinary text.
func (t *Tokenizer) specialNames() map[string]string {
	names := map[string]string{}
	for _, key := range specialKeys {
		for _, token := range key.usual {
			if t.added.special[token] && names[key.name] == "" {
				names[key.name] = token
			}
		}
	}
	if l := t.layout; l != nil && len(l.single) == 3 && len(l.single[0].ids) == 1 && len(l.single[2].ids) == 1 {
		for key, id := range map[string]int64{"cls_token": l.single[0].ids[0], "sep_token": l.single[2].ids[0]} {
			if token, ok := t.IDToToken(id); ok && t.added.special[token] {
				names[key] = token
			}
		}
	}
	return names
}

// inputNames returns transformers' names of the inputs that the tokenizer makes for a model.
func (t *Tokenizer) inputNames() ([]string, error) {
	plain := *t
	plain.config.Truncation, plain.config.Padding = nil, nil
	e, err := plain.EncodePair("a", "a", nil)
	switch {
	case errors.Is(err, models.ErrMissingUnknown): // the letter a is not in the vocabulary
	case err != nil:
		return nil, err
	case slices.ContainsFunc(e.TypeIDs, func(id int64) bool { return id != 0 }):
		return []string{"input_ids", "token_type_ids", "attention_mask"}, nil
	}
	return []string{"input_ids", "attention_mask"}, nil
}

// prefixSpace reports whether the pre-tokenizer puts a space before texts; ok is whether it has
// such a setting.
func prefixSpace(p pretokenizers.PreTokenizer) (space, ok bool) {
	switch p := p.(type) {
	case pretokenizers.ByteLevel:
		return p.AddPrefixSpace, true
	case pretokenizers.Sequence:
		for _, part := range p {
			if space, ok := prefixSpace(part); ok {
				return space, true
			}
		}
	}
	return false, false
}
