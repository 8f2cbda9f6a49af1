package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/text/decoders"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/processors"
	"github.com/gotrainer/gotrainer/text/sentencepiece"
)

// The files of a MarianTokenizer, besides vocab.json.
const (
	sourceFile      = "source.spm"
	targetFile      = "target.spm"
	targetVocabFile = "target_vocab.json"
)

// marianClass is the name of MarianTokenizer, and marian what it adds to a text.
const marianClass = "Marian"

var marian = pieceClass{single: "$A eos_token", pair: "$A $B eos_token",
	special: []specialName{{"unk_token", "<unk>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}}}

// marianSides is what the tokenizer of a MarianTokenizer's source texts has besides its parts.
type marianSides struct {
	target    *Tokenizer
	processor processors.PostProcessor   // that of the files
	files     map[string][]byte          // from which both are made
	settings  map[string]json.RawMessage // tokenizer_config.json; nil: there is none
}

// Target returns the tokenizer of target texts, with t's truncation and padding: text_target of
// transformers. In a MarianTokenizer, source and target texts are divided by different models of
// SentencePiece; if their vocabularies differ, only Target decodes what a model has generated. Other
// tokenizers return themselves.
func (t *Tokenizer) Target() *Tokenizer {
	if t.marian == nil {
		return t
	}
	target := *t.marian.target
	target.config.Truncation, target.config.Padding = t.config.Truncation, t.config.Padding
	return &target
}

// marianSettings are settings of tokenizer_config.json.
type marianSettings struct {
	Separate bool           `json:"separate_vocabs"` // target texts have a vocabulary of their own
	CleanUp  bool           `json:"clean_up_tokenization_spaces"`
	Kwargs   map[string]any `json:"sp_model_kwargs"`
}

// loadMarian makes a MarianTokenizer of source.spm, target.spm, vocab.json and tokenizer_config.json.
// If the folder has none, the error is fs.ErrNotExist. As in transformers, texts are not normalized
// by sacremoses.
func loadMarian(dir string) (*Tokenizer, error) {
	for _, name := range []string{sourceFile, targetFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
	}
	s, err := readPieceSettings(dir)
	if err != nil {
		return nil, err
	}
	if s.Class != marianClass && s.Class != "" {
		return nil, fmt.Errorf("tokenizer: %s is for another class than Marian: %w", sourceFile, fs.ErrNotExist)
	}
	marian.fill(s)
	var own marianSettings
	if err := readOptional(filepath.Join(dir, configFile), &own); err != nil {
		return nil, err
	}
	if len(own.Kwargs) > 0 {
		return nil, fmt.Errorf("%s: sp_model_kwargs is %v; only an empty one is supported", filepath.Join(dir, configFile),
			own.Kwargs)
	}
	names := []string{sourceFile, targetFile, bpeVocabFile}
	targetVocab := bpeVocabFile
	if own.Separate {
		targetVocab = targetVocabFile
		names = append(names, targetVocab)
	}
	sides, err := readMarian(dir, names)
	if err != nil {
		return nil, err
	}
	source, err := newMarianSide(dir, sourceFile, bpeVocabFile, s, own)
	if err != nil {
		return nil, err
	}
	if sides.target, err = newMarianSide(dir, targetFile, targetVocab, s, own); err != nil {
		return nil, err
	}
	for token, id := range source.added.ids {
		if other := sides.target.added.ids[token]; other != id {
			return nil, fmt.Errorf("%s: the token %q has the id %d, but %d in %s; want the same id for special tokens",
				filepath.Join(dir, targetVocab), token, other, id, bpeVocabFile)
		}
	}
	if !own.Separate { // as transformers does
		sides.target.config.Decoder = source.config.Decoder
	}
	source.marian, sides.processor = sides, source.config.PostProcessor
	return source, nil
}

// readMarian reads the files that are written again where the tokenizer is saved.
func readMarian(dir string, names []string) (*marianSides, error) {
	sides := &marianSides{files: map[string][]byte{}}
	for _, name := range names {
		content, err := regularfile.ReadFile(filepath.Join(dir, name), maxFile)
		switch {
		case errors.Is(err, fs.ErrNotExist): // no such error is returned, since there is a tokenizer
			return nil, fmt.Errorf("the tokenizer in %s has %s, but no %s; want the files of a MarianTokenizer: %s", dir,
				sourceFile, name, strings.Join(names, ", "))
		case err != nil:
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		sides.files[name] = content
	}
	return sides, readOptional(filepath.Join(dir, configFile), &sides.settings)
}

// newMarianSide makes the tokenizer of source or target texts.
func newMarianSide(dir, pieces, vocab string, s *pieceSettings, own marianSettings) (*Tokenizer, error) {
	in := func(name string, err error) error { return fmt.Errorf("%s: %w", filepath.Join(dir, name), err) }
	m, err := sentencepiece.Open(filepath.Join(dir, pieces))
	if err != nil {
		return nil, err
	}
	ids, err := readIDs(filepath.Join(dir, vocab))
	if err != nil {
		return nil, err
	}
	model, c, err := marianParts(m, ids, s.names["unk_token"])
	if err != nil {
		return nil, in(pieces, err)
	}
	c.AddedTokens = marian.addedTokens(nil, s)
	added, err := newAddedVocabulary(c.AddedTokens, c.Model, c.Normalizer)
	if err == nil {
		c.PostProcessor, err = marian.processor(s, added.ids)
	}
	if err != nil {
		return nil, in(vocab, err)
	}
	known := func(piece string) bool {
		_, ok := model.pieces.TokenToID(piece)
		return ok
	}
	c.Decoder = marianDecoder{c.Decoder, known, added.special, own.CleanUp}
	t, err := New(c)
	if err != nil {
		return nil, in(vocab, err)
	}
	t.codes = true
	return t, nil
}

// marianParts makes what divides texts into pieces, and gives these ids.
func marianParts(m *sentencepiece.Model, ids map[string]int64, unknown string) (model *numberedPieces, c Config,
	err error) {
	// Control pieces, such as <s>, are never found in a text.
	pieces := slices.DeleteFunc(slices.Clone(m.Pieces), func(p sentencepiece.Piece) bool {
		return p.Kind == sentencepiece.Control
	})
	is := func(k sentencepiece.Kind) func(p sentencepiece.Piece) bool {
		return func(p sentencepiece.Piece) bool { return p.Kind == k }
	}
	if i := slices.IndexFunc(pieces, is(sentencepiece.UserDefined)); i >= 0 {
		return nil, c, fmt.Errorf("the piece %q is one that a user defined, which is not supported in a MarianTokenizer",
			pieces[i].Text)
	}
	at := slices.IndexFunc(pieces, is(sentencepiece.Unknown))
	if at < 0 {
		return nil, c, errors.New("there is no unknown piece")
	}
	m.Exact = true
	parts, err := m.ComponentsOf(pieces, int64(at))
	if err != nil {
		return nil, c, err
	}
	id, ok := ids[unknown]
	if !ok {
		return nil, c, fmt.Errorf("the vocabulary of %d tokens lacks %q (unk_token)", len(ids), unknown)
	}
	words, err := models.NewWordLevel(ids, unknown)
	if err != nil {
		return nil, c, err
	}
	model = &numberedPieces{WordLevel: words, pieces: parts.Model, unknownPiece: int64(at), unknownID: id}
	return model, Config{Normalizer: parts.Normalizer, PreTokenizer: parts.PreTokenizer, Model: model,
		Decoder: parts.Decoder}, nil
}

// numberedPieces is a model of SentencePiece whose pieces have the ids of another vocabulary. It may
// lack some of them, and have others.
type numberedPieces struct {
	*models.WordLevel // the vocabulary

	pieces                  models.Model
	unknownPiece, unknownID int64
}

// Tokenize appends the tokens of a text.
func (m *numberedPieces) Tokenize(dst []models.Token, text string) ([]models.Token, error) {
	begin := len(dst)
	dst, err := m.pieces.Tokenize(dst, text)
	if err != nil {
		return dst, err
	}
	for i := begin; i < len(dst); i++ {
		t := &dst[i]
		if t.ID == m.unknownPiece { // the other vocabulary may know it
			t.Value = text[t.Start:t.End]
		}
		id, ok := m.TokenToID(t.Value)
		if !ok {
			id = m.unknownID
		}
		t.ID = id
	}
	return dst, nil
}

// languageCode returns the length and the id of the code of a language, such as >>fra<<, that a text
// begins with; the length is 0 if it begins with none.
func (t *Tokenizer) languageCode(text string) (n int, id int64) {
	if !t.codes || !strings.HasPrefix(text, ">>") {
		return 0, 0
	}
	if n = strings.Index(text, "<<") + len("<<"); n < len("<<") {
		return 0, 0
	}
	m := t.config.Model.(*numberedPieces) //nolint:forcetypeassert // only such tokenizers have codes
	id, ok := m.TokenToID(text[:n])
	if !ok {
		id = m.unknownID
	}
	return n, id
}

// marianDecoder joins the pieces between special tokens: convert_tokens_to_string.
type marianDecoder struct {
	pieces  decoders.Decoder
	known   func(piece string) bool // to the model of SentencePiece
	special map[string]bool
	cleanUp bool // clean_up_tokenization_spaces
}

// cleanedUp are the pairs of clean_up_tokenization, which are replaced one after the other.
var cleanedUp = [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
	{" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}}

// DecodeChain returns the text of tokens.
func (d marianDecoder) DecodeChain(tokens []string) []string {
	var text strings.Builder
	var run []string
	join := func() {
		if len(run) > 0 && !d.known(run[0]) && strings.HasPrefix(run[0], "▁") {
			text.WriteByte(' ') // SentencePiece drops the first space only of its own pieces
		}
		text.WriteString(decoders.Decode(d.pieces, run))
		run = nil
	}
	for _, token := range tokens {
		if !d.special[token] {
			run = append(run, token)
			continue
		}
		join()
		text.WriteString(token + " ")
	}
	join()
	out := strings.TrimSpace(text.String())
	if d.cleanUp {
		for _, pair := range cleanedUp {
			out = strings.ReplaceAll(out, pair[0], pair[1])
		}
	}
	return []string{out}
}

// saveMarian writes the files that the tokenizer was made of.
func (t *Tokenizer) saveMarian(dir string) error {
	if !reflect.DeepEqual(t.config.PostProcessor, t.marian.processor) {
		return errors.New("tokenizer: a MarianTokenizer cannot be saved with another post-processor, since it has no " +
			"tokenizer.json; set that of its files (WithPostProcessor)")
	}
	settings := maps.Clone(t.marian.settings)
	if settings == nil {
		settings = map[string]json.RawMessage{}
	}
	settings["tokenizer_class"] = json.RawMessage(`"MarianTokenizer"`)
	content, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files := maps.Clone(t.marian.files)
	files[configFile] = append(content, '\n')
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o666); err != nil {
			return err
		}
	}
	return nil
}
