package audio

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// FeatureExtractorOptions configures a [FeatureExtractor] with the settings of transformers'
// WhisperFeatureExtractor. A zero field means its default there.
type FeatureExtractorOptions struct {
	FeatureSize  int     // bins; zero: 80
	SamplingRate int     // samples in a second; zero: 16000
	HopLength    int     // samples from one frame to the next; zero: 160
	ChunkLength  int     // seconds that all sound is padded to; zero: 30
	NFFT         int     // samples of a frame; zero: 400
	PaddingValue float64 // of samples after the end of the sound
	// Dither adds noise of this standard deviation, drawn from torch's default generator in the order
	// of the calls.
	Dither float64

	// Extra holds the other settings of preprocessor_config.json. They are written back.
	Extra map[string]json.RawMessage
}

// FeatureExtractor computes log-mel features: WhisperFeatureExtractor of transformers with torch, bit
// for bit. Several goroutines may use it at a time.
type FeatureExtractor struct {
	options FeatureExtractorOptions
	filters []float32 // [bins, frequencies]
}

// ConfigName is the file of a model that has the settings of its feature extractor.
const ConfigName = "preprocessor_config.json"

// featureExtractorType is the class of transformers.
const featureExtractorType = "WhisperFeatureExtractor"

// most are the largest values of settings, far above those of any model.
const (
	mostBins    = 1 << 12
	mostSamples = 1 << 26
)

// NewFeatureExtractor makes a feature extractor.
func NewFeatureExtractor(o FeatureExtractorOptions) (*FeatureExtractor, error) {
	for _, n := range []struct {
		name        string
		value       *int
		usual, most int
	}{
		{"FeatureSize", &o.FeatureSize, 80, mostBins}, {"SamplingRate", &o.SamplingRate, 16000, maxRate},
		{"HopLength", &o.HopLength, 160, maxRate}, {"ChunkLength", &o.ChunkLength, 30, mostSamples},
		{"NFFT", &o.NFFT, 400, 1 << 16},
	} {
		if *n.value == 0 {
			*n.value = n.usual
		}
		if *n.value < 1 || *n.value > n.most {
			return nil, fmt.Errorf("audio: FeatureExtractorOptions.%s is %d; want 1 to %d", n.name, *n.value, n.most)
		}
	}
	e := &FeatureExtractor{options: o}
	switch samples := e.samples(); {
	case samples > mostSamples:
		return nil, fmt.Errorf("audio: FeatureExtractorOptions.ChunkLength is %d seconds of %d samples; want at most %d",
			o.ChunkLength, o.SamplingRate, mostSamples)
	case o.NFFT/2 >= samples || o.NFFT < 2:
		return nil, fmt.Errorf("audio: FeatureExtractorOptions.NFFT is %d; want at least 2, and less than twice the %d "+
			"samples of ChunkLength", o.NFFT, samples)
	case e.Frames() < 1:
		return nil, fmt.Errorf("audio: FeatureExtractorOptions.HopLength is %d; want at most the %d samples of ChunkLength",
			o.HopLength, samples)
	case !(o.Dither >= 0) || math.IsInf(o.Dither, 0) || math.IsNaN(o.PaddingValue) || math.IsInf(o.PaddingValue, 0):
		return nil, fmt.Errorf("audio: FeatureExtractorOptions.Dither is %g and PaddingValue %g; want a number of at least "+
			"0, and a number", o.Dither, o.PaddingValue)
	}
	e.filters = melFilters(1+o.NFFT/2, o.FeatureSize, o.SamplingRate)
	return e, nil
}

// Options returns the settings, with the defaults filled in.
func (e *FeatureExtractor) Options() FeatureExtractorOptions { return e.options }

// samples is how many samples sound is padded to.
func (e *FeatureExtractor) samples() int { return e.options.ChunkLength * e.options.SamplingRate }

// Frames is how many frames the features have.
func (e *FeatureExtractor) Frames() int { return e.samples() / e.options.HopLength }

// Extract returns the log-mel features of sound, all frames of the first bin, then of the second, and
// so on. Sound of another rate is resampled, and shorter sound is padded. Longer sound is an error;
// transformers cuts it off.
func (e *FeatureExtractor) Extract(a *Audio) (features []float32, err error) {
	if a, err = a.Resample(e.options.SamplingRate); err != nil {
		return nil, err
	}
	if n := e.samples(); len(a.Samples) > n {
		return nil, fmt.Errorf("audio: the sound is %.2f seconds long; want at most %d, ChunkLength of the feature "+
			"extractor: cut it into parts", a.Duration().Seconds(), e.options.ChunkLength)
	}
	return e.padded(a)
}

// ExtractAll is [FeatureExtractor.Extract] for sound that may be longer than ChunkLength, which has
// more than [FeatureExtractor.Frames] frames then: truncation=False and padding="longest" of
// transformers.
func (e *FeatureExtractor) ExtractAll(a *Audio) (features []float32, err error) {
	if a, err = a.Resample(e.options.SamplingRate); err != nil {
		return nil, err
	}
	return e.padded(a)
}

// padded returns the features of sound that is padded to ChunkLength if it is shorter.
func (e *FeatureExtractor) padded(a *Audio) (features []float32, err error) {
	n := max(len(a.Samples), e.samples())
	padded := make([]float32, n)
	for i := copy(padded, a.Samples); i < n; i++ {
		padded[i] = float32(e.options.PaddingValue)
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() { features = torch.Values[float32](e.logMel(torch.From(padded, 1, int64(n)))) })
		})
	})
	if err != nil {
		return nil, fmt.Errorf("audio: %w", err)
	}
	return features, nil
}

// logMel maps samples, [1, n], to features, [1, bins, frames].
func (e *FeatureExtractor) logMel(x torch.Tensor) torch.Tensor {
	o := e.options
	if o.Dither != 0 {
		x = x.Add(torch.Randn(x.Shape()...).MulScalar(o.Dither))
	}
	window := torch.Call("aten::hann_window", o.NFFT)[0]
	spectrum := torch.Call("aten::stft.center", x, o.NFFT, o.HopLength, nil, window, true, "reflect", false, nil, true)[0]
	spectrum = spectrum.Narrow(-1, 0, spectrum.Size(-1)-1)
	power := spectrum.Abs().PowScalar(2).Contiguous()
	// Transposed in memory as numpy's filters are, which a product's last bits depend on.
	filters := torch.From(e.filters, int64(len(e.filters)/o.FeatureSize), int64(o.FeatureSize)).Transpose(0, 1)
	logs := filters.MatMul(power).Clamp(1e-10, nil).Log10()
	largest := logs.AMax([]int64{1, 2}, true)
	return logs.Maximum(largest.SubScalar(8)).AddScalar(4).DivScalar(4)
}

// melFilters returns the weights with which frequencies, up to half the sampling rate, count for bins
// of the mel scale up to 8000 Hz, [frequencies, bins]: mel_filter_bank of transformers with slaney's
// scale and normalization.
func melFilters(frequencies, bins, rate int) []float32 {
	const highest = 8000
	edges := make([]float64, bins+2) // of the triangles, in Hz
	step := hertzToMel(highest) / float64(bins+1)
	for i := range edges {
		edges[i] = melToHertz(float64(i) * step)
	}
	edges[bins+1] = melToHertz(hertzToMel(highest))
	filters := make([]float32, frequencies*bins)
	width := float64(rate/2) / float64(frequencies-1)
	for k := range frequencies {
		frequency := float64(k) * width
		if k == frequencies-1 {
			frequency = float64(rate / 2)
		}
		for b := range bins {
			rising := -(edges[b] - frequency) / (edges[b+1] - edges[b])
			falling := (edges[b+2] - frequency) / (edges[b+2] - edges[b+1])
			area := 2 / (edges[b+2] - edges[b])
			filters[k*bins+b] = float32(max(0, min(rising, falling)) * area)
		}
	}
	return filters
}

// The mel scale of slaney is linear below 1000 Hz, which is 15 mel.
const (
	linearHertz = 1000
	linearMel   = 15
)

func hertzToMel(f float64) float64 {
	if f < linearHertz {
		return 3 * f / 200
	}
	return linearMel + math.Log(f/linearHertz)*(27/math.Log(6.4))
}

func melToHertz(m float64) float64 {
	if m < linearMel {
		return 200 * m / 3
	}
	return linearHertz * math.Exp(math.Log(6.4)/27*(m-linearMel))
}

// fileFields are the settings in a file, by their names there. Those that follow from others are
// written but not read.
func (o *FeatureExtractorOptions) fileFields() map[string]any {
	return map[string]any{"feature_size": &o.FeatureSize, "sampling_rate": &o.SamplingRate, "hop_length": &o.HopLength,
		"chunk_length": &o.ChunkLength, "n_fft": &o.NFFT, "padding_value": &o.PaddingValue, "dither": &o.Dither}
}

// ParseFeatureExtractorConfig reads preprocessor_config.json of a Whisper. Filters in it, which older
// files have, are left out: they follow from the other settings.
func ParseFeatureExtractorConfig(text []byte) (o FeatureExtractorOptions, err error) {
	if o.Extra, err = parseSettings(text, featureExtractorType, o.fileFields()); err != nil {
		return FeatureExtractorOptions{}, err
	}
	for _, name := range []string{"mel_filters", "n_samples", "nb_max_frames"} {
		delete(o.Extra, name)
	}
	return o, nil
}

// MarshalJSON writes the settings as transformers does.
func (e *FeatureExtractor) MarshalJSON() ([]byte, error) {
	all := map[string]any{"return_attention_mask": false}
	for name, value := range e.options.Extra {
		all[name] = value
	}
	maps.Copy(all, e.options.fileFields())
	maps.Copy(all, map[string]any{"feature_extractor_type": featureExtractorType, "padding_side": "right",
		"n_samples": e.samples(), "nb_max_frames": e.Frames()})
	return json.Marshal(all)
}
