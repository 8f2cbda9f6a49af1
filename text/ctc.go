package text

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/internal/specialtoken"
)

// CTCOptions configures a [CTCTokenizer] with the settings of transformers' Wav2Vec2CTCTokenizer. A
// zero field means its default there.
type CTCOptions struct {
	UnkToken           string // for letters that are not in the vocabulary; zero: <unk>
	PadToken           string // the blank of CTC; zero: <pad>
	WordDelimiterToken string // between words; zero: |
	// ReplaceWordDelimiterChar is between the words of decoded texts; zero: a space.
	ReplaceWordDelimiterChar string
	// BOSToken and EOSToken are not added to texts, but to the vocabulary if it lacks them; nil: <s>
	// and </s>; empty: none.
	BOSToken, EOSToken *string
	// DoLowerCase is for vocabularies of capital letters and texts of small ones.
	DoLowerCase bool
	// CleanUp removes the spaces before punctuation from decoded texts: clean_up_tokenization_spaces.
	CleanUp bool
}

// CTCTokenizer turns texts into letters and the best letter of each frame of speech into texts:
// Wav2Vec2CTCTokenizer of transformers. Several goroutines may use it at a time.
type CTCTokenizer struct {
	options CTCOptions
	vocab   map[string]int64 // vocab.json
	ids     map[string]int64 // with the tokens that are not in it
	tokens  map[int64]string
	// whole are the tokens that texts are cut at before they are cut into letters, the longest first.
	whole []wholeToken
	extra map[string]json.RawMessage // the other settings of tokenizer_config.json
}

// wholeToken is a token that texts are cut at.
type wholeToken struct {
	content string
	spaceless
}

// spaceless says whether spaces before and after a token are no letters.
type spaceless struct{ before, after bool }

// ctcClass is the class of transformers.
const ctcClass = "Wav2Vec2CTCTokenizer"

// NewCTCTokenizer makes a tokenizer of a vocabulary, such as one of [CTCVocabulary].
func NewCTCTokenizer(vocab map[string]int64, o CTCOptions) (*CTCTokenizer, error) {
	t, err := newCTC(vocab, o, nil)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	return t, nil
}

// newCTC makes a tokenizer with added tokens.
func newCTC(vocab map[string]int64, o CTCOptions, added []AddedToken) (*CTCTokenizer, error) {
	for _, s := range []struct {
		value *string
		usual string
	}{{&o.UnkToken, "<unk>"}, {&o.PadToken, "<pad>"}, {&o.WordDelimiterToken, "|"}, {&o.ReplaceWordDelimiterChar, " "}} {
		if *s.value == "" {
			*s.value = s.usual
		}
	}
	if o.BOSToken == nil {
		o.BOSToken = new("<s>")
	}
	if o.EOSToken == nil {
		o.EOSToken = new("</s>")
	}
	t := &CTCTokenizer{options: o, vocab: maps.Clone(vocab), ids: map[string]int64{}, tokens: map[int64]string{}}
	for token, id := range vocab {
		if err := t.put(token, id); err != nil {
			return nil, err
		}
	}
	whole := map[string]spaceless{}
	for _, a := range added {
		if _, known := t.ids[a.Content]; !known {
			if err := t.put(a.Content, a.ID); err != nil {
				return nil, err
			}
		}
		whole[a.Content] = spaceless{a.LStrip, a.RStrip}
	}
	// In the order of transformers, which numbers those that the vocabulary lacks.
	for _, token := range []string{*o.BOSToken, *o.EOSToken, o.UnkToken, o.PadToken, o.WordDelimiterToken} {
		if token == "" {
			continue
		}
		if _, known := t.ids[token]; !known {
			if err := t.put(token, int64(len(t.ids))); err != nil {
				return nil, err
			}
		}
		if _, found := whole[token]; !found {
			whole[token] = spaceless{}
		}
	}
	for token := range vocab {
		if utf8.RuneCountInString(token) > 1 {
			whole[token] = spaceless{true, true}
		}
	}
	for token, spaces := range whole {
		t.whole = append(t.whole, wholeToken{token, spaces})
	}
	slices.SortFunc(t.whole, func(a, b wholeToken) int { return len(b.content) - len(a.content) })
	return t, nil
}

// put gives a token an id.
func (t *CTCTokenizer) put(token string, id int64) error {
	other, taken := t.tokens[id]
	switch {
	case token == "":
		return errors.New("the vocabulary has an empty token; want letters and words")
	case id < 0:
		return fmt.Errorf("the token %q has the id %d; want 0 or more", token, id)
	case taken:
		return fmt.Errorf("the tokens %q and %q have the id %d; want one each", token, other, id)
	}
	t.ids[token], t.tokens[id] = id, token
	return nil
}

// CTCVocabulary returns a vocabulary of all letters of some texts, as
// run_speech_recognition_ctc.py of transformers makes it, with the tokens of o. WordDelimiterToken
// takes the place of the space, which is always there.
func CTCVocabulary(texts iter.Seq[string], o CTCOptions) map[string]int64 {
	letters := map[rune]bool{' ': true}
	for text := range texts {
		for _, letter := range text {
			letters[letter] = true
		}
	}
	vocab := map[string]int64{}
	for i, letter := range slices.Sorted(maps.Keys(letters)) {
		vocab[string(letter)] = int64(i)
	}
	space := vocab[" "]
	delete(vocab, " ")
	vocab[cmp.Or(o.WordDelimiterToken, "|")] = space
	for _, token := range []string{cmp.Or(o.UnkToken, "<unk>"), cmp.Or(o.PadToken, "<pad>")} {
		vocab[token] = int64(len(vocab))
	}
	return vocab
}

// Options returns the settings, with the defaults filled in.
func (t *CTCTokenizer) Options() CTCOptions { return t.options }

// VocabSize is the number of tokens, with those that are not in the vocabulary's file: what
// vocab_size of a model is to be.
func (t *CTCTokenizer) VocabSize() int { return len(t.ids) }

// TokenToID returns the id of a token.
func (t *CTCTokenizer) TokenToID(token string) (id int64, found bool) {
	id, found = t.ids[token]
	return id, found
}

// IDToToken returns the token of an id.
func (t *CTCTokenizer) IDToToken(id int64) (token string, found bool) {
	token, found = t.tokens[id]
	return token, found
}

// Encode returns the ids of the letters of a text. Letters that are not in the vocabulary become
// UnkToken.
func (t *CTCTokenizer) Encode(text string) (ids []int64) {
	for _, p := range t.cut(text) {
		if p.whole {
			ids = append(ids, t.ids[p.text])
			continue
		}
		for _, letter := range t.written(p) {
			id, known := t.vocab[string(letter)]
			if !known {
				id = t.ids[t.options.UnkToken]
			}
			ids = append(ids, id)
		}
	}
	return ids
}

// Unknown returns the letters of a text that are not in the vocabulary, in the order in which they
// first appear. [CTCTokenizer.Encode] writes UnkToken for them.
func (t *CTCTokenizer) Unknown(text string) (letters []string) {
	for _, p := range t.cut(text) {
		if p.whole {
			continue
		}
		for _, letter := range t.written(p) {
			if _, known := t.vocab[string(letter)]; !known && !slices.Contains(letters, string(letter)) {
				letters = append(letters, string(letter))
			}
		}
	}
	return letters
}

// written is a part that is no whole token as the letters of the vocabulary write it.
func (t *CTCTokenizer) written(p ctcPart) string {
	letters := p.text
	if t.options.DoLowerCase {
		letters = strings.ToUpper(letters)
	}
	return strings.ReplaceAll(letters, " ", t.options.WordDelimiterToken)
}

// ctcPart is a part of a text: a whole token, or what is between two.
type ctcPart struct {
	text  string
	whole bool
}

// cut cuts a text at whole tokens: at each place, at the longest one.
func (t *CTCTokenizer) cut(text string) (parts []ctcPart) {
	const spaces = " \t\n\r\v\f"
	var last wholeToken
	between := func(part string, next wholeToken) {
		if last.after {
			part = strings.TrimLeft(part, spaces)
		}
		if next.before {
			part = strings.TrimRight(part, spaces)
		}
		if part != "" {
			parts = append(parts, ctcPart{part, false})
		}
	}
	begin := 0
	for at := 0; at < len(text); {
		i := slices.IndexFunc(t.whole, func(w wholeToken) bool { return strings.HasPrefix(text[at:], w.content) })
		if i < 0 {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			continue
		}
		between(text[begin:at], t.whole[i])
		last = t.whole[i]
		parts = append(parts, ctcPart{last.content, true})
		at += len(last.content)
		begin = at
	}
	between(text[begin:], wholeToken{})
	return parts
}

// CTCSpan is a letter or a word of a decoded text, and its frames: the first, and the one after the
// last.
type CTCSpan struct {
	Text       string
	Start, End int
}

// Decode makes a text of the best letter of each frame: letters that follow each other are merged
// if they are the same, and blanks are left out.
func (t *CTCTokenizer) Decode(frames []int64) string { return t.join(t.Letters(frames)) }

// DecodeLabels makes a text of letters that have already been merged, such as those of Encode:
// group_tokens=False of transformers.
func (t *CTCTokenizer) DecodeLabels(ids []int64) string {
	var letters []CTCSpan
	for _, id := range ids {
		if token := t.token(id); token != t.options.PadToken {
			letters = append(letters, CTCSpan{Text: t.shown(token)})
		}
	}
	return t.join(letters)
}

func (t *CTCTokenizer) join(letters []CTCSpan) string {
	var b strings.Builder
	for _, l := range letters {
		b.WriteString(l.Text)
	}
	text := strings.TrimSpace(b.String())
	if t.options.DoLowerCase {
		text = strings.ToLower(text)
	}
	if t.options.CleanUp {
		for _, pair := range cleanedUp {
			text = strings.ReplaceAll(text, pair[0], pair[1])
		}
	}
	return text
}

// token is the token of an id; UnkToken if there is none.
func (t *CTCTokenizer) token(id int64) string {
	if token, known := t.tokens[id]; known {
		return token
	}
	return t.options.UnkToken
}

// shown is what a token is in a text.
func (t *CTCTokenizer) shown(token string) string {
	if token == t.options.WordDelimiterToken {
		return t.options.ReplaceWordDelimiterChar
	}
	return token
}

// Letters returns the letters that [CTCTokenizer.Decode] joins, and their frames:
// output_char_offsets of transformers.
func (t *CTCTokenizer) Letters(frames []int64) (letters []CTCSpan) {
	for begin, end := 0, 0; begin < len(frames); begin = end {
		token := t.token(frames[begin])
		for end = begin + 1; end < len(frames) && t.token(frames[end]) == token; end++ {
		}
		if token != t.options.PadToken {
			letters = append(letters, CTCSpan{t.shown(token), begin, end})
		}
	}
	return letters
}

// Words returns the words of the best letter of each frame, and their frames: output_word_offsets
// of transformers.
func (t *CTCTokenizer) Words(frames []int64) (words []CTCSpan) {
	open := false
	for _, l := range t.Letters(frames) {
		switch last := len(words) - 1; {
		case l.Text == t.options.ReplaceWordDelimiterChar:
			open = false
		case open:
			words[last].Text, words[last].End = words[last].Text+l.Text, l.End
		default:
			words, open = append(words, l), true
		}
	}
	return words
}

// ctcConfig is what tokenizer_config.json says of a CTCTokenizer.
type ctcConfig struct {
	Class     string                        `json:"tokenizer_class"`
	Unk       *specialtoken.Token           `json:"unk_token"`
	Pad       *specialtoken.Token           `json:"pad_token"`
	BOS       specialtoken.Token            `json:"bos_token"`
	EOS       specialtoken.Token            `json:"eos_token"`
	Delimiter *specialtoken.Token           `json:"word_delimiter_token"`
	Replace   string                        `json:"replace_word_delimiter_char"`
	Lower     bool                          `json:"do_lower_case"`
	CleanUp   bool                          `json:"clean_up_tokenization_spaces"`
	Language  *string                       `json:"target_lang"`
	Added     map[string]specialtoken.Token `json:"added_tokens_decoder"`
}

// LoadCTCTokenizer makes a tokenizer of vocab.json, tokenizer_config.json, and, of older models,
// special_tokens_map.json and added_tokens.json in a folder. If there is no vocab.json, the error
// is fs.ErrNotExist.
func LoadCTCTokenizer(dir string) (*CTCTokenizer, error) {
	path := filepath.Join(dir, bpeVocabFile)
	content, err := regularfile.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	var vocab map[string]int64
	if err := json.Unmarshal(content, &vocab); err != nil {
		return nil, fmt.Errorf("text: %s: %w; want the ids of letters, and of one language", path, err)
	}
	c, given := ctcConfig{}, map[string]json.RawMessage{}
	for _, name := range []string{specialTokensFile, configFile} { // what the second says counts
		if err = readOptional(filepath.Join(dir, name), &c); err == nil {
			err = readOptional(filepath.Join(dir, name), &given)
		}
		if err != nil {
			return nil, fmt.Errorf("text: %w", err)
		}
	}
	t, err := c.tokenizer(dir, vocab, given)
	if err != nil {
		return nil, fmt.Errorf("text: %s: %w", dir, err)
	}
	return t, nil
}

func (c ctcConfig) tokenizer(dir string, vocab map[string]int64, given map[string]json.RawMessage) (*CTCTokenizer,
	error) {
	switch {
	case c.Class != "" && c.Class != ctcClass:
		return nil, fmt.Errorf("tokenizer_class is %q; want %q", c.Class, ctcClass)
	case c.Language != nil:
		return nil, fmt.Errorf("target_lang is %q; want null: vocabularies of several languages are not supported",
			*c.Language)
	}
	o := CTCOptions{ReplaceWordDelimiterChar: c.Replace, DoLowerCase: c.Lower, CleanUp: c.CleanUp}
	for _, s := range []struct {
		token *specialtoken.Token
		into  *string
	}{{c.Unk, &o.UnkToken}, {c.Pad, &o.PadToken}, {c.Delimiter, &o.WordDelimiterToken}} {
		if s.token != nil {
			*s.into = s.token.Content
		}
	}
	if _, found := given["bos_token"]; found {
		o.BOSToken = &c.BOS.Content
	}
	if _, found := given["eos_token"]; found {
		o.EOSToken = &c.EOS.Content
	}
	var added []AddedToken
	for key, a := range c.Added {
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("added_tokens_decoder has the key %q; want ids", key)
		}
		a.ID = id
		added = append(added, AddedToken(a))
	}
	var older map[string]int64
	if err := readOptional(filepath.Join(dir, addedTokensFile), &older); err != nil {
		return nil, err
	}
	for token, id := range older {
		if !slices.ContainsFunc(added, func(a AddedToken) bool { return a.Content == token }) {
			added = append(added, AddedToken{ID: id, Content: token})
		}
	}
	t, err := newCTC(vocab, o, added)
	if err == nil {
		t.extra = given
	}
	return t, err
}

// Save writes vocab.json and tokenizer_config.json into a folder, for transformers and
// [LoadCTCTokenizer].
func (t *CTCTokenizer) Save(dir string) error {
	settings := map[string]any{}
	for name, value := range t.extra {
		settings[name] = value
	}
	added := map[string]AddedToken{}
	for _, w := range t.whole {
		added[strconv.FormatInt(t.ids[w.content], 10)] = AddedToken{Content: w.content, LStrip: w.before, RStrip: w.after,
			Special: t.special(w.content)}
	}
	null := func(token string) any {
		if token == "" {
			return nil
		}
		return token
	}
	o := t.options
	maps.Copy(settings, map[string]any{"tokenizer_class": ctcClass, "unk_token": o.UnkToken, "pad_token": o.PadToken,
		"bos_token": null(*o.BOSToken), "eos_token": null(*o.EOSToken), "word_delimiter_token": o.WordDelimiterToken,
		"replace_word_delimiter_char": o.ReplaceWordDelimiterChar, "do_lower_case": o.DoLowerCase,
		"clean_up_tokenization_spaces": o.CleanUp, "target_lang": nil, "added_tokens_decoder": added})
	for _, f := range []struct {
		name    string
		content any
	}{{bpeVocabFile, t.vocab}, {configFile, settings}} {
		var content bytes.Buffer
		e := json.NewEncoder(&content)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(f.content); err != nil {
			return fmt.Errorf("text: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.name), content.Bytes(), 0o666); err != nil {
			return fmt.Errorf("text: %w", err)
		}
	}
	return nil
}

func (t *CTCTokenizer) special(token string) bool {
	o := t.options
	return slices.Contains([]string{o.UnkToken, o.PadToken, *o.BOSToken, *o.EOSToken, o.WordDelimiterToken}, token)
}
