package crnn

import (
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// InitFromScratch redraws all weights so that signals keep their size from the pixels to the
// classes. With PyTorch's defaults, which New uses like Hezar, they shrink at each layer: hardly
// any of the picture reaches the classes of an untrained model, and CTC predicts only blanks for a
// long time before it starts to learn. Convolutions are drawn as in He et al. (2015), and the
// linear layers and the inputs of the LSTMs as in Glorot and Bengio (2010). The recurrent weights
// are orthogonal, and forget gates start open (Jozefowicz et al., 2015).
func (m *Model) InitFromScratch() {
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, layer := range m.CNN {
				if b, ok := layer.(*ConvBlock); ok {
					initialize.KaimingNormal(b.Conv.Weight, initialize.KaimingOptions{Nonlinearity: initialize.ReLU})
					initialize.Zeros(b.Conv.Bias)
				}
			}
			for _, l := range []*nn.Linear{m.Map2Seq, m.Classifier} {
				initialize.XavierUniform(l.Weight, 1, nil)
				initialize.Zeros(l.Bias)
			}
			for _, rnn := range []*nn.LSTM{m.RNN1, m.RNN2} {
				for _, p := range nn.Params(rnn) {
					initLSTM(p, m.config.RNNDim)
				}
			}
		})
	})
}

// initLSTM draws one parameter, whose rows belong to the input, forget, cell and output gates.
func initLSTM(p torch.Named, hidden int64) {
	gate := func(i int64) torch.Tensor { return p.Tensor.Narrow(0, i*hidden, hidden) }
	for i := range int64(4) {
		switch {
		case strings.HasPrefix(p.Name, "weight_ih"):
			initialize.XavierUniform(gate(i), 1, nil)
		case strings.HasPrefix(p.Name, "weight_hh"):
			initialize.Orthogonal(gate(i), 1, nil)
		default:
			initialize.Zeros(gate(i))
		}
	}
	if strings.HasPrefix(p.Name, "bias_ih") {
		initialize.Ones(gate(1))
	}
}
