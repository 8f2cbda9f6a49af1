package crnn

import (
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// Reading is what a model reads in a picture.
type Reading struct {
	Text  string
	Score float64 // mean probability of the best class over all frames, as Hezar's
}

// Read reads pictures, each in the form of [Sample].Pixels, all in one batch and in evaluation mode. A model that is being trained
// must not be read at the same time.
func (m *Model) Read(pictures ...[]float32) (readings []Reading, err error) {
	if len(pictures) == 0 {
		return nil, nil
	}
	c := m.config
	all := make([]float32, 0, len(pictures)*c.pixels())
	for i, p := range pictures {
		if len(p) != c.pixels() {
			return nil, fmt.Errorf("crnn: picture %d has %d values; the model wants %d x %d x %d = %d", i, len(p), c.Channels, c.ImageHeight, c.ImageWidth, c.pixels())
		}
		all = append(all, p...)
	}
	nn.SetTraining(m, false)
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() {
				x := torch.From(all, int64(len(pictures)), c.Channels, c.ImageHeight, c.ImageWidth).ToDevice(m.Map2Seq.Weight.Device())
				readings = m.readings(m.Forward(x))
			})
		})
	})
	return readings, err
}

// readings decodes log-probabilities, [frames, rows, classes], greedily: the best class of each frame, repeats merged, blanks left out.
func (m *Model) readings(logProbs torch.Tensor) []Reading {
	best, classes := logProbs.MaxDim(2, false)
	frames, rows := int(classes.Size(0)), int(classes.Size(1))
	ids := torch.Values[int64](classes)
	scores := torch.Values[float32](best.Exp().MeanDim([]int64{0}, false, torch.DefaultDType))
	out := make([]Reading, rows)
	for r := range out {
		var label strings.Builder
		previous := int64(-1)
		for f := range frames {
			id := ids[f*rows+r]
			if id != previous && id != blank {
				label.WriteString(m.config.Charset[id])
			}
			previous = id
		}
		out[r] = Reading{m.turned(label.String()), float64(scores[r])}
	}
	return out
}

// turned makes of a label what the model learns, and of what it has learnt the label: turning digits round undoes itself.
func (m *Model) turned(label string) string {
	if !m.config.ReverseDigits {
		return label
	}
	return text.ReverseDigits(label)
}
