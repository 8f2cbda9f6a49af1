package text

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/specialtoken"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/text/processors"
	"github.com/gotrainer/gotrainer/text/sentencepiece"
)

// pieceFiles are the names that models of SentencePiece have in the folders of transformers.
var pieceFiles = []string{"spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer.model"}

// pieceClasses says what each tokenizer of transformers, by its class, makes of a model of
// SentencePiece. The templates have the names of settings in the place of special tokens.
var pieceClasses = map[string]pieceClass{
	"T5": {special: []specialName{{"pad_token", "<pad>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}},
		single: "$A eos_token", pair: "$A eos_token $B eos_token", more: sentinels},
	"DebertaV2": {special: []specialName{{"pad_token", "[PAD]"}, {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"},
		{"unk_token", "[UNK]"}, {"mask_token", "[MASK]"}},
		single: "cls_token:0 $A:0 sep_token:0", pair: "cls_token:0 $A:0 sep_token:0 $B:1 sep_token:1", change: debertaParts},
	"XLMRoberta": {fairseq: true, special: fairseqTokens, single: "bos_token $A eos_token",
		pair: "bos_token $A eos_token eos_token $B eos_token"},
	"MBart": {fairseq: true, special: fairseqTokens, more: languagesOf(25), single: "$A eos_token src_lang",
		pair: "$A $B eos_token src_lang"},
	"MBart50": {fairseq: true, special: fairseqTokens, more: languagesOf(52), single: "src_lang $A eos_token",
		pair: "src_lang $A $B eos_token"},
	"Siglip": {special: []specialName{{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "</s>"}},
		single: "$A eos_token", pair: "$A eos_token $B eos_token", change: siglipParts},
	"Llama": {special: []specialName{{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}},
		single: "bos_token:0 $A:0", pair: "bos_token:0 $A:0 bos_token:1 $B:1"},
}

type pieceClass struct {
	special []specialName
	// fairseq says that <s>, <pad>, </s> and <unk> replace the first three pieces, and that <mask> is
	// the last one.
	fairseq      bool
	more         func(s *pieceSettings) (tokens []string, err error) // tokens behind the pieces; nil: none
	single, pair string
	change       func(c *sentencepiece.Components, s *pieceSettings) error // of the parts; nil: none
}

// specialName is a special token: the setting that names it, and its usual name.
type specialName struct{ setting, usual string }

var fairseqTokens = []specialName{{"bos_token", "<s>"}, {"pad_token", "<pad>"}, {"eos_token", "</s>"},
	{"unk_token", "<unk>"}, {"mask_token", "<mask>"}}

// classOfModel is the class of tokenizers by model_type.
var classOfModel = map[string]string{"t5": "T5", "mt5": "T5", "deberta-v2": "DebertaV2", "xlm-roberta": "XLMRoberta",
	"mbart": "MBart", "llama": "Llama", "mistral": "Llama", "marian": marianClass, "siglip": "Siglip"}

// pieceSettings are settings of tokenizer_config.json.
type pieceSettings struct {
	ExtraIDs  *int   `json:"extra_ids"`
	Lowercase *bool  `json:"do_lower_case"`
	ByPunct   bool   `json:"split_by_punct"`
	Source    string `json:"src_lang"`
	AddBOS    *bool  `json:"add_bos_token"`
	AddEOS    *bool  `json:"add_eos_token"`

	tokenizerSettings
	names map[string]string // special tokens by their settings
}

// readPieceSettings reads the settings in a folder.
func readPieceSettings(dir string) (*pieceSettings, error) {
	s := &pieceSettings{names: map[string]string{}}
	if err := readSettings(dir, s, &s.tokenizerSettings); err != nil {
		return nil, err
	}
	for _, name := range []string{configFile, specialTokensFile} {
		var all map[string]json.RawMessage
		if err := readOptional(filepath.Join(dir, name), &all); err != nil {
			return nil, err
		}
		for key, raw := range all {
			var t specialtoken.Token
			if !strings.HasSuffix(key, "_token") || json.Unmarshal(raw, &t) != nil { // add_bos_token is no token
				continue
			}
			if s.names[key] == "" {
				s.names[key] = t.Content
			}
		}
	}
	var model struct {
		Type string `json:"model_type"`
	}
	if s.Class == "" {
		if err := readOptional(filepath.Join(dir, "config.json"), &model); err != nil {
			return nil, err
		}
		s.Class = classOfModel[model.Type]
	}
	if s.Class = s.class(); s.Class == "MT5" {
		s.Class = "T5"
	}
	return s, nil
}

// loadPieces makes the tokenizer of a model of SentencePiece and the settings beside it.
func loadPieces(path string) (*Tokenizer, error) {
	dir := filepath.Dir(path)
	s, err := readPieceSettings(dir)
	if err != nil {
		return nil, err
	}
	if _, known := pieceClasses[s.Class]; !known {
		return nil, fmt.Errorf("%s: the tokenizer_class is %q; want one of %s, with Tokenizer, or a tokenizer.json beside "+
			"it, as transformers' save_pretrained writes it", filepath.Join(dir, configFile), s.Class,
			strings.Join(slices.Sorted(maps.Keys(pieceClasses)), ", "))
	}
	m, err := sentencepiece.Open(path)
	if err != nil {
		return nil, err
	}
	t, err := newPieces(m, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func newPieces(m *sentencepiece.Model, s *pieceSettings) (*Tokenizer, error) {
	class := pieceClasses[s.Class]
	class.fill(s)
	pieces, unknown, err := class.vocabulary(m, s)
	if err != nil {
		return nil, err
	}
	parts, err := m.ComponentsOf(pieces, unknown)
	if err != nil {
		return nil, err
	}
	if class.change != nil {
		if err := class.change(parts, s); err != nil {
			return nil, err
		}
	}
	c := Config{Normalizer: parts.Normalizer, PreTokenizer: parts.PreTokenizer, Model: parts.Model,
		Decoder: parts.Decoder, AddedTokens: class.addedTokens(pieces, s)}
	added, err := newAddedVocabulary(c.AddedTokens, c.Model, c.Normalizer)
	if err != nil {
		return nil, err
	}
	if c.PostProcessor, err = class.processor(s, added.ids); err != nil {
		return nil, err
	}
	return New(c)
}

// fill gives special tokens that the settings do not name their usual names.
func (class pieceClass) fill(s *pieceSettings) {
	for _, t := range class.special {
		if s.names[t.setting] == "" {
			s.names[t.setting] = t.usual
		}
	}
}

// vocabulary returns the pieces by their ids, and the id of the unknown one.
func (class pieceClass) vocabulary(m *sentencepiece.Model, s *pieceSettings) (pieces []sentencepiece.Piece,
	unknown int64, err error) {
	pieces, unknown = slices.Clone(m.Pieces), m.UnknownID
	control := func(token string) sentencepiece.Piece {
		return sentencepiece.Piece{Text: token, Kind: sentencepiece.Control}
	}
	if class.fairseq {
		const first = 3 // <unk>, <s> and </s> in the file
		if len(pieces) < first {
			return nil, 0, fmt.Errorf("there are %d pieces; want at least %d", len(pieces), first)
		}
		var own []sentencepiece.Piece
		for _, name := range []string{"bos_token", "pad_token", "eos_token", "unk_token"} {
			own = append(own, control(s.names[name]))
		}
		unknown = int64(len(own)) - 1
		own[unknown].Kind = sentencepiece.Unknown
		pieces = append(own, pieces[first:]...)
	}
	if class.more != nil {
		more, err := class.more(s)
		if err != nil {
			return nil, 0, err
		}
		for _, token := range more {
			pieces = append(pieces, control(token))
		}
	}
	if class.fairseq {
		pieces = append(pieces, control(s.names["mask_token"]))
	}
	return pieces, unknown, nil
}

// addedTokens are the tokens that are found in a text before it is divided.
func (class pieceClass) addedTokens(pieces []sentencepiece.Piece, s *pieceSettings) []AddedToken {
	var named []AddedToken
	for _, t := range class.special {
		named = append(named, AddedToken{Content: s.names[t.setting], Special: true,
			LStrip: class.fairseq && t.setting == "mask_token"})
	}
	for _, p := range pieces {
		if p.Kind == sentencepiece.Control || p.Kind == sentencepiece.UserDefined {
			named = append(named, AddedToken{Content: p.Text, Special: p.Kind == sentencepiece.Control})
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(s.tokens(named), func(t AddedToken) bool {
		again := seen[t.Content]
		seen[t.Content] = true
		return again
	})
}

// processor makes the post-processor.
func (class pieceClass) processor(s *pieceSettings, ids map[string]int64) (processors.PostProcessor, error) {
	single, pair := class.single, class.pair
	if s.Class == "Llama" {
		if s.AddBOS != nil && !*s.AddBOS {
			single, pair = "$A:0", "$A:0 $B:1"
		}
		if s.AddEOS != nil && *s.AddEOS {
			single = strings.Replace(single, "$A:0", "$A:0 eos_token:0", 1)
			pair = strings.NewReplacer("$A:0", "$A:0 eos_token:0", "$B:1", "$B:1 eos_token:1").Replace(pair)
		}
	}
	names := maps.Clone(s.names)
	if names["src_lang"] = s.Source; s.Source == "" {
		names["src_lang"] = "en_XX"
	}
	var special []processors.SpecialToken
	for setting, token := range names {
		if !strings.Contains(single+pair, setting) {
			continue
		}
		id, ok := ids[token]
		if !ok {
			return nil, fmt.Errorf("the token %q (%s) is not in the vocabulary", token, setting)
		}
		special = append(special, processors.SpecialToken{Token: token, ID: id})
		single, pair = strings.ReplaceAll(single, setting, token), strings.ReplaceAll(pair, setting, token)
	}
	return processors.NewTemplateProcessing(single, pair, special...)
}

// sentinels are T5's tokens for what is left out of a text, <extra_id_99> to <extra_id_0>.
func sentinels(s *pieceSettings) (tokens []string, err error) {
	const usual, most = 100, 1 << 16
	n := usual
	if s.ExtraIDs != nil {
		n = *s.ExtraIDs
	}
	if n < 0 || n > most {
		return nil, fmt.Errorf("extra_ids is %d; want 0 to %d", n, most)
	}
	for i := n - 1; i >= 0; i-- {
		tokens = append(tokens, "<extra_id_"+strconv.Itoa(i)+">")
	}
	return tokens, nil
}

// languageCodes are mBART's languages: the first 25 are those of mBART, all are those of mBART-50.
var languageCodes = strings.Fields(`ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR
	lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN
	af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN
	te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI`)

func languagesOf(n int) func(*pieceSettings) ([]string, error) {
	return func(*pieceSettings) ([]string, error) { return languageCodes[:n], nil }
}

// debertaParts applies DeBERTa's own settings.
func debertaParts(c *sentencepiece.Components, s *pieceSettings) error {
	if s.Lowercase != nil && *s.Lowercase {
		c.Normalizer = normalizers.Sequence{normalizers.Lowercase{}, c.Normalizer}
	}
	if s.ByPunct {
		before := pretokenizers.Sequence{pretokenizers.Punctuation{Behavior: normalizers.Isolated}}
		if c.PreTokenizer != nil {
			before = append(before, c.PreTokenizer)
		}
		c.PreTokenizer = before
	}
	return nil
}

// siglipParts takes the punctuation of ASCII out of texts, makes any space one, and lower-cases
// unless the settings forbid it. SiglipTokenizer does so after it has put ▁ in front of a text,
// so a space that begins a text becomes a token.
func siglipParts(c *sentencepiece.Components, s *pieceSettings) error {
	all := normalizers.Sequence{normalizers.NewReplace("▁", " ")}
	if s.Lowercase == nil || *s.Lowercase {
		all = append(all, normalizers.Lowercase{})
	}
	for _, r := range [][2]string{{"[!-/:-@\\[-`{-~]", ""}, {`\s+`, " "}, {`\s\z`, ""}, {`\A `, "▁"}} {
		n, err := normalizers.NewReplaceRegexp(r[0], r[1])
		if err != nil {
			return err
		}
		all = append(all, n)
	}
	c.Normalizer = append(all, c.Normalizer)
	return nil
}
