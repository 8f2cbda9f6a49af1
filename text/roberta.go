package text

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/internal/specialtoken"
	"github.com/gotrainer/gotrainer/text/decoders"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

// The files of the tokenizers of RoBERTa and GPT-2 without tokenizer.json.
const (
	bpeVocabFile = "vocab.json"
	mergesFile   = "merges.txt"
)

// robertaClasses are the tokenizers of transformers that are made of these files as RoBERTa's.
var robertaClasses = []string{"Roberta", "Bart"}

// gpt2Class is GPT-2's tokenizer, which is made of them, too, but puts no tokens around a text.
const gpt2Class = "GPT2"

// robertaConfig holds the settings of tokenizer_config.json that these tokenizers use.
type robertaConfig struct {
	tokenizerSettings
	AddPrefixSpace bool  `json:"add_prefix_space"`
	TrimOffsets    *bool `json:"trim_offsets"` // nil: true

	BOS *specialtoken.Token `json:"bos_token"`
	EOS *specialtoken.Token `json:"eos_token"`
}

// loadRoberta makes a tokenizer from vocab.json and merges.txt, as RobertaTokenizer or GPT2Tokenizer
// of transformers does. If they are not in the folder, or for another class, the error is
// fs.ErrNotExist.
func loadRoberta(dir string) (*Tokenizer, error) {
	missing := func(reason string) error {
		return fmt.Errorf("no tokenizer in %s: none of %s, %s and %s is there, and %s: %w", dir, tokenizerFile, vocabFile,
			strings.Join(pieceFiles, ", "), reason, fs.ErrNotExist)
	}
	for _, name := range []string{bpeVocabFile, mergesFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			return nil, missing("no " + name)
		}
	}
	var c robertaConfig
	if err := readSettings(dir, &c, &c.tokenizerSettings); err != nil {
		return nil, err
	}
	if !slices.Contains(robertaClasses, c.class()) && !c.isGPT2() {
		return nil, missing(fmt.Sprintf("tokenizer_class %q cannot be made of %s; save tokenizer.json with transformers",
			c.Class, bpeVocabFile))
	}
	vocab, err := readIDs(filepath.Join(dir, bpeVocabFile))
	if err != nil {
		return nil, err
	}
	merges, err := readMerges(filepath.Join(dir, mergesFile))
	if err != nil {
		return nil, err
	}
	t, err := newRoberta(vocab, merges, c)
	if err != nil {
		return nil, fmt.Errorf("the tokenizer in %s: %w", dir, err)
	}
	return t, nil
}

// readIDs reads ids by token.
func readIDs(path string) (ids map[string]int64, err error) { return ids, readOptional(path, &ids) }

// readMerges reads pairs of tokens, one a line, after a line that says which version the file has.
func readMerges(path string) (merges [][2]string, err error) {
	content, err := regularfile.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	for i, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" || i == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		first, second, found := strings.Cut(line, " ")
		if !found || first == "" || second == "" || strings.Contains(second, " ") {
			return nil, fmt.Errorf("%s: line %d is %q; want two tokens with a space between them", path, i+1, line)
		}
		merges = append(merges, [2]string{first, second})
	}
	return merges, nil
}

func newRoberta(vocab map[string]int64, merges [][2]string, c robertaConfig) (*Tokenizer, error) {
	m, err := models.NewBPE(vocab, merges, models.BPEOptions{})
	if err != nil {
		return nil, err
	}
	trim := c.TrimOffsets == nil || *c.TrimOffsets
	pre := pretokenizers.DefaultByteLevel()
	pre.AddPrefixSpace = c.AddPrefixSpace
	config := Config{AddedTokens: c.addedTokens(), Model: m, PreTokenizer: pre,
		Decoder: decoders.ByteLevel{ByteLevel: pretokenizers.DefaultByteLevel()}}
	if c.isGPT2() {
		if config.PostProcessor, err = processors.NewTemplateProcessing("$A", "$A $B:1"); err != nil {
			return nil, err
		}
		return New(config)
	}
	added, err := newAddedVocabulary(config.AddedTokens, m, nil)
	if err != nil {
		return nil, err
	}
	special := func(t AddedToken) processors.SpecialToken {
		return processors.SpecialToken{Token: t.Content, ID: added.ids[t.Content]}
	}
	config.PostProcessor = processors.RobertaProcessing{Sep: special(named(c.Sep, "</s>")),
		Cls: special(named(c.Cls, "<s>")), TrimOffsets: trim, AddPrefixSpace: c.AddPrefixSpace}
	return New(config)
}

// isGPT2 reports whether the tokenizer is made as GPT-2's.
func (c robertaConfig) isGPT2() bool { return c.class() == gpt2Class }

// specials are the special tokens, in transformers' order.
func (c robertaConfig) specials() []AddedToken {
	if !c.isGPT2() {
		return []AddedToken{named(c.BOS, "<s>"), named(c.EOS, "</s>"), named(c.Unknown, "<unk>"), named(c.Sep, "</s>"),
			named(c.Pad, "<pad>"), named(c.Cls, "<s>"), named(c.Mask, "<mask>")}
	}
	const end = "<|endoftext|>"
	specials := []AddedToken{named(c.BOS, end), named(c.EOS, end), named(c.Unknown, end)}
	for _, t := range []*specialtoken.Token{c.Sep, c.Pad, c.Cls, c.Mask} {
		if t != nil && t.Content != "" {
			specials = append(specials, AddedToken(*t))
		}
	}
	return specials
}

// named is a special token of the files, or else the usual one.
func named(t *specialtoken.Token, usual string) AddedToken {
	if t == nil || t.Content == "" {
		return AddedToken{Content: usual, Special: true}
	}
	return AddedToken(*t)
}

// addedTokens are the special tokens and the other added ones, in the order in which those that the
// vocabulary lacks get ids.
func (c robertaConfig) addedTokens() (all []AddedToken) {
	has := map[string]bool{}
	add := func(t AddedToken) {
		if !has[t.Content] {
			has[t.Content] = true
			t.ID = 0
			all = append(all, t)
		}
	}
	specials := c.specials()
	for _, t := range c.extra() {
		specials = append(specials, AddedToken(t))
	}
	for _, t := range c.added() {
		add(t)
	}
	byID := func(a, b string) int { return cmp.Compare(c.addedFile[a], c.addedFile[b]) }
	for _, token := range slices.SortedFunc(maps.Keys(c.addedFile), byID) {
		if !slices.ContainsFunc(specials, func(t AddedToken) bool { return t.Content == token }) {
			add(AddedToken{Content: token, Normalized: true})
		}
	}
	for _, t := range specials {
		add(t)
	}
	return all
}
