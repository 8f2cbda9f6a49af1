package inputs

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Waveform is sound as the samples that a model takes, such as those of an audio.WaveformExtractor.
type Waveform struct {
	Values []float32
}

// Convolution is a convolution of a feature encoder, without padding.
type Convolution struct{ Kernel, Stride int64 }

// WaveformLimits says which sound a model takes, and how batches of it are padded.
type WaveformLimits struct {
	Convolutions []Convolution // that make frames of samples
	// Masked makes batches tell the model where padding is: return_attention_mask of the feature
	// extractor. Otherwise the model takes padding for sound.
	Masked       bool
	PaddingValue float64 // of samples after the end of a sound
}

// Frames returns the number of frames that the model makes of samples; 0 or less: they are too few.
func (l WaveformLimits) Frames(samples int64) int64 {
	for _, c := range l.Convolutions {
		if samples < c.Kernel {
			return 0
		}
		samples = (samples-c.Kernel)/c.Stride + 1
	}
	return samples
}

// Shortest returns the smallest number of samples, of which the model makes one frame.
func (l WaveformLimits) Shortest() int64 {
	samples := int64(1)
	for i := len(l.Convolutions) - 1; i >= 0; i-- {
		samples = (samples-1)*l.Convolutions[i].Stride + l.Convolutions[i].Kernel
	}
	return samples
}

// WaveformBatch is some sound, padded to one length.
type WaveformBatch struct {
	Values  []float32
	Shape   []int64 // rows and samples
	Lengths []int64 // the samples of each row that are no padding; nil: the model takes all for sound
}

// Collate pads sound on the right to a batch and refuses what a model with these limits cannot
// take. Errors begin with the name of the task's package. memory returns a slice of n numbers for
// the samples.
func (l WaveformLimits) Collate(pkg string, sounds []Waveform, memory func(n int) []float32) (b WaveformBatch,
	err error) {
	longest, shortest := 0, l.Shortest()
	for i, s := range sounds {
		if int64(len(s.Values)) < shortest {
			return b, &SampleError{pkg, i, fmt.Sprintf("Values has %d samples; the model takes at least %d, of which it makes "+
				"one frame", len(s.Values), shortest)}
		}
		longest = max(longest, len(s.Values))
	}
	b = WaveformBatch{Values: memory(len(sounds) * longest), Shape: []int64{int64(len(sounds)), int64(longest)}}
	for i, s := range sounds {
		row := b.Values[i*longest : (i+1)*longest]
		for k := copy(row, s.Values); k < longest; k++ {
			row[k] = float32(l.PaddingValue)
		}
		if l.Masked {
			b.Lengths = append(b.Lengths, int64(len(s.Values)))
		}
	}
	return b, nil
}

// To copies the samples to the device of a pass, [B, samples].
func (b WaveformBatch) To(p engine.ForwardPass) torch.Tensor {
	return engine.Input(p, b.Values, b.Shape...)
}

// Frames returns the number of frames that a model with some limits makes of each row, without
// those of padding if it is masked.
func (b WaveformBatch) Frames(l WaveformLimits) []int64 {
	frames := make([]int64, b.Shape[0])
	for i := range frames {
		samples := b.Shape[1]
		if b.Lengths != nil {
			samples = b.Lengths[i]
		}
		frames[i] = l.Frames(samples)
	}
	return frames
}

// Tokens counts the samples of a batch, and those that are known not to be padding.
func (b WaveformBatch) Tokens() (all, nonPadding int64) {
	all = b.Shape[0] * b.Shape[1]
	if b.Lengths == nil {
		return all, all
	}
	for _, n := range b.Lengths {
		nonPadding += n
	}
	return all, nonPadding
}

// WaveformModel is what the tasks of all models that hear sound need.
type WaveformModel interface {
	// Forward maps the samples of sound, [B, samples], to logits. lengths are the samples of each row
	// that are no padding; nil means that there is none.
	Forward(values torch.Tensor, lengths []int64) torch.Tensor
	WaveformLimits() WaveformLimits
	// MaskGenerator is the generator of the masks that the model draws over its input in training
	// (SpecAugment); nil: it draws none.
	MaskGenerator() *torch.Generator

	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// WaveformTask is embedded in the tasks of models that hear sound.
type WaveformTask struct{ Heard WaveformModel }

// WriteConfig writes config.json into a folder.
func (t WaveformTask) WriteConfig(dir string) error { return t.Heard.WriteConfig(dir) }

// TakeSeed is [MaskTask.TakeSeed].
func (t WaveformTask) TakeSeed(seed uint64) { MaskTask{t.Heard.MaskGenerator()}.TakeSeed(seed) }

// Generators is [MaskTask.Generators].
func (t WaveformTask) Generators() map[string]*torch.Generator {
	return MaskTask{t.Heard.MaskGenerator()}.Generators()
}

// ValidateOptions refuses noise on token embeddings, which sound does not have.
func (t WaveformTask) ValidateOptions(o engine.Options) error {
	if o.NEFTuneAlpha != 0 {
		return fmt.Errorf("engine.Options.NEFTuneAlpha is %g; want 0: its noise is for embeddings of tokens, and this "+
			"model hears sound", o.NEFTuneAlpha)
	}
	return nil
}
