package audio

import (
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// The filter of torchaudio's defaults.
const (
	lowpassFilterWidth = 6
	rolloff            = 0.99
)

// maxKernel is the most numbers that a filter has. It has that many only for two rates without a
// common divisor, which no recorder has.
const maxKernel = 1 << 24

// Resample returns the sound at another rate: torchaudio.functional.resample with its defaults
// (sinc_interp_hann). It returns a itself if it has the rate already.
func (a *Audio) Resample(rate int) (*Audio, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	out := &Audio{Rate: rate}
	if err := out.check(); err != nil {
		return nil, err
	}
	if rate == a.Rate {
		return a, nil
	}
	divisor := gcd(int64(a.Rate), int64(rate))
	from, to := int64(a.Rate)/divisor, int64(rate)/divisor
	base := float64(min(from, to)) * rolloff
	width := int64(math.Ceil(lowpassFilterWidth * float64(from) / base))
	if to*(2*width+from) > maxKernel {
		return nil, fmt.Errorf("audio: a rate of %d cannot be changed to %d, since they have too small a common divisor, "+
			"%d; record at 8000, 16000, 44100 or 48000, or convert the file first", a.Rate, rate, divisor)
	}
	if len(a.Samples) == 0 {
		return out, nil
	}
	err := torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() { out.Samples = resample(a.Samples, from, to, width, base) })
		})
	})
	if err != nil {
		return nil, fmt.Errorf("audio: %w", err)
	}
	return out, nil
}

// resample changes the rate from from to to, which have no common divisor.
func resample(samples []float32, from, to, width int64, base float64) []float32 {
	n := int64(len(samples))
	x := torch.From(samples, 1, n).Pad(0, width, width+from)
	y := x.Unsqueeze(1).Conv1d(sinc(from, to, width, base), torch.Tensor{}, torch.ConvOptions{Stride: []int64{from},
		Padding: []int64{0}, Dilation: []int64{1}, Groups: 1})
	y = y.Transpose(1, 2).Reshape(-1)
	length := int64(math.Ceil(float64(float32(float64(to*n) / float64(from))))) // a float32 as in torchaudio
	return torch.Values[float32](y.Narrow(0, 0, min(length, y.Size(0))))
}

// sinc returns the filters, [to, 1, 2·width+from].
func sinc(from, to, width int64, base float64) torch.Tensor {
	number := torch.TensorOptions{DType: torch.Float32}
	at := number.Arange(-width, width+from, 1).DivScalar(float64(from))
	t := number.Arange(0, -to, -1).View(to, 1, 1).DivScalar(float64(to)).Add(at)
	t = t.MulScalar(base).Clamp(-lowpassFilterWidth, lowpassFilterWidth)
	window := t.MulScalar(math.Pi).DivScalar(lowpassFilterWidth).DivScalar(2).Cos().PowScalar(2)
	t = t.MulScalar(math.Pi)
	filters := torch.Where(t.EqScalar(0), t.FullLike(1), t.Sin().Div(t))
	return filters.Mul(window.MulScalar(base / float64(from)))
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
