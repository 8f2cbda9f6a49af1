package audio

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
)

// WaveformOptions configures a [WaveformExtractor] with the settings of transformers'
// Wav2Vec2FeatureExtractor. A zero field means its default there.
type WaveformOptions struct {
	SamplingRate int     // samples in a second; zero: 16000
	PaddingValue float64 // of samples after the end of a sound in a batch
	// DoNormalize gives the samples of a sound a mean of 0 and a variance of 1; nil: true.
	DoNormalize *bool
	// ReturnAttentionMask makes batches tell the model where padding is. Models whose
	// feat_extract_norm is "group" were trained without.
	ReturnAttentionMask bool

	// Extra holds the other settings of preprocessor_config.json. They are written back.
	Extra map[string]json.RawMessage
}

// WaveformExtractor prepares sound for models that take its samples: Wav2Vec2FeatureExtractor of
// transformers, bit for bit. Several goroutines may use it at a time.
type WaveformExtractor struct{ options WaveformOptions }

// waveformExtractorType is the class of transformers.
const waveformExtractorType = "Wav2Vec2FeatureExtractor"

// NewWaveformExtractor makes an extractor.
func NewWaveformExtractor(o WaveformOptions) (*WaveformExtractor, error) {
	if o.SamplingRate == 0 {
		o.SamplingRate = 16000
	}
	if o.DoNormalize == nil {
		o.DoNormalize = new(true)
	}
	switch {
	case o.SamplingRate < 1 || o.SamplingRate > maxRate:
		return nil, fmt.Errorf("audio: WaveformOptions.SamplingRate is %d; want 1 to %d", o.SamplingRate, maxRate)
	case math.IsNaN(o.PaddingValue) || math.IsInf(o.PaddingValue, 0):
		return nil, fmt.Errorf("audio: WaveformOptions.PaddingValue is %g; want a number", o.PaddingValue)
	}
	return &WaveformExtractor{o}, nil
}

// Options returns the settings, with the defaults filled in.
func (e *WaveformExtractor) Options() WaveformOptions { return e.options }

// Extract returns the samples of a sound as a model takes them. Sound of another rate is resampled,
// which needs libtorch.
func (e *WaveformExtractor) Extract(a *Audio) ([]float32, error) {
	a, err := a.Resample(e.options.SamplingRate)
	if err != nil {
		return nil, err
	}
	if len(a.Samples) == 0 {
		return nil, errors.New("audio: the sound has no samples; want at least one")
	}
	values := make([]float32, len(a.Samples))
	copy(values, a.Samples)
	if *e.options.DoNormalize {
		normalize(values)
	}
	return values, nil
}

// normalize gives numbers a mean of 0 and a variance of 1, with the arithmetic of numpy in float32.
func normalize(values []float32) {
	n := float32(len(values))
	mean := pairwiseSum(values) / n
	squares := make([]float32, len(values))
	for i, v := range values {
		values[i] = v - mean
		squares[i] = values[i] * values[i]
	}
	deviation := float32(math.Sqrt(float64(pairwiseSum(squares)/n + 1e-7)))
	for i := range values {
		values[i] /= deviation
	}
}

// pairwiseSum is numpy's sum of contiguous float32 numbers: blocks of 128 numbers are summed in
// eight interleaved parts, and the sums of halves are added.
func pairwiseSum(values []float32) float32 {
	const parts, block = 8, 128
	n := len(values)
	switch {
	case n < parts:
		var sum float32
		for _, v := range values {
			sum += v
		}
		return sum
	case n > block:
		half := n / 2
		half -= half % parts
		return pairwiseSum(values[:half]) + pairwiseSum(values[half:])
	}
	var r [parts]float32
	copy(r[:], values)
	i := parts
	for ; i < n-n%parts; i += parts {
		for k := range r {
			r[k] += values[i+k]
		}
	}
	sum := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for ; i < n; i++ {
		sum += values[i]
	}
	return sum
}

// fileFields are the settings in a file, by their names there.
func (o *WaveformOptions) fileFields() map[string]any {
	return map[string]any{"sampling_rate": &o.SamplingRate, "padding_value": &o.PaddingValue,
		"do_normalize": &o.DoNormalize, "return_attention_mask": &o.ReturnAttentionMask}
}

// ParseWaveformConfig reads preprocessor_config.json of a Wav2Vec2 or HuBERT.
func ParseWaveformConfig(text []byte) (o WaveformOptions, err error) {
	size := 1
	fields := o.fileFields()
	fields["feature_size"] = &size
	if o.Extra, err = parseSettings(text, waveformExtractorType, fields); err != nil {
		return WaveformOptions{}, err
	}
	if size != 1 {
		return WaveformOptions{}, fmt.Errorf("audio: %s: feature_size is %d; want 1, for samples of one channel", ConfigName,
			size)
	}
	return o, nil
}

// MarshalJSON writes the settings as transformers does.
func (e *WaveformExtractor) MarshalJSON() ([]byte, error) {
	all := map[string]any{}
	for name, value := range e.options.Extra {
		all[name] = value
	}
	maps.Copy(all, e.options.fileFields())
	maps.Copy(all, map[string]any{"feature_extractor_type": waveformExtractorType, "padding_side": "right",
		"feature_size": 1})
	return json.Marshal(all)
}
