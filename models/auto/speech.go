package auto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// SpeechToTextModel writes down speech: AutoModelForSpeechSeq2Seq, and the pipeline
// automatic-speech-recognition.
type SpeechToTextModel struct{ *Model }

var _ seq2seq.SpeechModel = (*SpeechToTextModel)(nil)

// SpeechToText loads a model from a folder or the Hub: a Whisper. As WhisperTokenizer does, it puts
// around the tokens of a text those of the language and task that tokenizer_config.json names.
func SpeechToText(ctx context.Context, model string, o Options) (*SpeechToTextModel, error) {
	if o.Quantize != nil {
		return nil, errOnlyTextsQuantized
	}
	m, err := load(ctx, model, speechToText, o)
	if err != nil {
		return nil, err
	}
	s := &SpeechToTextModel{m}
	return s, s.takeLanguage()
}

// NewSpeechToText makes a model with random weights, such as a [whisper.Config] describes, in
// training mode: from_config. The extractor and the tokenizer are saved with the model. They may be
// nil if the program has prepared features, and token ids.
func NewSpeechToText(c Config, extractor *audio.FeatureExtractor, t *text.Tokenizer) (*SpeechToTextModel, error) {
	p, err := c.Blueprint()
	if err == nil && p.Speech.Bins == 0 {
		err = fmt.Errorf("a %s is not for %s", p.Class, speechToText.class)
	}
	var m *Model
	if err == nil {
		err = torch.Try(func() { m = newModel(p, speechToText, transformer.Builder{}) })
	}
	if err == nil {
		err = m.checkFeatureExtractor(extractor)
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.FeatureExtractor, m.Tokenizer = extractor, t
	return &SpeechToTextModel{m}, nil
}

// loadFeatureExtractor reads the settings of the feature extractor in a folder.
func (m *Model) loadFeatureExtractor(dir string, w io.Writer) error {
	content, err := readProcessor(dir, featureExtractorKey)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "auto: %s has no %s: the model takes features, but no sound\n", dir, audio.ConfigName)
		return nil
	}
	var o audio.FeatureExtractorOptions
	if err == nil {
		o, err = audio.ParseFeatureExtractorConfig(content)
	}
	var e *audio.FeatureExtractor
	if err == nil {
		e, err = audio.NewFeatureExtractor(o)
	}
	if err == nil {
		err = m.checkFeatureExtractor(e)
	}
	if err != nil {
		return fmt.Errorf("auto: %s: %w", dir, err)
	}
	m.FeatureExtractor = e
	return nil
}

// checkFeatureExtractor returns an error for a feature extractor whose features the model does not
// take.
func (m *Model) checkFeatureExtractor(e *audio.FeatureExtractor) error {
	if e == nil {
		return nil
	}
	wanted, bins, frames := m.blueprint.Speech, int64(e.Options().FeatureSize), int64(e.Frames())
	if bins != wanted.Bins || frames != wanted.Frames {
		return fmt.Errorf("the feature extractor makes %d bins of %d frames (feature_size, chunk_length, hop_length); the "+
			"model takes %d (num_mel_bins) of %d (twice max_source_positions)", bins, frames, wanted.Bins, wanted.Frames)
	}
	return nil
}

// Task is what engine.New trains, with the defaults of [seq2seq.NewSpeechTask].
func (m *SpeechToTextModel) Task() *seq2seq.SpeechTask {
	return must(seq2seq.NewSpeechTask(m, seq2seq.SpeechTaskOptions{}))
}

// SpeechLimits says which speech the model takes.
func (m *SpeechToTextModel) SpeechLimits() inputs.SpeechLimits { return m.blueprint.Speech }

// FreezeEncoder keeps training from changing the encoder: freeze_encoder of transformers.
func (m *SpeechToTextModel) FreezeEncoder() error { return nn.Freeze(m, m.prefix()+".encoder.*") }

// Encode makes a sample of speech, prepared by Model.FeatureExtractor, and the text in it, which is
// cut if Model.Tokenizer truncates. Labels do not have the token that begins every text, like those
// of DataCollatorSpeechSeq2SeqWithPadding of transformers' example. If the tokenizer puts no end
// token after the text, Encode does.
func (m *SpeechToTextModel) Encode(a *audio.Audio, written string) (s seq2seq.SpeechSample, err error) {
	e, err := m.encode(text.Single(written))
	if err != nil {
		return s, err
	}
	labels := e.IDs
	if len(labels) > 0 && labels[0] == m.DecoderStartTokenID() {
		labels = labels[1:]
	}
	s = seq2seq.SpeechSample{Labels: m.ended(labels), Target: written}
	s.Speech, err = m.extract(a)
	return s, err
}

// EncodeFile is [SpeechToTextModel.Encode] for a WAV or FLAC file.
func (m *SpeechToTextModel) EncodeFile(path, written string) (seq2seq.SpeechSample, error) {
	return ofSpeech(path, func(a *audio.Audio) (seq2seq.SpeechSample, error) { return m.Encode(a, written) })
}

// extract makes of speech the numbers that the model takes.
func (m *SpeechToTextModel) extract(a *audio.Audio) (s inputs.Speech, err error) {
	if m.FeatureExtractor == nil {
		return s, m.errNoFeatureExtractor()
	}
	if s.Features, err = m.FeatureExtractor.Extract(a); err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	return s, nil
}

// errNoFeatureExtractor returns the error of methods that need a feature extractor.
func (m *Model) errNoFeatureExtractor() error {
	if m.dir == "" {
		return errors.New("auto: the model has no feature extractor; set Model.FeatureExtractor (audio.NewFeatureExtractor)")
	}
	return fmt.Errorf("auto: %s has no %s beside the weights; set Model.FeatureExtractor (audio.NewFeatureExtractor)",
		m.dir, audio.ConfigName)
}

// ofSpeech returns what f makes of a WAV or FLAC file.
func ofSpeech[T any](path string, f func(a *audio.Audio) (T, error)) (made T, err error) {
	a, err := audio.Open(path)
	if err != nil {
		return made, err
	}
	if made, err = f(a); err != nil {
		return made, fmt.Errorf("%w (%s)", err, path)
	}
	return made, nil
}

// ForwardPair maps log-mel features, [B, bins, frames], and the token ids of the texts in them, [B,
// T], to logits, [B, T, vocabulary]: see [seq2seq.SpeechModel].
func (m *SpeechToTextModel) ForwardPair(features, decoderIDs torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.head.forward(m.backbone, m.backbone.ForwardSignalPair(features, decoderIDs))
	})
}

// DecoderStartTokenID is the token that begins every text: decoder_start_token_id.
func (m *SpeechToTextModel) DecoderStartTokenID() int64 { return m.blueprint.DecoderStartTokenID }

// DecoderStartOf is DecoderStartTokenID, whatever the labels.
func (m *SpeechToTextModel) DecoderStartOf([]int64) int64 { return m.DecoderStartTokenID() }

// EOSTokenIDs are the tokens that end a text: eos_token_id.
func (m *SpeechToTextModel) EOSTokenIDs() []int64 { return slices.Clone(m.blueprint.EOSTokenIDs) }

// Generate writes down speech of at most 30 seconds, without special tokens and times;
// [SpeechToTextModel.Transcribe] takes longer speech. The model is in evaluation mode meanwhile.
// Several goroutines may call it at a time, but not while the model is trained. If ctx ends, Generate
// returns the text so far and the context's cause.
func (m *SpeechToTextModel) Generate(ctx context.Context, a *audio.Audio, g Generation) (string, error) {
	g.single = true
	all, err := m.GenerateBatch(ctx, []*audio.Audio{a}, g)
	if len(all) == 0 {
		return "", err
	}
	return all[0], err
}

// GenerateFile is [SpeechToTextModel.Generate] for a WAV or FLAC file.
func (m *SpeechToTextModel) GenerateFile(ctx context.Context, path string, g Generation) (string, error) {
	return ofSpeech(path, func(a *audio.Audio) (string, error) { return m.Generate(ctx, a, g) })
}

// GenerateBatch is [SpeechToTextModel.Generate] for several recordings at a time, which is faster
// than one after the other. It returns Generation.NumReturnSequences texts for the first recording,
// then those for the second, and so on.
func (m *SpeechToTextModel) GenerateBatch(ctx context.Context, speech []*audio.Audio, g Generation) ([]string, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	extracted := make([]inputs.Speech, len(speech))
	for i, a := range speech {
		var err error
		if extracted[i], err = m.extract(a); err != nil {
			return nil, err
		}
	}
	rows, err := m.GenerateIDs(ctx, extracted, g)
	return m.withoutTimes(rows), err
}

// GenerateIDs is [SpeechToTextModel.GenerateBatch] with features and token ids: it returns the ids
// that it writes for each, without those that begin them all.
func (m *SpeechToTextModel) GenerateIDs(ctx context.Context, speech []inputs.Speech, g Generation) (rows [][]int64,
	err error) {
	if len(speech) == 0 {
		return nil, errors.New("auto: there is no speech to write down")
	}
	if g, err = m.pairGeneration(g, len(speech)); err != nil {
		return nil, err
	}
	b, err := m.SpeechLimits().Collate("auto", speech, func(n int) []float32 { return make([]float32, n) })
	if err != nil {
		return nil, err
	}
	return m.generated(func(p engine.ForwardPass) ([][]int64, error) { return m.listen(ctx, p, b, g) })
}

// Writer makes the function that SpeechTaskOptions.Write of package seq2seq takes. With it, an
// evaluation has the model write down its speech, for metrics. It needs Model.Tokenizer.
func (m *SpeechToTextModel) Writer(g Generation) (func(p engine.ForwardPass, b inputs.SpeechBatch) []string, error) {
	g, err := m.pairWriter(g)
	if err != nil {
		return nil, err
	}
	return func(p engine.ForwardPass, b inputs.SpeechBatch) []string {
		rows, _ := m.listen(context.Background(), p, b, g) // it runs until the batch is done
		return m.withoutTimes(rows)
	}, nil
}

// listen generates the texts of a batch of speech.
func (m *SpeechToTextModel) listen(ctx context.Context, p engine.ForwardPass, b inputs.SpeechBatch,
	g Generation) ([][]int64, error) {
	return m.writePairs(ctx, p, int(b.Shape[0]), g, func() (hidden, mask torch.Tensor) {
		return m.backbone.EncodeSignal(b.To(p)), torch.Tensor{}
	})
}

// timeToken matches the tokens of Whisper that say when something was spoken.
var timeToken = regexp.MustCompile(`<\|\d+\.\d+\|>`)

// withoutTimes turns token ids into texts, without special tokens and times.
func (m *Model) withoutTimes(rows [][]int64) []string {
	texts := m.decodeAll(rows)
	for i, s := range texts {
		texts[i] = timeToken.ReplaceAllString(s, "")
	}
	return texts
}
