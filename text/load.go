package text

import (
	"bytes"
	"cmp"
	"encoding/json"
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
	"github.com/gotrainer/gotrainer/text/internal/tagged"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
)

// The files that [LoadTokenizer] looks for in a folder.
const (
	tokenizerFile     = "tokenizer.json"
	vocabFile         = "vocab.txt"
	configFile        = "tokenizer_config.json"
	specialTokensFile = "special_tokens_map.json"
	addedTokensFile   = "added_tokens.json"
)

// maxFile limits the size of the files that are read. The largest known tokenizers have some 30
// MiB.
const maxFile = 256 << 20

// LoadTokenizer reads a tokenizer from tokenizer.json, given as a file or as the folder that
// contains it. A folder without it may contain the vocab.txt of a BERT model instead. The
// tokenizer_config.json beside it then says whether text is lower-cased and what the special
// tokens are; without that file, they are those of bert-base-uncased. Or it contains vocab.json and
// merges.txt, and tokenizer_config.json says that they are a RobertaTokenizer, BartTokenizer or
// GPT2Tokenizer. If tokenizer_config.json has no added_tokens_decoder, tokens are also read from
// the older files special_tokens_map.json and added_tokens.json.
//
// Or the folder contains a model of SentencePiece: spiece.model, spm.model, sentencepiece.bpe.model
// or tokenizer.model. What is added to it depends on tokenizer_class in tokenizer_config.json or,
// without it, on model_type in config.json: T5 and mT5, DeBERTa v2 and v3, XLM-RoBERTa, mBART and
// mBART-50, SigLIP, and Llama. The ids are those of SentencePiece and of the models' original code;
// transformers 5.17 normalizes text otherwise for some of them.
//
// Or it contains source.spm, target.spm and vocab.json of a MarianTokenizer, and target_vocab.json if
// tokenizer_config.json says separate_vocabs. The tokenizer is that of source texts, which may begin
// with the code of a language, such as >>fra<<; [Tokenizer.Target] is that of target texts. It takes
// precedence over a tokenizer.json, unless tokenizer_config.json names another class.
func LoadTokenizer(path string) (*Tokenizer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	if !info.IsDir() {
		switch name := filepath.Base(path); {
		case name == vocabFile:
			return loadVocab(path)
		case slices.Contains(pieceFiles, name):
			return loadPieces(path)
		}
		return loadJSON(path)
	}
	if t, err := loadMarian(path); !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	file := filepath.Join(path, tokenizerFile)
	if _, err := os.Stat(file); err == nil {
		return loadJSON(file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	for _, name := range append([]string{vocabFile}, pieceFiles...) {
		file := filepath.Join(path, name)
		switch _, err := os.Stat(file); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("tokenizer: %w", err)
		case name == vocabFile:
			return loadVocab(file)
		default:
			return loadPieces(file)
		}
	}
	return loadRoberta(path)
}

func loadJSON(path string) (*Tokenizer, error) {
	data, err := regularfile.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	t, err := ParseTokenizer(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// tokenizerJSON is the file tokenizer.json.
type tokenizerJSON struct {
	Version       string          `json:"version"`
	Truncation    *Truncation     `json:"truncation"`
	Padding       *Padding        `json:"padding"`
	AddedTokens   []AddedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

// ParseTokenizer parses the content of tokenizer.json. It refuses unknown types of components by
// name.
func ParseTokenizer(data []byte) (*Tokenizer, error) {
	var f tokenizerJSON
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if f.Version != "1.0" && f.Version != "" {
		return nil, fmt.Errorf("tokenizer.json of version %q; this reader knows 1.0", f.Version)
	}
	if tagged.Null(f.Model) {
		return nil, errors.New("tokenizer.json has no model")
	}
	c := Config{AddedTokens: f.AddedTokens, Truncation: f.Truncation, Padding: f.Padding}
	var err error
	if c.Normalizer, err = normalizers.Parse(f.Normalizer); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if c.PreTokenizer, err = pretokenizers.Parse(f.PreTokenizer); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if c.PostProcessor, err = processors.Parse(f.PostProcessor); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if c.Decoder, err = decoders.Parse(f.Decoder); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if c.Model, err = models.Parse(f.Model); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	t, err := New(c)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return t, nil
}

// MarshalJSON encodes the tokenizer as tokenizer.json. Components from other modules must have a
// MarshalJSON that other readers understand.
func (t *Tokenizer) MarshalJSON() ([]byte, error) {
	if t.codes {
		return nil, errors.New("a MarianTokenizer has no tokenizer.json; Tokenizer.Save of that of source texts writes its " +
			"files")
	}
	c := t.config
	f := tokenizerJSON{Version: "1.0", Truncation: c.Truncation, Padding: c.Padding, AddedTokens: append([]AddedToken{},
		c.AddedTokens...)}
	for _, part := range []struct {
		name string
		part any
		into *json.RawMessage
	}{
		{"normalizer", c.Normalizer, &f.Normalizer}, {"pre-tokenizer", c.PreTokenizer, &f.PreTokenizer},
		{"post-processor", c.PostProcessor, &f.PostProcessor},
		{"decoder", c.Decoder, &f.Decoder}, {"model", c.Model, &f.Model},
	} {
		if part.part == nil {
			*part.into = json.RawMessage("null")
			continue
		}
		m, ok := part.part.(json.Marshaler)
		if !ok {
			return nil, fmt.Errorf("the %s, a %T, cannot be written: it has no method MarshalJSON", part.name,
				part.part)
		}
		var err error
		if *part.into, err = m.MarshalJSON(); err != nil {
			return nil, fmt.Errorf("the %s: %w", part.name, err)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(f); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// bertClasses are the tokenizers of transformers whose vocab.txt is read as BERT's.
var bertClasses = []string{"Bert", "DistilBert", "Electra", "MobileBert", "LayoutLM", "SqueezeBert", "ConvBert",
	"RetriBert", "Lxmert", "DPRContextEncoder", "DPRQuestionEncoder", "DPRReader"}

// tokenizerSettings are the settings of tokenizer_config.json that tokenizers use which are made of
// other files than tokenizer.json.
type tokenizerSettings struct {
	Class      string                `json:"tokenizer_class"`
	Unknown    *specialtoken.Token   `json:"unk_token"`
	Sep        *specialtoken.Token   `json:"sep_token"`
	Pad        *specialtoken.Token   `json:"pad_token"`
	Cls        *specialtoken.Token   `json:"cls_token"`
	Mask       *specialtoken.Token   `json:"mask_token"`
	Extra      tokenList             `json:"extra_special_tokens"`
	Additional tokenList             `json:"additional_special_tokens"` // the older name of Extra
	Added      map[string]AddedToken `json:"added_tokens_decoder"`

	addedFile map[string]int64 // added_tokens.json: ids by token
}

// class returns the class of transformers without its suffix.
func (s *tokenizerSettings) class() string {
	return strings.TrimSuffix(strings.TrimSuffix(s.Class, "Fast"), "Tokenizer")
}

// added returns the tokens of added_tokens_decoder in the order of their ids.
func (s *tokenizerSettings) added() (tokens []AddedToken) {
	byID := func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) } // decimal numbers
	for _, key := range slices.SortedFunc(maps.Keys(s.Added), byID) {
		tokens = append(tokens, s.Added[key])
	}
	return tokens
}

// extra returns the special tokens besides those that have a role.
func (s *tokenizerSettings) extra() tokenList {
	if s.Extra == nil {
		return s.Additional
	}
	return s.Extra
}

// tokens returns the added tokens that the files list, those with a role, and the other special ones.
func (s *tokenizerSettings) tokens(named []AddedToken) (all []AddedToken) {
	all = s.added()
	special := map[string]bool{}
	for _, t := range named {
		special[t.Content] = true
	}
	for _, t := range s.extra() {
		special[t.Content] = true
	}
	byFileID := func(a, b string) int { return cmp.Compare(s.addedFile[a], s.addedFile[b]) }
	for _, token := range slices.SortedFunc(maps.Keys(s.addedFile), byFileID) {
		is := special[token]
		all = append(all, AddedToken{Content: token, Normalized: !is, Special: is})
	}
	all = append(all, named...)
	for _, t := range s.extra() { // those that the vocabulary lacks get the last ids
		all = append(all, AddedToken(t))
	}
	return all
}

// bertConfig holds the settings of tokenizer_config.json that BERT's tokenizer uses.
type bertConfig struct {
	tokenizerSettings
	Lowercase    *bool `json:"do_lower_case"`
	Chinese      *bool `json:"tokenize_chinese_chars"`
	StripAccents *bool `json:"strip_accents"`
}

// tokenList is a list of special tokens; in JSON it may also be an object that names each token.
type tokenList []specialtoken.Token

func (l *tokenList) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		return json.Unmarshal(data, (*[]specialtoken.Token)(l))
	}
	var named map[string]specialtoken.Token
	err := json.Unmarshal(data, &named)
	*l = nil
	for _, name := range slices.Sorted(maps.Keys(named)) {
		*l = append(*l, named[name])
	}
	return err
}

// readSettings reads tokenizer_config.json into c. If that does not list the added tokens, as it
// does since version 4.34 of transformers, it also reads special_tokens_map.json and
// added_tokens.json. All three files are optional. shared are the settings in c that all classes
// have.
func readSettings(dir string, c any, shared *tokenizerSettings) error {
	if err := readOptional(filepath.Join(dir, configFile), c); err != nil || shared.Added != nil {
		return err
	}
	if err := readOptional(filepath.Join(dir, specialTokensFile), c); err != nil {
		return err
	}
	return readOptional(filepath.Join(dir, addedTokensFile), &shared.addedFile)
}

// readOptional reads a JSON file that may be missing.
func readOptional(path string, into any) error {
	data, err := regularfile.ReadFile(path, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("tokenizer: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// loadVocab makes BERT's tokenizer from vocab.txt, as BertTokenizer of transformers does.
func loadVocab(vocabPath string) (*Tokenizer, error) {
	dir := filepath.Dir(vocabPath)
	var c bertConfig
	if err := readSettings(dir, &c, &c.tokenizerSettings); err != nil {
		return nil, err
	}
	if class := c.class(); class != "" && !slices.Contains(bertClasses, class) {
		return nil, fmt.Errorf("%s: tokenizer_class %q cannot be made of vocab.txt; save tokenizer.json with "+
			"transformers (save_pretrained of the fast tokenizer) and load that", filepath.Join(dir, configFile), c.Class)
	}
	lines, err := regularfile.ReadFile(vocabPath, maxFile)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	vocab, err := models.ReadVocab(bytes.NewReader(lines))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vocabPath, err)
	}
	t, err := NewBert(vocab, c.options())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", vocabPath, err)
	}
	return t, nil
}

func (c *bertConfig) options() BertOptions {
	o := BertOptions{
		Cased: c.Lowercase != nil && !*c.Lowercase, StripAccents: c.StripAccents, JoinChinese: c.Chinese != nil &&
			!*c.Chinese,
	}
	for _, t := range []struct {
		from *specialtoken.Token
		to   *string
	}{{c.Unknown, &o.Unknown}, {c.Sep, &o.Sep}, {c.Pad, &o.Pad}, {c.Cls, &o.Cls}, {c.Mask, &o.Mask}} {
		if t.from != nil {
			*t.to = t.from.Content
		}
	}
	named := o.withDefaults()
	o.AddedTokens = c.tokens(SpecialTokens(named.Unknown, named.Sep, named.Pad, named.Cls, named.Mask))
	return o
}
