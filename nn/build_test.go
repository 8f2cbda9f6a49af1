package nn_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// spec describes a module in a golden file: a constructor or a type, positional arguments, and
// options by the names of their Go fields.
type spec struct {
	Type    string
	Args    []json.RawMessage
	Options map[string]json.RawMessage
	DType   string
}

// constructors by the names of the scripts, which are PyTorch's.
var constructors = map[string]any{
	"Linear": nn.NewLinear, "Bilinear": nn.NewBilinear, "Embedding": nn.NewEmbedding,
	"EmbeddingBag": nn.NewEmbeddingBag,
	"Conv1d":       nn.NewConv1d, "Conv2d": nn.NewConv2d, "Conv3d": nn.NewConv3d,
	"ConvTranspose1d": nn.NewConvTranspose1d, "ConvTranspose2d": nn.NewConvTranspose2d,
	"ConvTranspose3d": nn.NewConvTranspose3d,
	"BatchNorm1d":     nn.NewBatchNorm1d, "BatchNorm2d": nn.NewBatchNorm2d, "BatchNorm3d": nn.NewBatchNorm3d,
	"SyncBatchNorm":  nn.NewSyncBatchNorm,
	"InstanceNorm1d": nn.NewInstanceNorm1d, "InstanceNorm2d": nn.NewInstanceNorm2d,
	"InstanceNorm3d": nn.NewInstanceNorm3d,
	"LayerNorm":      nn.NewLayerNorm, "GroupNorm": nn.NewGroupNorm, "RMSNorm": nn.NewRMSNorm,
	"Dropout": nn.NewDropout, "Dropout1d": nn.NewDropout1d, "Dropout2d": nn.NewDropout2d, "Dropout3d": nn.NewDropout3d,
	"AlphaDropout": nn.NewAlphaDropout, "FeatureAlphaDropout": nn.NewFeatureAlphaDropout,
	"PReLU": nn.NewPReLU, "Flatten": nn.NewFlatten,
	"MaxPool1d": nn.NewMaxPool1d, "MaxPool2d": nn.NewMaxPool2d, "MaxPool3d": nn.NewMaxPool3d,
	"AvgPool1d": nn.NewAvgPool1d, "AvgPool2d": nn.NewAvgPool2d, "AvgPool3d": nn.NewAvgPool3d,
	"AdaptiveAvgPool1d": nn.NewAdaptiveAvgPool1d, "AdaptiveAvgPool2d": nn.NewAdaptiveAvgPool2d,
	"AdaptiveAvgPool3d": nn.NewAdaptiveAvgPool3d,
	"AdaptiveMaxPool1d": nn.NewAdaptiveMaxPool1d, "AdaptiveMaxPool2d": nn.NewAdaptiveMaxPool2d,
	"AdaptiveMaxPool3d": nn.NewAdaptiveMaxPool3d,
	"LPPool1d":          nn.NewLPPool1d, "LPPool2d": nn.NewLPPool2d, "LPPool3d": nn.NewLPPool3d,
	"FractionalMaxPool2d": nn.NewFractionalMaxPool2d, "FractionalMaxPool3d": nn.NewFractionalMaxPool3d,
	"MaxUnpool1d": nn.NewMaxUnpool1d, "MaxUnpool2d": nn.NewMaxUnpool2d, "MaxUnpool3d": nn.NewMaxUnpool3d,
	"ZeroPad1d": nn.NewZeroPad1d, "ZeroPad2d": nn.NewZeroPad2d, "ZeroPad3d": nn.NewZeroPad3d,
	"ConstantPad1d": nn.NewConstantPad1d, "ConstantPad2d": nn.NewConstantPad2d, "ConstantPad3d": nn.NewConstantPad3d,
	"ReflectionPad1d": nn.NewReflectionPad1d, "ReflectionPad2d": nn.NewReflectionPad2d,
	"ReflectionPad3d":  nn.NewReflectionPad3d,
	"ReplicationPad1d": nn.NewReplicationPad1d, "ReplicationPad2d": nn.NewReplicationPad2d,
	"ReplicationPad3d": nn.NewReplicationPad3d,
	"CircularPad1d":    nn.NewCircularPad1d, "CircularPad2d": nn.NewCircularPad2d, "CircularPad3d": nn.NewCircularPad3d,
	"RNN": nn.NewRNN, "LSTM": nn.NewLSTM, "GRU": nn.NewGRU, "RNNCell": nn.NewRNNCell, "LSTMCell": nn.NewLSTMCell,
	"GRUCell":                 nn.NewGRUCell,
	"MultiheadAttention":      nn.NewMultiheadAttention,
	"TransformerEncoderLayer": nn.NewTransformerEncoderLayer, "TransformerEncoder": nn.NewTransformerEncoder,
	"TransformerDecoderLayer": nn.NewTransformerDecoderLayer, "TransformerDecoder": nn.NewTransformerDecoder,
	"Transformer": nn.NewTransformer, "AdaptiveLogSoftmaxWithLoss": nn.NewAdaptiveLogSoftmaxWithLoss,
	"WeightNorm": nn.NewWeightNorm, "SpectralNorm": nn.NewSpectralNorm,
}

// literals are the modules that have no constructor.
var literals = map[string]any{
	"ReLU": nn.ReLU{}, "SiLU": nn.SiLU{}, "Tanh": nn.Tanh{}, "Sigmoid": nn.Sigmoid{}, "GELU": nn.GELU{},
	"Identity": nn.Identity{},
	"ReLU6":    nn.ReLU6{}, "SELU": nn.SELU{}, "Hardswish": nn.Hardswish{}, "Hardsigmoid": nn.Hardsigmoid{},
	"Mish": nn.Mish{}, "Softsign": nn.Softsign{},
	"Tanhshrink": nn.Tanhshrink{}, "LogSigmoid": nn.LogSigmoid{}, "Softplus": nn.Softplus{},
	"Softshrink": nn.Softshrink{}, "Hardshrink": nn.Hardshrink{},
	"LeakyReLU": nn.LeakyReLU{}, "ELU": nn.ELU{}, "CELU": nn.CELU{}, "Hardtanh": nn.Hardtanh{},
	"Threshold": nn.Threshold{}, "RReLU": nn.RReLU{},
	"GLU": nn.GLU{}, "Softmax": nn.Softmax{}, "LogSoftmax": nn.LogSoftmax{}, "Softmin": nn.Softmin{},
	"Softmax2d":         nn.Softmax2d{},
	"LocalResponseNorm": nn.LocalResponseNorm{}, "Upsample": nn.Upsample{},
	"UpsamplingNearest2d":  nn.UpsamplingNearest2d{},
	"UpsamplingBilinear2d": nn.UpsamplingBilinear2d{}, "PixelShuffle": nn.PixelShuffle{},
	"PixelUnshuffle": nn.PixelUnshuffle{},
	"ChannelShuffle": nn.ChannelShuffle{}, "Unfold": nn.Unfold{}, "Fold": nn.Fold{}, "Unflatten": nn.Unflatten{},
	"PairwiseDistance": nn.PairwiseDistance{}, "CosineSimilarity": nn.CosineSimilarity{},
	"CrossEntropyLoss": nn.CrossEntropyLoss{}, "NLLLoss": nn.NLLLoss{}, "BCELoss": nn.BCELoss{},
	"BCEWithLogitsLoss": nn.BCEWithLogitsLoss{},
	"MSELoss":           nn.MSELoss{}, "L1Loss": nn.L1Loss{}, "SmoothL1Loss": nn.SmoothL1Loss{},
	"HuberLoss":      nn.HuberLoss{},
	"KLDivLoss":      nn.KLDivLoss{},
	"PoissonNLLLoss": nn.PoissonNLLLoss{}, "GaussianNLLLoss": nn.GaussianNLLLoss{}, "CTCLoss": nn.CTCLoss{},
	"SoftMarginLoss":     nn.SoftMarginLoss{},
	"HingeEmbeddingLoss": nn.HingeEmbeddingLoss{}, "MarginRankingLoss": nn.MarginRankingLoss{},
	"CosineEmbeddingLoss": nn.CosineEmbeddingLoss{},
	"MultiMarginLoss":     nn.MultiMarginLoss{}, "MultiLabelMarginLoss": nn.MultiLabelMarginLoss{},
	"MultiLabelSoftMarginLoss":      nn.MultiLabelSoftMarginLoss{},
	"TripletMarginLoss":             nn.TripletMarginLoss{},
	"TripletMarginWithDistanceLoss": nn.TripletMarginWithDistanceLoss{},
}

// build makes the module that a spec describes. in contains the tensors that options refer to.
func build(s spec, in map[string]torch.Tensor) any {
	if s.Type == "Sequential" {
		var layers nn.Sequential
		for _, arg := range s.Args {
			layers = append(layers, build(read[spec](arg), in).(nn.Layer))
		}
		return layers
	}
	if v, ok := literals[s.Type]; ok {
		p := reflect.New(reflect.TypeOf(v))
		s.fillOptions(p.Elem(), in)
		return p.Interface()
	}
	c, ok := constructors[s.Type]
	if !ok {
		panic("no constructor for " + s.Type)
	}
	f := reflect.ValueOf(c)
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		arg := reflect.New(f.Type().In(i)).Elem()
		switch {
		case i < len(s.Args):
			fill(arg, s.Args[i], in)
		case arg.Kind() == reflect.Pointer && len(s.Options) == 0 && s.DType == "": // nil means the defaults
		case arg.Kind() == reflect.Pointer:
			arg.Set(reflect.New(arg.Type().Elem()))
			s.fillOptions(arg.Elem(), in)
		default:
			s.fillOptions(arg, in)
		}
		args = append(args, arg)
	}
	m := f.Call(args)[0]
	if f.Type().NumIn() == 0 {
		s.fillOptions(m.Elem(), in)
	}
	return m.Interface()
}

func (s spec) fillOptions(v reflect.Value, in map[string]torch.Tensor) {
	for name, raw := range s.Options {
		f := v.FieldByName(name)
		if !f.IsValid() {
			panic(fmt.Sprintf("%s has no option %s", s.Type, name))
		}
		fill(f, raw, in)
	}
	if s.DType == "float64" {
		v.FieldByName("Factory").FieldByName("DType").Set(reflect.ValueOf(torch.Float64))
	}
}

// fill sets v to a value described by JSON: a tensor by its name, a module by its spec, a struct of
// such values, or a plain value.
func fill(v reflect.Value, raw json.RawMessage, in map[string]torch.Tensor) {
	switch {
	case bytes.Equal(raw, []byte("null")):
	case v.Type() == reflect.TypeFor[torch.Tensor]():
		t, ok := in[read[string](raw)]
		if !ok {
			panic(fmt.Sprintf("no tensor %s", raw))
		}
		v.Set(reflect.ValueOf(t))
	case bytes.Contains(raw, []byte(`"type"`)):
		v.Set(reflect.ValueOf(build(read[spec](raw), in)))
	case v.Kind() == reflect.Struct:
		for name, field := range read[map[string]json.RawMessage](raw) {
			fill(v.FieldByName(name), field, in)
		}
	default:
		if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
			panic(fmt.Sprintf("%s for a %s: %v", raw, v.Type(), err))
		}
	}
}
