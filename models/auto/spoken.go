package auto

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/processors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// spoken is the language of speech, and what is done with it.
type spoken struct {
	Language          string `json:"language"`
	Task              string `json:"task"`
	PredictTimestamps bool   `json:"predict_timestamps"` // the labels of texts may have times

	chosen bool // by SetLanguage: generation and saved files follow
}

// What generation_config.json, and the metadata of an adapter, call language and task.
const (
	speechLanguageKey = "language"
	speechTaskKey     = "task"
)

// The tasks of Whisper.
const (
	transcribe = "transcribe"
	translate  = "translate"
)

// The tokens with which WhisperTokenizer begins a text; those of a language and a task may be between
// them.
const (
	startOfTranscript = "<|startoftranscript|>"
	noTimestamps      = "<|notimestamps|>"
)

// SetLanguage says which language is spoken, such as "german" or "de", and whether texts are in that
// language ("transcribe") or in English ("translate"): set_prefix_tokens of WhisperTokenizer, and
// language and task of generation_config.json. From then on, the labels of texts begin with the
// tokens of both, and so do generated texts, unless [Generation] says otherwise. Empty means none, and
// that the language is detected. The folders that the model is saved to say the same. Models that know
// only English have no languages. Do not call it while the model is used.
func (m *SpeechToTextModel) SetLanguage(language, task string) error {
	fail := func(err error) error { return fmt.Errorf("auto: SetLanguage: %w", err) }
	if m.Tokenizer == nil {
		return m.errNoTokenizer()
	}
	asLoaded, err := m.tokenizerAsLoaded()
	if err != nil {
		return fail(err)
	}
	f, err := m.generationFile()
	if err != nil {
		return err
	}
	s := m.speech
	s.Language, s.Task, s.chosen = language, task, true
	_, languages := f.all["lang_to_id"]
	_, multilingual := f.all["is_multilingual"]
	if languages || multilingual { // otherwise only the tokenizer knows
		if _, err := (Generation{Language: language, Task: task}).speechBeginning(&f, m.Model); err != nil {
			return err
		}
	}
	t, err := m.prefixed(s)
	if err != nil {
		return fail(err)
	}
	if asLoaded {
		if m.loaded, err = m.loaded.WithPostProcessor(t.Config().PostProcessor); err != nil {
			return fail(err)
		}
		m.asLoaded = nil
	}
	m.Tokenizer, m.speech = t, s
	return nil
}

// takeLanguage makes the tokenizer put the tokens around a text that WhisperTokenizer would.
func (m *SpeechToTextModel) takeLanguage() error {
	if m.Tokenizer == nil {
		return nil
	}
	for _, token := range []string{startOfTranscript, noTimestamps} {
		if _, ok := m.Tokenizer.TokenToID(token); !ok {
			return nil // it is another tokenizer
		}
	}
	path := filepath.Join(m.tokenizerDir, tokenizerConfigName)
	content, err := regularfile.ReadFile(path, 64<<20)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = []byte("{}"), nil
	}
	if err == nil {
		err = json.Unmarshal(content, &m.speech)
	}
	var t *text.Tokenizer
	if err == nil {
		t, err = m.prefixed(m.speech)
	}
	if err != nil {
		return fmt.Errorf("auto: %s: %w", path, err)
	}
	m.Tokenizer, m.loaded = t, t
	return nil
}

// prefixed returns the tokenizer for texts in a language: prefix_tokens of WhisperTokenizer. Unlike
// there, the tokens of languages are found by their names, not by their places.
func (m *Model) prefixed(s spoken) (*text.Tokenizer, error) {
	prefix := []string{startOfTranscript}
	if s.Language != "" {
		code, err := codeOfLanguage(s.Language)
		if err != nil {
			return nil, err
		}
		prefix = append(prefix, "<|"+code+"|>")
	}
	switch s.Task {
	case transcribe, translate:
		prefix = append(prefix, "<|"+s.Task+"|>")
	case "":
	default:
		return nil, errTask(s.Task)
	}
	if !s.PredictTimestamps {
		prefix = append(prefix, noTimestamps)
	}
	end := ""
	if ends := m.blueprint.EOSTokenIDs; len(ends) > 0 {
		end, _ = m.Tokenizer.IDToToken(ends[0])
	}
	pieces := append(slices.Clone(prefix), end)
	special := make([]processors.SpecialToken, len(pieces))
	for i, token := range pieces {
		id, ok := m.Tokenizer.TokenToID(token)
		if !ok {
			return nil, fmt.Errorf("the vocabulary has no token %q; want that of a WhisperTokenizer", token)
		}
		special[i] = processors.SpecialToken{Token: token, ID: id}
	}
	around := strings.Join(prefix, " ") + " %s " + end
	p, err := processors.NewTemplateProcessing(fmt.Sprintf(around, "$A"), fmt.Sprintf(around, "$A:0 $B:1"), special...)
	if err != nil {
		return nil, err
	}
	return m.Tokenizer.WithPostProcessor(p)
}

// codeOfLanguage returns the code of a language that has a name or a code.
func codeOfLanguage(language string) (string, error) {
	language = strings.ToLower(language)
	if code, ok := languageCodes[language]; ok {
		return code, nil
	}
	for _, code := range languageCodes {
		if code == language {
			return code, nil
		}
	}
	return "", fmt.Errorf("there is no language %q; want a name or a code such as german or de, one of %q", language,
		slices.Sorted(maps.Keys(languageCodes)))
}

func errTask(task string) error {
	return fmt.Errorf("the task is %q; want %q or %q", task, transcribe, translate)
}

// fields are the settings of files that say what SetLanguage has said; nil: it has not been called.
func (s *spoken) fields() []pretrained.Field {
	if !s.chosen {
		return nil
	}
	orNull := func(s string) any {
		value := &s
		if s == "" {
			value = nil
		}
		return &value
	}
	return []pretrained.Field{{Key: speechLanguageKey, Value: orNull(s.Language)},
		{Key: speechTaskKey, Value: orNull(s.Task)}}
}

// writeSpeechLanguage changes the tokenizer's files in dir to the language of SetLanguage.
func (m *Model) writeSpeechLanguage(dir string) error {
	if !m.speech.chosen {
		return nil
	}
	return m.writeChanged(dir, m.speech.fields())
}

// speechFile is what generation_config.json says of speech.
type speechFile struct {
	language, task    string
	languages, tasks  map[string]int64
	multilingual      *bool
	timestamps        bool
	noTimestamps      *int64
	forced            [][]*int64 // pairs of a place, from 1, and a token; null: the language is detected
	maxInitial        *int64     // how many times after 0.00 the first one is at most
	noSpeechThreshold *float64
}

func (f *generationFile) speech() (s speechFile, err error) {
	err = pretrained.Document(maps.Clone(f.all)).Decode([]pretrained.Field{{Key: speechLanguageKey, Value: &s.language},
		{Key: speechTaskKey, Value: &s.task}, {Key: "lang_to_id", Value: &s.languages}, {Key: "task_to_id", Value: &s.tasks},
		{Key: "is_multilingual", Value: &s.multilingual}, {Key: "no_timestamps_token_id", Value: &s.noTimestamps},
		{Key: "forced_decoder_ids", Value: &s.forced}, {Key: "return_timestamps", Value: &s.timestamps},
		{Key: "max_initial_timestamp_index", Value: &s.maxInitial},
		{Key: "no_speech_threshold", Value: &s.noSpeechThreshold}})
	switch {
	case err != nil:
	case s.noSpeechThreshold != nil:
		err = errors.New("no_speech_threshold is set, which is not supported")
	}
	if err != nil {
		return s, fmt.Errorf("auto: %s: %w (Generation.IgnoreFile leaves it out)", f.name, err)
	}
	return s, nil
}

// speechBeginning sets the tokens with which texts begin, after the first: those of the language, of
// the task, and the one that says that there are no times. It is _retrieve_init_tokens of
// transformers' Whisper. max_length of the file does not count these tokens, and do_sample has no
// effect: only Generation.Sample draws tokens.
func (g Generation) speechBeginning(f *generationFile, m *Model) (Generation, error) {
	s, err := f.speech()
	if err == nil && s.forced == nil && f.all != nil {
		s.forced, err = m.forcedByConfig()
	}
	if err != nil {
		return g, err
	}
	if m.speech.chosen && s.languages != nil {
		s.language, s.task = m.speech.Language, m.speech.Task
	}
	if g.Language != "" || g.Task != "" {
		if s.multilingual != nil && !*s.multilingual {
			return g, errors.New("auto: Generation.Language and Task are set, but the model knows only English " +
				"(is_multilingual of generation_config.json); leave them out")
		}
		if g.Language != "" {
			s.language = g.Language
		}
		if g.Task != "" {
			s.task = g.Task
		}
	}
	if g.begin, err = s.beginning(); err != nil {
		return g, fmt.Errorf("auto: %s: %w", f.name, err)
	}
	if g, err = g.withTimes(s, m); err != nil {
		return g, fmt.Errorf("auto: %s: %w (Generation.IgnoreFile leaves it out)", f.name, err)
	}
	if len(g.begin) > 0 && g.begin[0] == unknownLanguage {
		g.detected = slices.Sorted(maps.Values(s.languages))
	}
	for _, id := range slices.Concat(g.begin, g.detected) {
		if id != unknownLanguage && (id < 0 || id >= m.Limits().VocabSize) {
			return g, fmt.Errorf("auto: %s has the token %d for speech; want ids of the vocabulary of %d", f.name, id,
				m.Limits().VocabSize)
		}
	}
	if f.MaxLength != nil {
		f.MaxLength = new(*f.MaxLength + min(1+len(g.begin), int(m.Limits().MaxLength)/2-1))
	}
	f.Sample = false
	return g, nil
}

// withTimes makes texts have times, or none, if g.times says so.
func (g Generation) withTimes(s speechFile, m *Model) (Generation, error) {
	id, n := s.noTimestamps, len(g.begin)
	switch {
	case g.times == nil && s.timestamps:
		return g, errors.New("return_timestamps is true; want false, or SpeechToTextModel.Transcribe, which writes times")
	case g.times == nil && (id == nil || n > 0 && g.begin[n-1] == *id):
	case g.times == nil:
		g.begin = append(g.begin, *id)
	case id == nil:
		return g, errors.New("there is no no_timestamps_token_id, after which the tokens of times come")
	case *id < 0 || *id+1 >= m.Limits().VocabSize:
		return g, fmt.Errorf("no_timestamps_token_id is %d, after which the vocabulary of %d has no tokens of times", *id,
			m.Limits().VocabSize)
	case s.maxInitial != nil && *s.maxInitial < 0:
		return g, fmt.Errorf("max_initial_timestamp_index is %d; want at least 0", *s.maxInitial)
	default:
		g.times = &timeTokens{*id + 1, s.maxInitial}
		if n > 0 && g.begin[n-1] == *id {
			g.begin = g.begin[:n-1]
		}
	}
	return g, nil
}

// forcedByConfig returns forced_decoder_ids of config.json, where transformers looks, too.
func (m *Model) forcedByConfig() (forced [][]*int64, err error) {
	d, err := m.blueprint.Document(m.Architecture())
	if err == nil {
		err = d.Decode([]pretrained.Field{{Key: "forced_decoder_ids", Value: &forced}})
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %s: %w (Generation.IgnoreFile leaves it out)", pretrained.ConfigName, err)
	}
	return forced, nil
}

// checkSpeech returns an error for settings that are only for models of speech, or not for them.
func (g Generation) checkSpeech(m *Model) error {
	switch {
	case !m.task.speech && (g.Language != "" || g.Task != ""):
		return fmt.Errorf("auto: Generation.Language and Task are for models of speech, not for %s; leave them out",
			m.Architecture())
	case m.task.speech && g.NumBeams > 1 && g.Sample:
		return fmt.Errorf("auto: Generation.Sample is set, and NumBeams is %d; Whisper draws tokens only without beams",
			g.NumBeams)
	}
	return nil
}

// unknownLanguage stands for the token of a language that is to be detected.
const unknownLanguage = -1

// beginning returns the tokens that follow the first, with unknownLanguage if that one is to be
// detected.
func (s speechFile) beginning() (begin []int64, err error) {
	if s.language == "" && s.task == "" {
		if begin, err = s.forcedTokens(); err != nil {
			return nil, err
		}
	}
	language := int64(unknownLanguage)
	if s.language != "" {
		if language, err = s.languageID(); err != nil {
			return nil, err
		}
	}
	switch {
	case language == unknownLanguage && (s.languages == nil || len(begin) > 0 && begin[0] != unknownLanguage):
	case len(begin) > 0:
		begin[0] = language
	default:
		begin = append(begin, language)
	}
	task := func(name string) error {
		id, ok := s.tasks[name]
		if !ok {
			return fmt.Errorf("task_to_id has no task %q", name)
		}
		begin = append(begin, id)
		return nil
	}
	switch {
	case s.task != "" && s.task != transcribe && s.task != translate:
		err = errTask(s.task)
	case s.task != "":
		err = task(s.task)
	case s.language != "" && s.tasks != nil:
		err = task(transcribe)
	}
	if err != nil {
		return nil, err
	}
	if s.languages == nil { // without languages, none is detected
		begin = slices.DeleteFunc(begin, func(id int64) bool { return id == unknownLanguage })
	}
	return begin, nil
}

// forcedTokens returns the tokens of forced_decoder_ids, by which older files say language and task.
func (s speechFile) forcedTokens() (begin []int64, err error) {
	for i, pair := range s.forced {
		switch {
		case len(pair) != 2 || pair[0] == nil || *pair[0] < 1:
			return nil, fmt.Errorf("forced_decoder_ids has an entry of %d numbers; want pairs of a place, from 1, and a token",
				len(pair))
		case i == 0 && *pair[0] != 1:
			return nil, nil // as in transformers, they are not those of language and task
		case *pair[0] != int64(i+1):
			return nil, fmt.Errorf("forced_decoder_ids has the place %d after %d; want no gaps", *pair[0], i)
		case pair[1] != nil:
			begin = append(begin, *pair[1])
		case i == 0:
			begin = append(begin, unknownLanguage)
		}
	}
	return begin, nil
}

// languageID returns the token of the language.
func (s speechFile) languageID() (int64, error) {
	if s.languages == nil {
		return 0, fmt.Errorf("there is no lang_to_id, by which the token of the language %q is found", s.language)
	}
	if id, ok := s.languages[strings.ToLower(s.language)]; ok {
		return id, nil
	}
	code, err := codeOfLanguage(s.language)
	if err != nil {
		return 0, err
	}
	id, ok := s.languages["<|"+code+"|>"]
	if !ok {
		return 0, fmt.Errorf("lang_to_id has no language %q; want one of %q", "<|"+code+"|>",
			slices.Sorted(maps.Keys(s.languages)))
	}
	return id, nil
}

// withLanguages puts the most probable of some languages into the beginning of each row's text, given
// what the decoder attends to: detect_language of transformers' Whisper.
func (m *Model) withLanguages(p engine.ForwardPass, hidden torch.Tensor, begun [][]int64, languages []int64) [][]int64 {
	decode, _ := m.backbone.DecodePair(hidden, torch.Tensor{}, 1)
	state := decode(engine.Input(p, column(begun, 0), int64(len(begun)), 1))
	index := torch.From(languages, int64(len(languages))).ToDevice(hidden.Device())
	logits := m.head.forward(m.backbone, state.Select(1, 0)).IndexSelect(1, index)
	for i, at := range torch.Values[int64](logits.ArgMax(-1, false)) {
		begun[i] = slices.Clone(begun[i])
		begun[i][1] = languages[at]
	}
	return begun
}
