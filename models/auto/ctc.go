package auto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"time"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/ctc"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// CTCModel writes down speech letter by letter: AutoModelForCTC, and the pipeline
// automatic-speech-recognition.
type CTCModel struct{ *Model }

var _ ctc.Model = (*CTCModel)(nil)

// CTC loads a model from a folder or the Hub: a Wav2Vec2 or a HuBERT. To train one that has not
// learned to write, or not these letters, give it a tokenizer with Options.CTCTokenizer.
func CTC(ctx context.Context, model string, o Options) (*CTCModel, error) {
	if o.Quantize != nil {
		return nil, errOnlyTextsQuantized
	}
	m, err := load(ctx, model, ctcLetters, o)
	if err != nil {
		return nil, err
	}
	if o.CTCTokenizer != nil {
		m.CTCTokenizer = o.CTCTokenizer
	}
	return &CTCModel{m}, nil
}

// NewCTC makes a model with random weights, such as a [wav2vec2.Config] describes, in training
// mode: from_config. The extractor and the tokenizer are saved with the model. They may be nil if
// the program has prepared samples, and ids of letters.
func NewCTC(c Config, e *audio.WaveformExtractor, t *text.CTCTokenizer) (*CTCModel, error) {
	m, err := newSound(c, ctcLetters, e)
	if err != nil {
		return nil, err
	}
	if t != nil {
		if err := m.checkLetters(t); err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
	}
	m.CTCTokenizer = t
	return &CTCModel{m}, nil
}

// withLetters returns a config.json for the letters of a tokenizer.
func withLetters(d pretrained.Document, t task, tok *text.CTCTokenizer) (pretrained.Document, error) {
	if t.class != ctcLetters.class {
		return d, errors.New("Options.CTCTokenizer is set; want nil, except for CTC")
	}
	d = maps.Clone(d)
	blank, _ := tok.TokenToID(tok.Options().PadToken)
	return d, d.Encode([]pretrained.Field{{Key: "vocab_size", Value: new(tok.VocabSize())},
		{Key: "pad_token_id", Value: &blank}})
}

// checkLetters returns an error for a tokenizer of other letters than the model's.
func (m *Model) checkLetters(t *text.CTCTokenizer) error {
	s := m.blueprint.CTC
	if blank, _ := t.TokenToID(t.Options().PadToken); int64(t.VocabSize()) > s.Classes || blank != s.Blank {
		return fmt.Errorf("the tokenizer has %d letters, and its %s has the id %d; the model has %d (vocab_size), and its "+
			"blank is %d (pad_token_id)", t.VocabSize(), t.Options().PadToken, blank, s.Classes, s.Blank)
	}
	return nil
}

// loadCTCTokenizer reads the tokenizer in a folder.
func (m *Model) loadCTCTokenizer(dir string, w io.Writer) error {
	m.tokenizerDir = dir
	t, err := text.LoadCTCTokenizer(dir)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "auto: %s has no tokenizer: the model gives ids of letters, but no texts\n", dir)
		return nil
	}
	if err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	m.CTCTokenizer, m.loadedCTC = t, t
	return nil
}

// writeCTCTokenizer writes the files of the tokenizer, which are those of its folder unless it is
// another one.
func (m *Model) writeCTCTokenizer(dir string) error {
	if m.CTCTokenizer == m.loadedCTC {
		return copyFiles(m.tokenizerDir, dir, tokenizerFiles)
	}
	return m.CTCTokenizer.Save(dir)
}

// CTC returns the settings of the loss: ctc_loss_reduction, ctc_zero_infinity and pad_token_id.
func (m *CTCModel) CTC() ctc.Settings { return m.blueprint.CTC }

// Task is what engine.New trains: that of [ctc.NewTask] with word and character error rates, or,
// without a tokenizer, with the loss alone.
func (m *CTCModel) Task() *ctc.Task {
	o := ctc.TaskOptions{}
	if m.CTCTokenizer != nil {
		o.Decode, o.Metrics = m.CTCTokenizer.Decode, []metrics.Metric[string]{&metrics.WER{}, &metrics.CER{}}
	}
	return must(ctc.NewTask(m, o))
}

// Forward maps the samples of sound, [B, samples], to logits, [B, frames, vocabulary]. lengths are
// the samples of each row that are no padding; nil: there is none. In training it draws the masks
// of SpecAugment. It panics with [*torch.Error] if there is less sound than the model takes.
func (m *CTCModel) Forward(values torch.Tensor, lengths []int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return m.head.forward(m.backbone, m.backbone.Hear(values, lengths).Hidden)
	})
}

// Encode makes a sample of speech, prepared by Model.WaveformExtractor, and the text in it. Target
// is the text as its letters say it. A letter that the tokenizer does not know is an error.
func (m *CTCModel) Encode(a *audio.Audio, written string) (s ctc.Sample, err error) {
	if m.CTCTokenizer == nil {
		return s, m.errNoCTCTokenizer()
	}
	if err := m.checkLetters(m.CTCTokenizer); err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	if unknown := m.CTCTokenizer.Unknown(written); len(unknown) > 0 {
		return s, fmt.Errorf("auto: %.80q has the letters %q, which the tokenizer does not know; leave them out, change "+
			"their case, write %s in their place, or take a tokenizer that has them (text.CTCVocabulary)", written, unknown,
			m.CTCTokenizer.Options().UnkToken)
	}
	s.Labels = m.CTCTokenizer.Encode(written)
	s.Target = m.CTCTokenizer.DecodeLabels(s.Labels)
	s.Waveform, err = m.waveform(a)
	return s, err
}

// EncodeFile is [CTCModel.Encode] for a WAV or FLAC file.
func (m *CTCModel) EncodeFile(path, written string) (ctc.Sample, error) {
	return ofSpeech(path, func(a *audio.Audio) (ctc.Sample, error) { return m.Encode(a, written) })
}

func (m *Model) errNoCTCTokenizer() error {
	const set = "set Model.CTCTokenizer (text.NewCTCTokenizer)"
	if m.tokenizerDir == "" {
		return errors.New("auto: the model has no tokenizer; " + set)
	}
	return fmt.Errorf("auto: %s has no vocab.json beside the weights; %s", m.tokenizerDir, set)
}

// Transcription is what a model has heard.
type Transcription struct {
	Text           string
	Words, Letters []TimedText
}

// TimedText is a part of a text, and when it was spoken.
type TimedText struct {
	Text       string
	Start, End time.Duration
}

// Transcribe writes down speech. The model is in evaluation mode meanwhile. Several goroutines may
// call it at a time, but not while the model is trained.
func (m *CTCModel) Transcribe(a *audio.Audio) (t Transcription, err error) {
	if m.CTCTokenizer == nil {
		return t, m.errNoCTCTokenizer()
	}
	w, err := m.waveform(a)
	if err != nil {
		return t, err
	}
	frames, err := m.TranscribeValues(w)
	if err != nil {
		return t, err
	}
	return Transcription{m.CTCTokenizer.Decode(frames), m.timed(m.CTCTokenizer.Words(frames)),
		m.timed(m.CTCTokenizer.Letters(frames))}, nil
}

// TranscribeFile is [CTCModel.Transcribe] for a WAV or FLAC file.
func (m *CTCModel) TranscribeFile(path string) (Transcription, error) {
	return ofSpeech(path, m.Transcribe)
}

// TranscribeValues is [CTCModel.Transcribe] with samples and letters: it returns the id of the best
// letter of each frame.
func (m *CTCModel) TranscribeValues(w inputs.Waveform) (frames []int64, err error) {
	b, err := m.WaveformLimits().Collate("auto", []inputs.Waveform{w}, func(n int) []float32 { return make([]float32, n) })
	if err != nil {
		return nil, err
	}
	err = m.Evaluate(func(p engine.ForwardPass) {
		frames = torch.Values[int64](m.Forward(b.To(p), b.Lengths).ArgMax(-1, false))
	})
	return frames, err
}

// timed gives frames their times: a frame begins as many samples after the one before as the
// strides of all convolutions say, multiplied (inputs_to_logits_ratio).
func (m *CTCModel) timed(spans []text.CTCSpan) (timed []TimedText) {
	samples := int64(1)
	for _, c := range m.blueprint.Waveforms.Convolutions {
		samples *= c.Stride
	}
	frame := float64(samples) / float64(m.WaveformExtractor.Options().SamplingRate) * float64(time.Second)
	for _, s := range spans {
		at := func(n int) time.Duration { return time.Duration(float64(n) * frame) }
		timed = append(timed, TimedText{s.Text, at(s.Start), at(s.End)})
	}
	return timed
}
