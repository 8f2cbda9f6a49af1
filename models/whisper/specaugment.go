package whisper

import (
	"github.com/gotrainer/gotrainer/models/internal/specaugment"
	"github.com/gotrainer/gotrainer/torch"
)

// specAugment replaces spans of frames and of bins in features, [B, bins, frames], by zeros:
// SpecAugment (Park et al., 2019). The masks are those of numpy's global generator in transformers,
// for features without an attention mask.
func (m *Model) specAugment(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		shape, settings := x.Shape(), m.Encoder.config.SpecAugment
		numbers := specaugment.NumpyOf(m.masks)
		defer numbers.Keep()
		if *settings.MaskTimeProb > 0 {
			mask := specaugment.Time(settings).Draw(numbers, shape[0], shape[2], nil)
			x = x.MaskedFill(torch.From(mask, shape[0], 1, shape[2]).ToDevice(x.Device()), 0)
		}
		if *settings.MaskFeatureProb > 0 {
			mask := specaugment.Feature(settings).Draw(numbers, shape[0], shape[1], nil)
			x = x.MaskedFill(torch.From(mask, shape[0], shape[1], 1).ToDevice(x.Device()), 0)
		}
		return x
	})
}
