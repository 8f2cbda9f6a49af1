package wav2vec2

import (
	"github.com/gotrainer/gotrainer/models/internal/specaugment"
	"github.com/gotrainer/gotrainer/torch"
)

// specAugment masks spans of frames and of features of hidden states, [B, frames, hidden], each row
// within its own number of frames; nil: all: SpecAugment (Park et al., 2019). Masks are those of
// numpy's global generator in transformers.
func (m *Model) specAugment(x torch.Tensor, counts []int64) torch.Tensor {
	c, shape := m.config, x.Shape()
	if *c.MaskTimeProb > 0 && c.MaskTimeLength > shape[1] {
		panic(torch.Errorf("wav2vec2.Model.Forward", torch.ErrInvalid, "the longest sound of the batch has %d frames; want "+
			"at least mask_time_length, %d, for SpecAugment in training (apply_spec_augment)", shape[1], c.MaskTimeLength))
	}
	return torch.Return(func() torch.Tensor {
		numbers := specaugment.NumpyOf(m.masks)
		defer numbers.Keep()
		if *c.MaskTimeProb > 0 {
			mask := specaugment.Time(c.SpecAugment).Draw(numbers, shape[0], shape[1], counts)
			rows := torch.From(mask, shape[0], shape[1]).ToDevice(x.Device())
			x = x.IndexPut([]torch.Tensor{rows}, m.MaskedSpecEmbed.ToDType(x.DType()), false)
		}
		if *c.MaskFeatureProb > 0 {
			mask := specaugment.Feature(c.SpecAugment).Draw(numbers, shape[0], shape[2], nil)
			x = x.MaskedFill(torch.From(mask, shape[0], 1, shape[2]).ToDevice(x.Device()), 0)
		}
		return x
	})
}
