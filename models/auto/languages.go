package auto

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/processors"
)

// languages are those between which an mBART translates.
type languages struct {
	source, target string // codes
	targetID       int64
	order          languageOrder
	chosen         bool // by SetLanguages: generation and saved files follow
}

// languageOrder is where mBART's tokenizers put the code of a text's language.
type languageOrder struct {
	end   string // the token that ends a text
	first bool   // the code is the first token, as in mBART-50; otherwise it follows the end
}

// languageCode matches the codes of mBART.
var languageCode = regexp.MustCompile(`^[a-z]{2,3}_[A-Z]{2}$`)

// SetLanguages chooses between which languages an mBART translates: codes such as "en_XX" and
// "ro_RO". From then on, source texts have the code of the one and target texts that of the other,
// where MBartTokenizer or MBart50Tokenizer puts it (src_lang, tgt_lang), and the model generates
// texts in the target language: they start with its code, or with [Generation].ForcedBOSTokenID in
// mBART-50. The folders that the model is saved to say the same; an adapter's says it in the metadata
// of its weights, which only this package reads. Do not call it while the model is used.
//
// A Marian has no such setting: if it has several target languages, its source texts begin with the
// code of one, such as ">>fra<< ".
func (m *Seq2SeqLanguageModel) SetLanguages(source, target string) error {
	fail := func(err error) error { return fmt.Errorf("auto: SetLanguages: %w", err) }
	switch {
	case !m.blueprint.WrapsLabels:
		return fail(fmt.Errorf("%s has no languages to set; only mBART has", m.Architecture()))
	case m.Tokenizer == nil:
		return m.errNoTokenizer()
	}
	order, _, err := languageOrderOf(m.Tokenizer)
	if err != nil {
		return fail(err)
	}
	asLoaded, err := m.tokenizerAsLoaded()
	if err != nil {
		return fail(err)
	}
	from, err := order.with(m.Tokenizer, source)
	if err != nil {
		return fail(err)
	}
	if _, err := order.with(m.Tokenizer, target); err != nil {
		return fail(err)
	}
	if asLoaded {
		if m.loaded, err = order.with(m.loaded, source); err != nil {
			return fail(err)
		}
		m.asLoaded = nil
	}
	id, _ := m.Tokenizer.TokenToID(target)
	m.Tokenizer, m.languages = from, &languages{source, target, id, order, true}
	if !order.first {
		m.blueprint.DecoderStartTokenID = id
	}
	return nil
}

// takeLanguages makes the tokenizer use the languages that tokenizer_config.json names, as
// transformers' tokenizers of mBART do.
func (m *Seq2SeqLanguageModel) takeLanguages() error {
	source, target := m.tokenizerConfig.sourceLanguage, m.tokenizerConfig.targetLanguage
	if !m.blueprint.WrapsLabels || m.Tokenizer == nil || source == "" && target == "" {
		return nil
	}
	order, code, err := languageOrderOf(m.Tokenizer)
	if err != nil {
		return nil // tokenizer.json is another tokenizer, which knows nothing of languages
	}
	fail := func(err error) error {
		return fmt.Errorf("auto: %s: %w", filepath.Join(m.tokenizerDir, tokenizerConfigName), err)
	}
	if source != "" && source != code {
		t, err := order.with(m.Tokenizer, source)
		if err != nil {
			return fail(err)
		}
		m.Tokenizer, m.loaded = t, t
		code = source
	}
	if target != "" {
		if _, err := order.with(m.Tokenizer, target); err != nil {
			return fail(err)
		}
		m.languages = &languages{source: code, target: target, order: order}
	}
	if from, to := m.adapterLanguages[0], m.adapterLanguages[1]; to != "" {
		return m.SetLanguages(from, to)
	}
	return nil
}

// languageOrderOf returns where a tokenizer puts the code of a text's language, and which code it
// is.
func languageOrderOf(t *text.Tokenizer) (o languageOrder, code string, err error) {
	if p, ok := t.Config().PostProcessor.(*processors.TemplateProcessing); ok {
		pieces := p.Single()
		switch {
		case len(pieces) != 3:
		case pieces[0].Sequence == "A":
			o, code = languageOrder{pieces[1].Special, false}, pieces[2].Special
		case pieces[1].Sequence == "A":
			o, code = languageOrder{pieces[2].Special, true}, pieces[0].Special
		}
	}
	if !languageCode.MatchString(code) {
		return o, "", errors.New("the tokenizer puts no code of a language beside a text, such as en_XX; want the " +
			"tokenizer.json of an MBartTokenizer or MBart50Tokenizer")
	}
	return o, code, nil
}

// with returns the tokenizer for texts in a language.
func (o languageOrder) with(t *text.Tokenizer, code string) (*text.Tokenizer, error) {
	id, ok := t.TokenToID(code)
	if !ok {
		return nil, fmt.Errorf("the vocabulary has no language %q; want a code such as en_XX", code)
	}
	end, _ := t.TokenToID(o.end)
	around := "%s " + o.end + " " + code
	if o.first {
		around = code + " %s " + o.end
	}
	p, err := processors.NewTemplateProcessing(fmt.Sprintf(around, "$A"), fmt.Sprintf(around, "$A $B"),
		processors.SpecialToken{Token: code, ID: id}, processors.SpecialToken{Token: o.end, ID: end})
	if err != nil {
		return nil, err
	}
	return t.WithPostProcessor(p)
}

// encodeTarget tokenizes a target text.
func (m *Seq2SeqLanguageModel) encodeTarget(in text.Input) (*text.Encoding, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	t := m.Tokenizer.Target()
	if l := m.languages; l != nil {
		var err error
		if t, err = l.order.with(t, l.target); err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
	}
	return m.encodeBy(t, in, 0, nil)
}

// begin makes generated texts begin in the chosen language.
func (l *languages) begin(f *generationFile) {
	switch {
	case l == nil || !l.chosen:
	case l.order.first:
		f.ForcedBOSTokenID = &l.targetID
	default:
		f.DecoderStart = &l.targetID
	}
}

// beginning is the setting of config.json and generation_config.json that makes generated texts
// begin in the chosen language; there may be none.
func (l *languages) beginning() []pretrained.Field {
	switch {
	case l == nil || !l.chosen:
		return nil
	case l.order.first:
		return []pretrained.Field{{Key: "forced_bos_token_id", Value: &l.targetID}}
	}
	return []pretrained.Field{{Key: "decoder_start_token_id", Value: &l.targetID}}
}

// writeLanguages changes the files in dir to the chosen languages.
func (m *Model) writeLanguages(dir string) error {
	l := m.languages
	if l == nil || !l.chosen {
		return nil
	}
	return m.writeChanged(dir, []pretrained.Field{{Key: "src_lang", Value: &l.source},
		{Key: "tgt_lang", Value: &l.target}})
}

// writeChanged writes tokenizer.json to a folder that has the file of before the tokenizer was
// changed, and some fields of tokenizer_config.json.
func (m *Model) writeChanged(dir string, fields []pretrained.Field) error {
	if asLoaded, err := m.tokenizerAsLoaded(); err != nil {
		return err
	} else if asLoaded {
		content, err := m.loaded.MarshalJSON()
		if err == nil {
			err = renameio.WriteFile(filepath.Join(dir, tokenizerName), content, 0o666, renameio.WithTempDir(dir))
		}
		if err != nil {
			return err
		}
	}
	return changeFile(dir, tokenizerConfigName, fields)
}

// changeFile sets fields of a file in a folder; if there is no such file, it does nothing.
func changeFile(dir, name string, fields []pretrained.Field) error {
	path := filepath.Join(dir, name)
	content, err := regularfile.ReadFile(path, 64<<20)
	if errors.Is(err, fs.ErrNotExist) || len(fields) == 0 {
		return nil
	}
	var d pretrained.Document
	if err == nil {
		err = json.Unmarshal(content, &d)
	}
	if err == nil {
		err = d.Encode(fields)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return pretrained.WriteJSON(dir, name, d)
}
