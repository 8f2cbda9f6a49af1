package nn

import "github.com/gotrainer/gotrainer/torch"

// cudnnMode is cuDNN's number of each kind of recurrent layer.
var cudnnMode = map[string]int64{"RNNrelu": 0, "RNNtanh": 1, "LSTM": 2, "GRU": 3}

// FlattenParameters lays the weights of an [RNN], [LSTM] or [GRU] that are on a GPU behind one
// another in one block of its memory: RNNBase.flatten_parameters. cuDNN, which wants them so, would
// copy them at every call. On the CPU, and for weights of several dtypes or one that cuDNN does not
// know, it does nothing. [To] and [ToDevice] call it. Values, names and identity of the parameters
// stay.
func (r *recurrent) FlattenParameters() {
	dtype := r.weights[0].DType()
	for _, w := range r.weights {
		if !w.Device().IsCUDA() || w.DType() != dtype {
			return
		}
	}
	switch dtype {
	case torch.Float16, torch.Float32, torch.Float64: // what PyTorch gives to it
	default:
		return
	}
	if use, ok := torch.CallAny("aten::_use_cudnn_rnn_flatten_weight")[0].(bool); !ok || !use {
		return
	}
	perLayer := int64(4)
	if r.options.NoBias {
		perLayer = 2
	}
	if r.options.ProjSize > 0 {
		perLayer++
	}
	mode := cudnnMode[r.op+string(r.options.Nonlinearity)]
	torch.NoGrad(func() {
		torch.Scope(func() {
			torch.Call("aten::_cudnn_rnn_flatten_weight", r.weights, perLayer, r.input, mode, r.units,
				r.options.ProjSize, r.layers, r.options.BatchFirst, r.options.Bidirectional)
		})
	})
}

// flatten calls FlattenParameters of the recurrent layers of a module.
func flatten(m any) {
	for _, n := range Modules(m) {
		if r, ok := n.Module.(interface{ FlattenParameters() }); ok {
			r.FlattenParameters()
		}
	}
}
