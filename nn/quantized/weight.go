package quantized

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/internal/blockwise"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Weight is the weight of a linear layer in four bits: Params4bit of bitsandbytes, which gives its
// tensors their names. It is not trained.
type Weight struct {
	AbsMax         torch.Tensor `buffer:"absmax"`           // [blocks]: the largest absolute values, or bytes that stand for them
	QuantMap       torch.Tensor `buffer:"quant_map"`        // [16]
	NestedAbsMax   torch.Tensor `buffer:"nested_absmax"`    // [blocks/256]; undefined without DoubleQuant
	NestedQuantMap torch.Tensor `buffer:"nested_quant_map"` // [256]; undefined without DoubleQuant
	State          *State       `module:"quant_state"`

	packed  torch.Tensor // [out·in/2, 1]
	compute torch.DType
	state   state // State, decoded
}

var (
	_ nn.QuantizedWeight = (*Weight)(nil)
	_ nn.FixedDType      = (*Weight)(nil)
	_ nn.StateLoader     = (*Weight)(nil)
)

// State is the remaining information, as bytes of JSON. Exactly one of the two is defined.
type State struct {
	NF4 torch.Tensor `buffer:"bitsandbytes__nf4"`
	FP4 torch.Tensor `buffer:"bitsandbytes__fp4"`
}

// state is the decoded JSON of State: the entries of as_dict of bitsandbytes' QuantState that are
// not tensors.
type state struct {
	Type      Type    `json:"quant_type"`
	BlockSize int64   `json:"blocksize"`
	DType     string  `json:"dtype"` // dtype before quantization
	Shape     []int64 `json:"shape"`

	NestedBlockSize int64    `json:"nested_blocksize,omitempty"`
	NestedDType     string   `json:"nested_dtype,omitempty"`
	NestedOffset    *float64 `json:"nested_offset,omitempty"` // added to the scales when they are quantized themselves
}

// tensor returns the field that holds the bytes for type t.
func (s *State) tensor(t Type) *torch.Tensor {
	if t == NF4 {
		return &s.NF4
	}
	return &s.FP4
}

// New packs a weight, [out, in], in float32, bfloat16 or float16.
func New(weight torch.Tensor, c Config) (w *Weight, err error) {
	if c, err = c.resolved(); err != nil {
		return nil, err
	}
	if weight.Dim() != 2 || !slices.Contains(computed, weight.DType()) {
		return nil, fmt.Errorf("quantized: a weight is %s%v; want [out, in] of one of %v", weight.DType(), weight.Shape(),
			computed)
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() { w = pack(weight, c) })
		})
	})
	return w, err
}

func pack(weight torch.Tensor, c Config) *Weight {
	w := &Weight{State: &State{}, compute: c.ComputeDType,
		state: state{Type: c.Type, BlockSize: blockSize, DType: weight.DType().String(), Shape: weight.Shape()}}
	d := weight.Device()
	code := codes[c.Type]
	packed, largest := code.pack(weight)
	w.packed, w.QuantMap = packed.Keep(), code.on(d).values.Clone().Keep()
	if !c.DoubleQuant {
		w.AbsMax = largest.Keep()
	} else {
		nested := blockwise.Signed()
		offset := largest.Mean(torch.DefaultDType)
		w.state.NestedBlockSize, w.state.NestedDType = blockwise.Size, torch.Float32.String()
		w.state.NestedOffset = new(offset.Item())
		on := torch.TensorOptions{Device: d}
		w.NestedAbsMax = on.Empty(blockwise.Count(largest.Numel())).Keep()
		on.DType = torch.Uint8
		w.AbsMax = on.Empty(largest.Numel()).Keep()
		nested.Quantize(largest.Sub(offset), w.AbsMax, w.NestedAbsMax)
		w.NestedQuantMap = nested.Values(d).Clone().Keep()
	}
	text, err := json.Marshal(w.state)
	if err != nil {
		panic(torch.Errorf("quantized.New", torch.ErrValue, "%v", err))
	}
	*w.State.tensor(c.Type) = torch.From(text, int64(len(text))).ToDevice(d).Keep()
	return w
}

// Linear implements [nn.QuantizedWeight]. The product is computed in Config.ComputeDType, whatever
// the dtype of x; the result has the dtype of x.
func (w *Weight) Linear(x, bias torch.Tensor) torch.Tensor {
	wide := x.ToDType(w.compute)
	if bias.Defined() {
		bias = bias.ToDType(w.compute)
	}
	trained := bias.Defined() && bias.NeedsGrad()
	product := torch.Function{
		Forward: func(in []torch.Tensor) []torch.Tensor {
			return []torch.Tensor{in[0].Linear(w.numbers(w.compute), in[1])}
		},
		Backward: func(_, _, gradients []torch.Tensor) []torch.Tensor {
			g := gradients[0]
			// As in bitsandbytes, the weight is dequantized to its original dtype first, and then
			// converted to the dtype of the gradient.
			grads := []torch.Tensor{g.MatMul(w.Float().ToDType(g.DType())), {}}
			if trained {
				grads[1] = g.Reshape(-1, g.Size(-1)).SumDim([]int64{0}, false, torch.DefaultDType)
			}
			return grads
		},
	}
	return product.Apply(wide, bias)[0].ToDType(x.DType())
}

// Size returns the size of the weight.
func (w *Weight) Size() (out, in int64) { return w.state.Shape[0], w.state.Shape[1] }

// DType returns Config.ComputeDType.
func (w *Weight) DType() torch.DType { return w.compute }

// Packed returns the bits, [out·in/2, 1].
func (w *Weight) Packed() torch.Tensor { return w.packed }

// Float returns the weight in the dtype that it had before it was packed.
func (w *Weight) Float() torch.Tensor {
	d := slices.IndexFunc(computed, func(d torch.DType) bool { return d.String() == w.state.DType })
	return w.numbers(computed[d])
}

// numbers dequantizes the weight.
func (w *Weight) numbers(d torch.DType) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		return codes[w.state.Type].unpack(w.packed, w.largest(), w.state.Shape, d)
	})
}

// largest returns the largest absolute value of each block.
func (w *Weight) largest() torch.Tensor {
	if w.state.NestedOffset == nil {
		return w.AbsMax
	}
	return blockwise.Signed().Dequantize(w.AbsMax, w.NestedAbsMax).AddScalar(*w.state.NestedOffset)
}

// Repack packs another weight with the same Config.
func (w *Weight) Repack(weight torch.Tensor) (nn.QuantizedWeight, error) {
	return New(weight, w.Config())
}

// Config returns the Config that the weight was packed with.
func (w *Weight) Config() Config {
	return Config{Type: w.state.Type, DoubleQuant: w.state.NestedOffset != nil, ComputeDType: w.compute}
}

// FixedDType keeps [nn.To] from converting the absolute values.
func (w *Weight) FixedDType() {}

// StateLoaded decodes the State that was loaded.
func (w *Weight) StateLoaded() error {
	now, err := parse(torch.Values[uint8](*w.State.tensor(w.state.Type)))
	if err != nil {
		return err
	}
	if !slices.Equal(now.Shape, w.state.Shape) || now.Type != w.state.Type ||
		(now.NestedOffset == nil) != (w.state.NestedOffset == nil) {
		return fmt.Errorf("quantized: the bits are those of a weight %v of another kind; want %v", now.Shape, w.state.Shape)
	}
	w.state = now
	return nil
}

// parse decodes the JSON of a quantization state and checks that it is supported.
func parse(text []byte) (s state, err error) {
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("quantized: quant_state: %w", err)
	}
	refuse := func(name string, found, want any) (state, error) {
		return s, fmt.Errorf("quantized: quant_state: %s is %v; want %v", name, found, want)
	}
	isFloat := func(d torch.DType) bool { return d.String() == s.DType }
	switch {
	case codes[s.Type] == nil:
		return refuse("quant_type", s.Type, []Type{FP4, NF4})
	case s.BlockSize != blockSize:
		return refuse("blocksize", s.BlockSize, blockSize)
	case !slices.ContainsFunc(computed, isFloat):
		return refuse("dtype", s.DType, computed)
	case len(s.Shape) != 2 || s.Shape[0] < 1 || s.Shape[1] < 1:
		return refuse("shape", s.Shape, "[out, in]")
	case s.NestedOffset != nil && (s.NestedBlockSize != blockwise.Size || s.NestedDType != torch.Float32.String()):
		return refuse("nested_blocksize and nested_dtype", fmt.Sprint(s.NestedBlockSize, " and ", s.NestedDType),
			fmt.Sprint(blockwise.Size, " and ", torch.Float32))
	}
	return s, nil
}

// FromFile prepares a weight to be loaded from a file that holds it in packed form. text is the
// content of quant_state in the file. The weight must have the given size.
func FromFile(text []byte, out, in int64, compute torch.DType) (*Weight, error) {
	s, err := parse(text)
	if err != nil {
		return nil, err
	}
	if s.Shape[0] != out || s.Shape[1] != in {
		return nil, fmt.Errorf("quantized: quant_state: shape is %v; want [%d %d]", s.Shape, out, in)
	}
	w := &Weight{State: &State{}, compute: compute, state: s}
	bytes, floats := torch.TensorOptions{DType: torch.Uint8}, torch.TensorOptions{}
	blocks := (out*in + blockSize - 1) / blockSize
	w.packed, w.QuantMap = bytes.Zeros((out*in+1)/2, 1).Keep(), floats.Zeros(16).Keep()
	w.AbsMax = floats.Zeros(blocks).Keep()
	if s.NestedOffset != nil {
		w.AbsMax, w.NestedQuantMap = bytes.Zeros(blocks).Keep(), floats.Zeros(256).Keep()
		w.NestedAbsMax = floats.Zeros(blockwise.Count(blocks)).Keep()
	}
	*w.State.tensor(s.Type) = bytes.Zeros(int64(len(text))).Keep()
	return w, nil
}
