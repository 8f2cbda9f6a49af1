package nn

import "github.com/gotrainer/gotrainer/torch"

// cudnnMode maps each kind of recurrent layer to cuDNN's number.
var cudnnMode = map[string]int64{"RNNrelu": 0, "RNNtanh": 1, "LSTM": 2, "GRU": 3}

// FlattenParameters stores the weights of an [RNN], [LSTM] or [GRU] that are on a GPU contiguously
// in one block of memory: RNNBase.flatten_parameters. Otherwise cuDNN, which needs them in that
// form, would copy them at every call. On the CPU, and for weights of several dtypes or of one that
// cuDNN does not support, it does nothing. [To] and [ToDevice] call it. The values, names and
// identity of the parameters do not change.
func (r *recurrent) FlattenParameters() {
	dtype := r.weights[0].DType()
	for _, w := range r.weights {
		if !w.Device().IsCUDA() || w.DType() != dtype {
			return
		}
	}
	switch dtype {
	case torch.Float16, torch.Float32, torch.Float64: // the dtypes that PyTorch passes to cuDNN
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

// flatten calls FlattenParameters of all recurrent layers in a module.
func flatten(m any) {
	for _, n := range Modules(m) {
		if r, ok := n.Module.(interface{ FlattenParameters() }); ok {
			r.FlattenParameters()
		}
	}
}
