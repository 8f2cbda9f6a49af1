package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// RNNOptions configures [NewLSTM] and [NewGRU]. Nil and the zero value mean PyTorch's defaults.
type RNNOptions struct {
	Layers        int64         // zero means 1
	NoBias        bool          // leave the biases out
	BatchFirst    bool          // x is [N, L, in] and not [L, N, in]; states are not affected
	Dropout       float64       // behind every layer but the last, while training
	Bidirectional bool          // a second direction runs from the end
	Factory       torch.Options // dtype, device and generator of the parameters
}

// recurrent is what LSTM and GRU have in common.
type recurrent struct {
	Mode

	op           string
	input, units int64
	layers       int64
	directions   int64
	options      RNNOptions
	params       []torch.Named // per layer and direction: w_ih, w_hh, b_ih, b_hh
	weights      []torch.Tensor
}

func newRecurrent(op string, gates, input, units int64, o RNNOptions) recurrent {
	o.Layers = or(o.Layers, 1)
	mustBePositive("New"+op, "in", input)
	mustBePositive("New"+op, "hidden", units)
	mustBePositive("New"+op, "Layers", o.Layers)
	checkProbability("New"+op, "Dropout", o.Dropout)
	r := recurrent{op: op, input: input, units: units, layers: o.Layers, directions: 1, options: o}
	if o.Bidirectional {
		r.directions = 2
	}
	bound := 1 / math.Sqrt(float64(units))
	add := func(name string, shape ...int64) {
		t := Parameter(initialize.Uniform(o.Factory.Empty(shape...), -bound, bound, o.Factory.Generator))
		r.params = append(r.params, torch.Named{Name: name, Tensor: t})
		r.weights = append(r.weights, t)
	}
	for layer := range r.layers {
		in := input
		if layer > 0 {
			in = units * r.directions
		}
		for _, suffix := range []string{"", "_reverse"}[:r.directions] {
			add(fmt.Sprintf("weight_ih_l%d%s", layer, suffix), gates*units, in)
			add(fmt.Sprintf("weight_hh_l%d%s", layer, suffix), gates*units, units)
			if !o.NoBias {
				add(fmt.Sprintf("bias_ih_l%d%s", layer, suffix), gates*units)
				add(fmt.Sprintf("bias_hh_l%d%s", layer, suffix), gates*units)
			}
		}
	}
	return r
}

// OwnParams lists the parameters under PyTorch's names: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then those of the
// reverse direction and of the other layers.
func (r *recurrent) OwnParams() []torch.Named { return slices.Clone(r.params) }

func (r *recurrent) call() torch.RNNOptions {
	return torch.RNNOptions{
		HasBiases: !r.options.NoBias, Layers: r.layers, Dropout: r.options.Dropout, Training: r.Training(),
		Bidirectional: r.options.Bidirectional, BatchFirst: r.options.BatchFirst,
	}
}

// run checks the input and the states, gives those that are undefined zeros, and runs f; an unbatched input gets a batch for
// the time. f returns the output and the last states.
func (r *recurrent) run(x torch.Tensor, states []torch.Tensor, f func(x torch.Tensor, states []torch.Tensor) []torch.Tensor) []torch.Tensor {
	shape := x.Shape()
	if len(shape) != 2 && len(shape) != 3 {
		panic(mistake(r.op, torch.ErrInvalid, "want an input of 2 dimensions, or 3 with a batch, found %v", shape))
	}
	if in := shape[len(shape)-1]; in != r.input {
		panic(mistake(r.op, torch.ErrInvalid, "want an input with %d features in the last dimension, found %v", r.input, shape))
	}
	unbatched, batchDim := len(shape) == 2, int64(1)
	if r.options.BatchFirst {
		batchDim = 0
	}
	batch := int64(1)
	if !unbatched {
		batch = shape[batchDim]
	}
	var made []torch.Tensor // by us, for the call
	temporary := func(t torch.Tensor) torch.Tensor { made = append(made, t); return t }
	if unbatched {
		x = temporary(x.Unsqueeze(batchDim))
	}
	states = slices.Clone(states)
	for i, s := range states {
		want := []int64{r.layers * r.directions, batch, r.units}
		if !s.Defined() {
			states[i] = temporary(torch.Options{DType: x.DType(), Device: x.Device()}.Zeros(want...))
			continue
		}
		if unbatched {
			want = []int64{want[0], want[2]}
		}
		if found := s.Shape(); !slices.Equal(found, want) {
			panic(mistake(r.op, torch.ErrInvalid, "want a state of shape %v, found %v", want, found))
		}
		if unbatched {
			states[i] = temporary(s.Unsqueeze(1))
		}
	}
	out := f(x, states)
	for _, t := range made {
		t.Free()
	}
	if unbatched {
		for i, t := range out {
			dim := int64(1)
			if i == 0 {
				dim = batchDim
			}
			out[i] = t.SqueezeDim(dim)
			t.Free()
		}
	}
	return out
}

// LSTM is a long short-term memory: torch.nn.LSTM, without projections.
type LSTM struct{ recurrent }

// NewLSTM makes an LSTM from in features to hidden units per direction, drawn uniformly from ±1/sqrt(hidden).
func NewLSTM(in, hidden int64, o *RNNOptions) *LSTM {
	return &LSTM{newRecurrent("LSTM", 4, in, hidden, deref(o))}
}

// Forward returns the outputs of the last layer, from zero states: [L, N, in] to [L, N, directions*hidden], [N, L, ...] with
// BatchFirst, without N for a single sequence.
func (l *LSTM) Forward(x torch.Tensor) torch.Tensor {
	y, h, c := l.ForwardState(x, torch.Tensor{}, torch.Tensor{})
	h.Free()
	c.Free()
	return y
}

// ForwardState runs from the states h0 and c0, [layers*directions, N, hidden], undefined for zeros, and also returns the last ones.
func (l *LSTM) ForwardState(x, h0, c0 torch.Tensor) (y, h, c torch.Tensor) {
	out := l.run(x, []torch.Tensor{h0, c0}, func(x torch.Tensor, s []torch.Tensor) []torch.Tensor {
		y, h, c := x.LSTM(s[0], s[1], l.weights, l.call())
		return []torch.Tensor{y, h, c}
	})
	return out[0], out[1], out[2]
}

// GRU is a gated recurrent unit: torch.nn.GRU.
type GRU struct{ recurrent }

// NewGRU makes a GRU from in features to hidden units per direction, drawn uniformly from ±1/sqrt(hidden).
func NewGRU(in, hidden int64, o *RNNOptions) *GRU {
	return &GRU{newRecurrent("GRU", 3, in, hidden, deref(o))}
}

// Forward returns the outputs of the last layer, from a zero state, in the shapes of [LSTM.Forward].
func (g *GRU) Forward(x torch.Tensor) torch.Tensor {
	y, h := g.ForwardState(x, torch.Tensor{})
	h.Free()
	return y
}

// ForwardState runs from the state h0, [layers*directions, N, hidden], undefined for zeros, and also returns the last one.
func (g *GRU) ForwardState(x, h0 torch.Tensor) (y, h torch.Tensor) {
	out := g.run(x, []torch.Tensor{h0}, func(x torch.Tensor, s []torch.Tensor) []torch.Tensor {
		y, h := x.GRU(s[0], g.weights, g.call())
		return []torch.Tensor{y, h}
	})
	return out[0], out[1]
}
