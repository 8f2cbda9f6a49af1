package crnn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/vision"
)

// Reading is the text that a model reads in a picture.
type Reading struct {
	Text  string
	Score float64 // mean probability of the best class over all frames, as in Hezar
}

// Read reads pictures, each in the form of [Sample].Pixels, in one batch and in evaluation mode;
// the mode of the model does not change. Several goroutines may read with one model at the same
// time, but not while it is trained.
func (m *Model) Read(pictures ...[]float32) (readings []Reading, err error) {
	if len(pictures) == 0 {
		return nil, nil
	}
	c := m.config
	all := make([]float32, 0, len(pictures)*c.pixels())
	for i, p := range pictures {
		if len(p) != c.pixels() {
			return nil, fmt.Errorf("crnn: picture %d has %d values; the model wants %d x %d x %d = %d", i, len(p),
				c.Channels, c.ImageHeight, c.ImageWidth, c.pixels())
		}
		all = append(all, p...)
	}
	err = torch.Try(func() {
		nn.Evaluating(m, func() {
			torch.NoGrad(func() {
				torch.Scope(func() {
					x := torch.From(all, int64(len(pictures)), c.Channels, c.ImageHeight,
						c.ImageWidth).ToDevice(m.Map2Seq.Weight.Device())
					readings = m.readings(m.Forward(x))
				})
			})
		})
	})
	return readings, err
}

// ReadPictures reads pictures of any size, in one batch: paths of files, []byte, image.Image and
// *vision.Image. See [Model.Read].
func (m *Model) ReadPictures(pictures ...any) ([]Reading, error) {
	prepared := make([][]float32, len(pictures))
	for i, picture := range pictures {
		image, err := m.config.FitImage(picture, vision.Bicubic)
		if err == nil {
			prepared[i], err = m.config.Pixels(image)
		}
		if err != nil {
			return nil, err
		}
	}
	return m.Read(prepared...)
}

// readings decodes log-probabilities, [frames, rows, classes], greedily: the best class of each
// frame, repeats merged, blanks left out.
func (m *Model) readings(logProbs torch.Tensor) []Reading {
	_, classes := logProbs.MaxDim(2, false)
	// Normalized again, as Hezar does.
	best, _ := logProbs.Permute(1, 0, 2).Softmax(2, torch.DefaultDType).MaxDim(2, false)
	frames, rows := int(classes.Size(0)), int(classes.Size(1))
	ids := torch.Values[int64](classes)
	scores := torch.Values[float32](best.MeanDim([]int64{1}, false, torch.DefaultDType))
	out := make([]Reading, rows)
	column := make([]int64, frames)
	for r := range out {
		for f := range column {
			column[f] = ids[f*rows+r]
		}
		out[r] = Reading{m.Text(Greedy(column)), float64(scores[r])}
	}
	return out
}

// Greedy makes a label from the best class of each frame: repeats are merged, and blanks, class 0,
// are removed.
func Greedy(frames []int64) []int64 {
	var label []int64
	previous := int64(blank)
	for _, id := range frames {
		if id != previous && id != blank {
			label = append(label, id)
		}
		previous = id
	}
	return label
}

// Readings returns the readings of log-probabilities returned by Forward, [frames, rows, classes].
func (m *Model) Readings(logProbs torch.Tensor) (readings []Reading) {
	torch.NoGrad(func() { torch.Scope(func() { readings = m.readings(logProbs) }) })
	return readings
}

// ReadRows returns the readings of log-probabilities with rows first, [rows, frames, classes], as
// in predictions.
func (m *Model) ReadRows(logProbs torch.Tensor) (readings []Reading) {
	torch.NoGrad(func() { torch.Scope(func() { readings = m.readings(logProbs.Permute(1, 0, 2)) }) })
	return readings
}

// Loss returns the CTC loss of log-probabilities, [frames, rows, classes], for labels padded with
// blanks, [rows, length]. It is averaged as in Hezar: each row's loss is divided by the length of
// its label, then averaged over rows. A row whose label cannot be aligned counts as 0.
func (m *Model) Loss(logProbs, labels torch.Tensor) torch.Tensor { return ctc(logProbs, labels, blank) }

// ctc is like Loss, for padded labels.
func ctc(logProbs, labels torch.Tensor, padding float64) torch.Tensor {
	frames := slices.Repeat([]int64{logProbs.Size(0)}, int(logProbs.Size(1)))
	counts := labels.NeScalar(padding)
	return logProbs.CTCLoss(labels.MaskedSelect(counts), torch.From(frames), counts.SumDim([]int64{1}, false,
		torch.Int64), blank, torch.ReductionMean, true)
}

// reversed converts a label to the form that the model learns, or back: reversing the digits twice
// restores the label.
func (m *Model) reversed(label string) string {
	if !m.config.ReverseDigits {
		return label
	}
	return text.ReverseDigits(label)
}

// Text returns the text of a label: the characters of its classes, without blanks, with runs of
// digits reversed if the model reads them in reverse.
func (m *Model) Text(label []int64) string {
	var b strings.Builder
	for _, id := range label {
		if id > 0 && id < int64(len(m.config.Charset)) {
			b.WriteString(m.config.Charset[id])
		}
	}
	return m.reversed(b.String())
}
