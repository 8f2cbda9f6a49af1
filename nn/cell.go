package nn

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// CellOptions configures [NewRNNCell], [NewLSTMCell] and [NewGRUCell]. Nil and the zero value mean
// PyTorch's defaults.
type CellOptions struct {
	NoBias       bool                // omit the biases
	Nonlinearity Nonlinearity        // nonlinearity of an RNNCell; empty means TanhNonlinearity
	Factory      torch.TensorOptions // dtype, device and generator of the parameters
}

// Cell is one step of a recurrent layer. It is the common part of [RNNCell], [LSTMCell] and
// [GRUCell].
type Cell struct {
	WeightIH torch.Tensor `param:"weight_ih"` // [gates*hidden, in]
	WeightHH torch.Tensor `param:"weight_hh"` // [gates*hidden, hidden]
	BiasIH   torch.Tensor `param:"bias_ih"`   // [gates*hidden]; undefined without bias
	BiasHH   torch.Tensor `param:"bias_hh"`   // [gates*hidden]; undefined without bias

	traced
}

func newCell(op string, gates, in, hidden int64, o CellOptions) Cell {
	mustBePositive(op, "in", in)
	mustBePositive(op, "hidden", hidden)
	if o.Nonlinearity != "" && op != "NewRNNCell" {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "Nonlinearity is for an RNNCell, found %q", o.Nonlinearity))
	}
	bound := 1 / math.Sqrt(float64(hidden))
	draw := func(shape ...int64) torch.Tensor {
		return Parameter(initialize.Uniform(o.Factory.Empty(shape...), -bound, bound, o.Factory.Generator))
	}
	c := Cell{WeightIH: draw(gates*hidden, in), WeightHH: draw(gates*hidden, hidden)}
	if !o.NoBias {
		c.BiasIH, c.BiasHH = draw(gates*hidden), draw(gates*hidden)
	}
	return c
}

// step runs an operator on an input, [N, in] or [in], and states, [N, hidden] or [hidden].
// Undefined states mean zeros.
func (c *Cell) step(name, op string, x torch.Tensor, states ...torch.Tensor) (out []torch.Tensor) {
	given, shape := x, x.Shape()
	if d := len(shape); d != 1 && d != 2 {
		panic(torch.Errorf("nn."+name, torch.ErrInvalid, "want an input of 1 dimension, or 2 with a batch, found %v",
			shape))
	}
	unbatched := len(shape) == 1
	var made []torch.Tensor // temporaries of this call
	temporary := func(t torch.Tensor) torch.Tensor { made = append(made, t); return t }
	if unbatched {
		x = temporary(x.Unsqueeze(0))
	}
	for i, s := range states {
		switch {
		case !s.Defined():
			states[i] = temporary(torch.TensorOptions{DType: x.DType(), Device: x.Device()}.Zeros(x.Size(0),
				c.WeightHH.Size(1)))
		case s.Dim() != len(shape):
			panic(torch.Errorf("nn."+name, torch.ErrInvalid,
				"want a state of %d dimensions, as the input has, found %v",
				len(shape), s.Shape()))
		case unbatched:
			states[i] = temporary(s.Unsqueeze(0))
		}
	}
	var hx any = states[0]
	if len(states) > 1 {
		hx = states
	}
	out = torch.Call(op, x, hx, c.WeightIH, c.WeightHH, c.BiasIH, c.BiasHH)
	for _, t := range made {
		t.Free()
	}
	if unbatched {
		for i, t := range out {
			out[i] = t.SqueezeDim(0)
			t.Free()
		}
	}
	c.trace(given, out[0])
	return out
}

// RNNCell is one step of an [RNN]: torch.nn.RNNCell.
type RNNCell struct {
	Cell

	nonlinearity Nonlinearity
}

// NewRNNCell makes an RNNCell from in features to hidden units, drawn uniformly from
// ±1/sqrt(hidden).
func NewRNNCell(in, hidden int64, o *CellOptions) *RNNCell {
	opt := deref(o)
	n := cmp.Or(opt.Nonlinearity, TanhNonlinearity)
	if n != TanhNonlinearity && n != ReLUNonlinearity {
		panic(torch.Errorf("nn.NewRNNCell", torch.ErrValue, "Nonlinearity %q is not known; want tanh or relu", n))
	}
	return &RNNCell{newCell("NewRNNCell", 1, in, hidden, opt), n}
}

// Forward maps [N, in] and the state, [N, hidden], to the next state. An undefined state means
// zeros.
func (c *RNNCell) Forward(x, h torch.Tensor) torch.Tensor {
	return c.step("RNNCell", "aten::rnn_"+string(c.nonlinearity)+"_cell", x, h)[0]
}

// LSTMCell is one step of an [LSTM]: torch.nn.LSTMCell.
type LSTMCell struct{ Cell }

// NewLSTMCell makes an LSTMCell from in features to hidden units, drawn uniformly from
// ±1/sqrt(hidden).
func NewLSTMCell(in, hidden int64, o *CellOptions) *LSTMCell {
	return &LSTMCell{newCell("NewLSTMCell", 4, in, hidden, deref(o))}
}

// Forward maps [N, in] and the states, [N, hidden], to the next states. Undefined states mean
// zeros.
func (l *LSTMCell) Forward(x, h, c torch.Tensor) (nextH, nextC torch.Tensor) {
	out := l.step("LSTMCell", "aten::lstm_cell", x, h, c)
	return out[0], out[1]
}

// GRUCell is one step of a [GRU]: torch.nn.GRUCell.
type GRUCell struct{ Cell }

// NewGRUCell makes a GRUCell from in features to hidden units, drawn uniformly from
// ±1/sqrt(hidden).
func NewGRUCell(in, hidden int64, o *CellOptions) *GRUCell {
	return &GRUCell{newCell("NewGRUCell", 3, in, hidden, deref(o))}
}

// Forward maps [N, in] and the state, [N, hidden], to the next state. An undefined state means
// zeros.
func (g *GRUCell) Forward(x, h torch.Tensor) torch.Tensor {
	return g.step("GRUCell", "aten::gru_cell", x, h)[0]
}
