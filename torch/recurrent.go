package torch

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// RNNOptions are the options of the recurrent operators.
type RNNOptions struct {
	HasBiases     bool
	Layers        int64
	Dropout       float64 // between layers, while training
	Training      bool
	Bidirectional bool
	BatchFirst    bool
}

// check compares the shapes of weights and states with what the kernels expect: oneDNN's kernels do
// not check them.
func (o RNNOptions) check(op string, gates int64, t Tensor, weights []Tensor, states ...Tensor) {
	refuse := func(format string, args ...any) {
		described := make([]string, 0, 1+len(states)+len(weights))
		for _, x := range append(append([]Tensor{t}, states...), weights...) {
			described = append(described, x.describe())
		}
		panic(&Error{Op: op, Args: described, Code: ErrInvalid, Msg: fmt.Sprintf(format, args...)})
	}
	input, state := t.info(op).Sizes, states[0].info(op).Sizes
	if len(input) != 3 || len(state) != 3 {
		refuse("want inputs and states of 3 dimensions, found %d and %d", len(input), len(state))
	}
	directions, perCell, batch := int64(1), 2, input[1]
	if o.Bidirectional {
		directions = 2
	}
	if o.HasBiases {
		perCell = 4
	}
	if o.BatchFirst {
		batch = input[0]
	}
	if o.Layers < 1 || int64(len(weights)) != o.Layers*directions*int64(perCell) {
		refuse("%d layers with %d directions have %d weights each cell, but %d weights were given", o.Layers,
			directions, perCell, len(weights))
	}
	hidden := state[2]
	for _, s := range states {
		if want := []int64{o.Layers * directions, batch, hidden}; !slices.Equal(s.info(op).Sizes, want) {
			refuse("want states of shape %v: layers times directions, batch, hidden size", want)
		}
	}
	for i, w := range weights {
		in := hidden // of w_hh
		if i%perCell == 0 {
			if in = hidden * directions; int64(i/perCell) < directions {
				in = input[2]
			}
		}
		want := []int64{gates * hidden, in}
		if i%perCell >= 2 {
			want = want[:1]
		}
		if !slices.Equal(w.info(op).Sizes, want) {
			refuse("want weight %d of shape %v", i, want)
		}
	}
}

// LSTM runs an LSTM over t, [L, N, in], or [N, L, in] with BatchFirst, starting from the states h0
// and c0: torch.lstm. The weights are in PyTorch's order: for each layer and direction w_ih, w_hh
// and, with biases, b_ih, b_hh. It returns the outputs and the last states.
func (t Tensor) LSTM(h0, c0 Tensor, weights []Tensor, o RNNOptions) (output, h, c Tensor) {
	var out [3]cgotorch.Tensor
	states := []cgotorch.Tensor{h0.ptr("LSTM"), c0.ptr("LSTM")}
	list := required("LSTM", weights)
	o.check("LSTM", 4, t, weights, h0, c0)
	call := func() cgotorch.Code {
		return cgotorch.LSTM(t.ptr("LSTM"), states, list, o.HasBiases, o.Layers, o.Dropout, o.Training, o.Bidirectional,
			o.BatchFirst, &out)
	}
	code := call()
	if code < 0 && reclaim(code) {
		code = call()
	}
	if code < 0 {
		fail("LSTM", code, append([]Tensor{t, h0, c0}, weights...)...)
	}
	runtime.KeepAlive(t.h)
	runtime.KeepAlive([2]Tensor{h0, c0})
	runtime.KeepAlive(weights)
	return wrap(out[0], code), wrap(out[1], code), wrap(out[2], code)
}

// GRU runs a GRU over t, [L, N, in], or [N, L, in] with BatchFirst, starting from the state h0:
// torch.gru. The weights are as in [Tensor.LSTM].
func (t Tensor) GRU(h0 Tensor, weights []Tensor, o RNNOptions) (output, h Tensor) {
	var out [2]cgotorch.Tensor
	list := required("GRU", weights)
	o.check("GRU", 3, t, weights, h0)
	call := func() cgotorch.Code {
		return cgotorch.GRU(t.ptr("GRU"), h0.ptr("GRU"), list, o.HasBiases, o.Layers, o.Dropout, o.Training,
			o.Bidirectional, o.BatchFirst, &out)
	}
	code := call()
	if code < 0 && reclaim(code) {
		code = call()
	}
	if code < 0 {
		fail("GRU", code, append([]Tensor{t, h0}, weights...)...)
	}
	runtime.KeepAlive(t.h)
	runtime.KeepAlive(h0.h)
	runtime.KeepAlive(weights)
	return wrap(out[0], code), wrap(out[1], code)
}
