package electra

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Chooser gives each of several texts one number.
type Chooser struct {
	Summary    *Summary   `module:"sequence_summary"`
	Classifier *nn.Linear `module:"classifier"`
}

// Summary is ElectraSequenceSummary: a linear layer and GELU over the first token.
type Summary struct {
	Summary     *nn.Linear  `module:"summary"`
	LastDropout *nn.Dropout `module:"last_dropout"`
}

func newChooser(c Config, b transformer.Builder) *Chooser {
	return &Chooser{
		Summary:    &Summary{b.Linear(c.HiddenSize, c.HiddenSize), nn.NewDropout(*c.SummaryLastDropout)},
		Classifier: b.Linear(c.HiddenSize, 1),
	}
}

// Forward maps hidden states, [B, L, hidden], to [B, 1].
func (c *Chooser) Forward(hidden torch.Tensor) torch.Tensor {
	s := c.Summary
	return c.Classifier.Forward(s.LastDropout.Forward(s.Summary.Forward(hidden.Select(1, 0)).GELU("none")))
}
