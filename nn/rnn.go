package nn

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// RNNOptions configures [NewRNN], [NewLSTM] and [NewGRU]. Nil and the zero value mean PyTorch's
// defaults.
type RNNOptions struct {
	Layers        int64   // zero means 1
	NoBias        bool    // omit the biases
	BatchFirst    bool    // x is [N, L, in] instead of [L, N, in]; states are not affected
	Dropout       float64 // after every layer but the last, while training
	Bidirectional bool    // a second direction runs from the end
	// an LSTM's outputs and states h are projected to this size, less than hidden; zero means no
	// projection
	ProjSize     int64
	Nonlinearity Nonlinearity        // nonlinearity of an RNN; empty means TanhNonlinearity
	Factory      torch.TensorOptions // dtype, device and generator of the parameters
}

// recurrent is the common part of RNN, LSTM and GRU.
type recurrent struct {
	Mode

	op           string
	input, units int64
	layers       int64
	directions   int64
	options      RNNOptions
	params       []torch.Named // per layer and direction: w_ih, w_hh, b_ih, b_hh, w_hr
	weights      []torch.Tensor

	traced
}

func newRecurrent(op string, gates, input, units int64, o RNNOptions) recurrent {
	o.Layers = cmp.Or(o.Layers, 1)
	mustBePositive("New"+op, "in", input)
	mustBePositive("New"+op, "hidden", units)
	mustBePositive("New"+op, "Layers", o.Layers)
	checkProbability("New"+op, "Dropout", o.Dropout)
	if o.ProjSize != 0 && op != "LSTM" {
		panic(torch.Errorf("nn.New"+op, torch.ErrValue, "ProjSize is for an LSTM, found %d", o.ProjSize))
	}
	if o.Nonlinearity != "" && op != "RNN" {
		panic(torch.Errorf("nn.New"+op, torch.ErrValue, "Nonlinearity is for an RNN, found %q", o.Nonlinearity))
	}
	if o.ProjSize < 0 || o.ProjSize >= units {
		panic(torch.Errorf("nn.New"+op, torch.ErrValue, "ProjSize must be positive and less than hidden (%d), found %d",
			units,
			o.ProjSize))
	}
	r := recurrent{op: op, input: input, units: units, layers: o.Layers, directions: 1, options: o}
	if o.Bidirectional {
		r.directions = 2
	}
	bound := 1 / math.Sqrt(float64(units))
	add := func(name string, shape ...int64) {
		t := initialize.Uniform(o.Factory.Empty(shape...), -bound, bound, o.Factory.Generator).Keep().RequiresGrad()
		r.params = append(r.params, torch.Named{Name: name, Tensor: t})
		r.weights = append(r.weights, t)
	}
	for layer := range r.layers {
		in := input
		if layer > 0 {
			in = r.outputs() * r.directions
		}
		for _, suffix := range []string{"", "_reverse"}[:r.directions] {
			add(fmt.Sprintf("weight_ih_l%d%s", layer, suffix), gates*units, in)
			add(fmt.Sprintf("weight_hh_l%d%s", layer, suffix), gates*units, r.outputs())
			if !o.NoBias {
				add(fmt.Sprintf("bias_ih_l%d%s", layer, suffix), gates*units)
				add(fmt.Sprintf("bias_hh_l%d%s", layer, suffix), gates*units)
			}
			if o.ProjSize > 0 {
				add(fmt.Sprintf("weight_hr_l%d%s", layer, suffix), o.ProjSize, units)
			}
		}
	}
	r.FlattenParameters()
	return r
}

// outputs returns the number of output features of one direction.
func (r *recurrent) outputs() int64 { return cmp.Or(r.options.ProjSize, r.units) }

// OwnParams lists the parameters under PyTorch's names: weight_ih_l0, weight_hh_l0, bias_ih_l0,
// bias_hh_l0, weight_hr_l0 if there is a projection, then those of the reverse direction and of the
// other layers.
func (r *recurrent) OwnParams() []torch.Named { return slices.Clone(r.params) }

func (r *recurrent) call() torch.RNNOptions {
	return torch.RNNOptions{
		HasBiases: !r.options.NoBias, Layers: r.layers, Dropout: r.options.Dropout, Training: r.Training(),
		Bidirectional: r.options.Bidirectional, BatchFirst: r.options.BatchFirst,
	}
}

// run checks the input and the states, replaces undefined states by zeros, and calls f, which
// returns the output and the last states. An unbatched input gets a batch dimension during the
// call.
func (r *recurrent) run(x torch.Tensor, states []torch.Tensor, f func(x torch.Tensor,
	states []torch.Tensor) []torch.Tensor) []torch.Tensor {
	given, shape := x, x.Shape()
	if len(shape) != 2 && len(shape) != 3 {
		panic(torch.Errorf("nn."+r.op, torch.ErrInvalid, "want an input of 2 dimensions, or 3 with a batch, found %v",
			shape))
	}
	r.checkFeatures(shape)
	unbatched, batchDim := len(shape) == 2, int64(1)
	if r.options.BatchFirst {
		batchDim = 0
	}
	batch := int64(1)
	if !unbatched {
		batch = shape[batchDim]
	}
	var made []torch.Tensor // temporaries of this call
	if unbatched {
		x = x.Unsqueeze(batchDim)
		made = append(made, x)
	}
	states = slices.Clone(states)
	for i, s := range states {
		want := r.stateShape(i, batch)
		switch {
		case !s.Defined():
			states[i] = torch.TensorOptions{DType: x.DType(), Device: x.Device()}.Zeros(want...)
		case unbatched:
			r.checkState(s, []int64{want[0], want[2]})
			states[i] = s.Unsqueeze(1)
		default:
			r.checkState(s, want)
			continue
		}
		made = append(made, states[i])
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
	r.trace(given, out[0])
	return out
}

func (r *recurrent) checkFeatures(shape []int64) {
	if in := shape[len(shape)-1]; in != r.input {
		panic(torch.Errorf("nn."+r.op, torch.ErrInvalid, "want an input with %d features in the last dimension, "+
			"found %v", r.input,
			shape))
	}
}

// stateShape returns the shape of state number i: 0 is h, 1 is an LSTM's c, which is not projected.
func (r *recurrent) stateShape(i int, batch int64) []int64 {
	size := r.outputs()
	if i == 1 {
		size = r.units
	}
	return []int64{r.layers * r.directions, batch, size}
}

func (r *recurrent) checkState(s torch.Tensor, want []int64) {
	if found := s.Shape(); !slices.Equal(found, want) {
		panic(torch.Errorf("nn."+r.op, torch.ErrInvalid, "want a state of shape %v, found %v", want, found))
	}
}

// Nonlinearity is the activation of an [RNN].
type Nonlinearity string

// The nonlinearities of an [RNN].
const (
	TanhNonlinearity Nonlinearity = "tanh"
	ReLUNonlinearity Nonlinearity = "relu"
)

// RNN is an Elman network: torch.nn.RNN.
type RNN struct{ recurrent }

// NewRNN makes an RNN from in features to hidden units per direction, drawn uniformly from
// ±1/sqrt(hidden).
func NewRNN(in, hidden int64, o *RNNOptions) *RNN {
	opt := deref(o)
	switch opt.Nonlinearity = cmp.Or(opt.Nonlinearity, TanhNonlinearity); opt.Nonlinearity {
	case TanhNonlinearity, ReLUNonlinearity:
	default:
		panic(torch.Errorf("nn.NewRNN", torch.ErrValue, "Nonlinearity %q is not known; want tanh or relu",
			opt.Nonlinearity))
	}
	return &RNN{newRecurrent("RNN", 1, in, hidden, opt)}
}

// Forward returns the outputs of the last layer, from a zero state, in the shapes of
// [LSTM.Forward].
func (r *RNN) Forward(x torch.Tensor) torch.Tensor {
	return first(r.ForwardState(x, torch.Tensor{}))
}

// ForwardState starts from the state h0, [layers*directions, N, hidden], and also returns the last
// state. An undefined h0 means zeros.
func (r *RNN) ForwardState(x, h0 torch.Tensor) (y, h torch.Tensor) {
	out := r.run(x, []torch.Tensor{h0}, func(x torch.Tensor, s []torch.Tensor) []torch.Tensor {
		o := r.call()
		return torch.Call("aten::rnn_"+string(r.options.Nonlinearity)+".input", x, s[0], r.weights, o.HasBiases,
			o.Layers, o.Dropout, o.Training, o.Bidirectional, o.BatchFirst)
	})
	return out[0], out[1]
}

// ForwardPacked is like [RNN.ForwardState] for sequences of different lengths.
func (r *RNN) ForwardPacked(x *PackedSequence, h0 torch.Tensor) (y *PackedSequence, h torch.Tensor) {
	y, out := r.runPacked("aten::rnn_"+string(r.options.Nonlinearity)+".data", x, []torch.Tensor{h0})
	return y, out[0]
}

// LSTM is a long short-term memory: torch.nn.LSTM.
type LSTM struct{ recurrent }

// NewLSTM makes an LSTM from in features to hidden units per direction, drawn uniformly from
// ±1/sqrt(hidden).
func NewLSTM(in, hidden int64, o *RNNOptions) *LSTM {
	return &LSTM{newRecurrent("LSTM", 4, in, hidden, deref(o))}
}

// Forward returns the outputs of the last layer, starting from zero states. It maps [L, N, in] to
// [L, N, directions*hidden], or [N, L, ...] with BatchFirst. A single sequence has no N.
func (l *LSTM) Forward(x torch.Tensor) torch.Tensor {
	y, h, c := l.ForwardState(x, torch.Tensor{}, torch.Tensor{})
	h.Free()
	c.Free()
	return y
}

// ForwardState starts from the states h0 and c0, [layers*directions, N, hidden], and also returns
// the last states. Undefined states mean zeros. With a projection, the last dimension of h is
// ProjSize.
func (l *LSTM) ForwardState(x, h0, c0 torch.Tensor) (y, h, c torch.Tensor) {
	out := l.run(x, []torch.Tensor{h0, c0}, func(x torch.Tensor, s []torch.Tensor) []torch.Tensor {
		o := l.call()
		if l.options.ProjSize > 0 {
			return torch.Call("aten::lstm.input", x, s, l.weights, o.HasBiases, o.Layers, o.Dropout, o.Training,
				o.Bidirectional, o.BatchFirst)
		}
		y, h, c := x.LSTM(s[0], s[1], l.weights, o)
		return []torch.Tensor{y, h, c}
	})
	return out[0], out[1], out[2]
}

// ForwardPacked is like [LSTM.ForwardState] for sequences of different lengths.
func (l *LSTM) ForwardPacked(x *PackedSequence, h0, c0 torch.Tensor) (y *PackedSequence, h, c torch.Tensor) {
	y, out := l.runPacked("aten::lstm.data", x, []torch.Tensor{h0, c0})
	return y, out[0], out[1]
}

// GRU is a gated recurrent unit: torch.nn.GRU.
type GRU struct{ recurrent }

// NewGRU makes a GRU from in features to hidden units per direction, drawn uniformly from
// ±1/sqrt(hidden).
func NewGRU(in, hidden int64, o *RNNOptions) *GRU {
	return &GRU{newRecurrent("GRU", 3, in, hidden, deref(o))}
}

// Forward returns the outputs of the last layer, from a zero state, in the shapes of
// [LSTM.Forward].
func (g *GRU) Forward(x torch.Tensor) torch.Tensor {
	return first(g.ForwardState(x, torch.Tensor{}))
}

// ForwardState starts from the state h0, [layers*directions, N, hidden], and also returns the last
// state. An undefined h0 means zeros.
func (g *GRU) ForwardState(x, h0 torch.Tensor) (y, h torch.Tensor) {
	out := g.run(x, []torch.Tensor{h0}, func(x torch.Tensor, s []torch.Tensor) []torch.Tensor {
		y, h := x.GRU(s[0], g.weights, g.call())
		return []torch.Tensor{y, h}
	})
	return out[0], out[1]
}

// ForwardPacked is like [GRU.ForwardState] for sequences of different lengths.
func (g *GRU) ForwardPacked(x *PackedSequence, h0 torch.Tensor) (y *PackedSequence, h torch.Tensor) {
	y, out := g.runPacked("aten::gru.data", x, []torch.Tensor{h0})
	return y, out[0]
}
