package auto

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// newSound makes a model of sound with random weights, in training mode.
func newSound(c Config, t task, e *audio.WaveformExtractor) (*Model, error) {
	p, err := c.Blueprint()
	if err == nil && hearers[p.ModelType] == nil {
		err = fmt.Errorf("a %s is not for %s of sound", p.Class, t.class)
	}
	var m *Model
	if err == nil {
		err = torch.Try(func() { m = newModel(p, t, transformer.Builder{}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.WaveformExtractor = e
	return m, nil
}

// loadWaveformExtractor reads the settings of the feature extractor in a folder.
func (m *Model) loadWaveformExtractor(dir string, w io.Writer) error {
	content, err := readProcessor(dir, featureExtractorKey)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "auto: %s has no %s: the model takes samples, but no sound\n", dir, audio.ConfigName)
		return nil
	}
	var o audio.WaveformOptions
	if err == nil {
		o, err = audio.ParseWaveformConfig(content)
	}
	if err == nil {
		m.WaveformExtractor, err = audio.NewWaveformExtractor(o)
	}
	if err != nil {
		return fmt.Errorf("auto: %s: %w", dir, err)
	}
	return nil
}

// WaveformLimits says which sound a model takes that takes it as it is, and how batches are padded:
// as Model.WaveformExtractor says. Without one, padding is masked if feat_extract_norm is "layer".
func (m *Model) WaveformLimits() inputs.WaveformLimits {
	limits := m.blueprint.Waveforms
	if m.WaveformExtractor != nil {
		o := m.WaveformExtractor.Options()
		limits.Masked, limits.PaddingValue = o.ReturnAttentionMask, o.PaddingValue
	}
	return limits
}

// MaskGenerator is the generator of the masks of SpecAugment; nil: the model draws none.
func (m *Model) MaskGenerator() *torch.Generator { return m.backbone.MaskGenerator }

// FreezeFeatureEncoder keeps training from changing the convolutions of a model of sound:
// freeze_feature_encoder of transformers.
func (m *Model) FreezeFeatureEncoder() error {
	if !m.task.sound {
		return fmt.Errorf("auto: %s has no feature encoder (FreezeFeatureEncoder); Wav2Vec2 and HuBERT have",
			m.Architecture())
	}
	return nn.Freeze(m, m.prefix()+".feature_extractor.*")
}

// waveform makes of sound the samples that the model takes.
func (m *Model) waveform(a *audio.Audio) (w inputs.Waveform, err error) {
	if m.WaveformExtractor == nil {
		return w, m.errNoWaveformExtractor()
	}
	if w.Values, err = m.WaveformExtractor.Extract(a); err != nil {
		return w, fmt.Errorf("auto: %w", err)
	}
	return w, nil
}

// errNoWaveformExtractor returns the error of methods that need an extractor.
func (m *Model) errNoWaveformExtractor() error {
	const set = "set Model.WaveformExtractor (audio.NewWaveformExtractor)"
	if m.dir == "" {
		return errors.New("auto: the model has no feature extractor; " + set)
	}
	return fmt.Errorf("auto: %s has no %s beside the weights; %s", m.dir, audio.ConfigName, set)
}
