package auto

import (
	"context"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// AudioClassifier classifies sound: AutoModelForAudioClassification, and the pipeline
// audio-classification.
type AudioClassifier struct{ *Model }

var _ classify.AudioModel = (*AudioClassifier)(nil)

// AudioClassification loads a model from a folder or the Hub: a Wav2Vec2 or a HuBERT.
func AudioClassification(ctx context.Context, model string, o Options) (*AudioClassifier, error) {
	if o.Quantize != nil {
		return nil, errOnlyTextsQuantized
	}
	m, err := load(ctx, model, audioClassification, o)
	if err != nil {
		return nil, err
	}
	return &AudioClassifier{m}, nil
}

// NewAudioClassification makes a model with random weights, such as a [wav2vec2.Config] describes,
// in training mode: from_config. The extractor is saved with the model. It may be nil if the
// program has prepared samples.
func NewAudioClassification(c Config, e *audio.WaveformExtractor) (*AudioClassifier, error) {
	m, err := newSound(c, audioClassification, e)
	if err != nil {
		return nil, err
	}
	return &AudioClassifier{m}, nil
}

// Task is what engine.New trains, with the defaults of [classify.NewAudioTask].
func (m *AudioClassifier) Task() *classify.AudioTask {
	return must(classify.NewAudioTask(m, classify.AudioTaskOptions{}))
}

// Forward maps the samples of sound, [B, samples], to logits, [B, labels]. lengths are the samples
// of each row that are no padding; nil: there is none. In training it draws the masks of
// SpecAugment. It panics with [*torch.Error] if there is less sound than the model takes.
func (m *AudioClassifier) Forward(values torch.Tensor, lengths []int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		own := m.head.(*ownHead).own //nolint:forcetypeassert // models of sound have their own heads
		return own.(transformer.HearingHead).ForwardHeard(m.backbone.Hear(values, lengths))
	})
}

// Encode makes a sample of sound, prepared by Model.WaveformExtractor. The label is for
// single-label heads; for others, set the sample's Targets.
func (m *AudioClassifier) Encode(a *audio.Audio, label int64) (classify.AudioSample, error) {
	w, err := m.waveform(a)
	return classify.AudioSample{Waveform: w, Label: label}, err
}

// EncodeFile is [AudioClassifier.Encode] for a WAV or FLAC file.
func (m *AudioClassifier) EncodeFile(path string, label int64) (classify.AudioSample, error) {
	return ofSpeech(path, func(a *audio.Audio) (classify.AudioSample, error) { return m.Encode(a, label) })
}

// Predict classifies sound and returns all classes, the one with the highest score first. Several
// goroutines may call it at a time, but not while the model is trained.
func (m *AudioClassifier) Predict(a *audio.Audio) ([]Class, error) {
	w, err := m.waveform(a)
	if err != nil {
		return nil, err
	}
	return m.PredictValues(w)
}

// PredictFile is [AudioClassifier.Predict] for a WAV or FLAC file.
func (m *AudioClassifier) PredictFile(path string) ([]Class, error) { return ofSpeech(path, m.Predict) }

// PredictValues is [AudioClassifier.Predict] with samples.
func (m *AudioClassifier) PredictValues(w inputs.Waveform) ([]Class, error) {
	b, err := m.WaveformLimits().Collate("auto", []inputs.Waveform{w}, func(n int) []float32 { return make([]float32, n) })
	if err != nil {
		return nil, err
	}
	return m.scored(func(p engine.ForwardPass) torch.Tensor { return m.Forward(b.To(p), b.Lengths) })
}
