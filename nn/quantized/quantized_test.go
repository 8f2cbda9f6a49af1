package quantized_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestLayersHaveTheBitsOfBitsandbytes compares packed weights, their names and bytes in files, the
// dequantized weights, products, and gradients of the input.
func TestLayersHaveTheBitsOfBitsandbytes(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	file := golden.Load(t, "testdata/quantized.safetensors")
	cases := 0
	for _, out := range []string{"32 64", "32 48", "10 10", "3 5", "132 128"} {
		for _, dtype := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float16} {
			for _, kind := range []quantized.Type{quantized.NF4, quantized.FP4} {
				for _, double := range []bool{false, true} {
					name := fmt.Sprintf("%s %s %s %s", out, dtype, kind, map[bool]string{true: "True", false: "False"}[double])
					if !file.Has(name + " weight") {
						continue
					}
					cases++
					t.Run(name, func(t *testing.T) {
						goldencount.Start(t, "models", name)
						c := quantized.Config{Type: kind, DoubleQuant: double, ComputeDType: dtype}
						torch.Scope(func() { compare(t, file, name, c) })
					})
				}
			}
		}
	}
	assert.Equal(t, 32, cases)
}

func compare(t *testing.T, file *golden.File, name string, c quantized.Config) {
	weight := file.Tensor(name + " weight")
	l := &nn.Linear{Weight: nn.Parameter(weight.Clone()), Bias: nn.Parameter(file.Tensor(name + " state.bias").Clone())}
	l.Bias.SetRequiresGrad(false)
	w, err := quantized.New(l.Weight, c)
	require.NoError(t, err)
	l.SetQuantized(w)
	var names []string
	for _, s := range nn.StateDict(l) {
		names = append(names, s.Name)
		if c.DoubleQuant && !testenv.SameBits() { // the mean of the scales differs in its last bits
			continue
		}
		want := file.Tensor(name + " state." + s.Name)
		if strings.Contains(s.Name, "quant_state") {
			assert.JSONEq(t, string(torch.Values[uint8](want)), string(torch.Values[uint8](s.Tensor)))
			continue
		}
		golden.Bits(t, s.Name, s.Tensor, want)
	}
	assert.Len(t, names, map[bool]int{false: 5, true: 7}[c.DoubleQuant])
	numbers, want := l.FloatWeight(), file.Tensor(name+" float")
	if c.DoubleQuant && !testenv.SameBits() {
		golden.Close(t, "numbers", numbers, want, 1e-2, 1e-3)
	} else {
		assert.True(t, numbers.Equal(want), "the numbers differ") // except for the sign of 0
	}
	if !file.Has(name + " x") {
		return
	}
	x := file.Tensor(name + " x").Clone().RequiresGrad()
	y := l.Forward(x)
	y.ToDType(torch.Float32).Square().Sum(torch.DefaultDType).Backward()
	golden.RecordedIn(t, "product", y.Detach(), file.Tensor(name+" y"), weight.DType())
	golden.RecordedIn(t, "gradient", x.Grad(), file.Tensor(name+" grad"), weight.DType())
}

// TestTrainedBiasesGetGradients compares with a plain layer with the same values.
func TestTrainedBiasesGetGradients(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	l := nn.NewLinear(64, 8, nil)
	w, err := quantized.New(l.Weight, quantized.Config{Type: quantized.NF4})
	require.NoError(t, err)
	l.SetQuantized(w)
	plain := &nn.Linear{Weight: nn.Parameter(l.FloatWeight()), Bias: nn.Parameter(l.Bias.Clone())}
	x := torch.Randn(2, 3, 64)
	got, want := x.Clone().RequiresGrad(), x.Clone().RequiresGrad()
	l.Forward(got).Square().Sum(torch.DefaultDType).Backward()
	plain.Forward(want).Square().Sum(torch.DefaultDType).Backward()
	golden.Close(t, "gradient of the bias", l.Bias.Grad(), plain.Bias.Grad(), 1e-5, 1e-5)
	golden.Close(t, "gradient of the input", got.Grad(), want.Grad(), 1e-5, 1e-5)
	assert.True(t, l.Forward(x).Detach().AllClose(plain.Forward(x).Detach(), 1e-5, 1e-5, false))
}

// TestSizesKeepTheirType checks that the quantization scales are not converted with the model.
func TestSizesKeepTheirType(t *testing.T) {
	testenv.RequireTorch(t)
	for _, double := range []bool{false, true} {
		l := nn.NewLinear(64, 8, nil)
		w, err := quantized.New(l.Weight, quantized.Config{DoubleQuant: double})
		require.NoError(t, err)
		l.SetQuantized(w)
		before := l.FloatWeight()
		nn.To(l, torch.TensorOptions{DType: torch.BFloat16})
		assert.Equal(t, torch.BFloat16, l.Bias.DType())
		assert.True(t, l.FloatWeight().Equal(before))
		require.NoError(t, nn.Freeze(l))
		require.NoError(t, nn.Unfreeze(l))
		assert.True(t, l.Bias.NeedsGrad())
		assert.False(t, l.Weight.NeedsGrad())
		total, trained := nn.CountParams(l)
		assert.EqualValues(t, 64*8+8, total)
		assert.EqualValues(t, 8, trained)
		assert.Equal(t, []string{""}, nn.QuantizedLayers(l))
	}
}

func TestStateIsReadWhenItWasLoaded(t *testing.T) {
	testenv.RequireTorch(t)
	pack := func(seed uint64) *nn.Linear {
		torch.ManualSeed(seed)
		l := nn.NewLinear(64, 8, nil)
		weight := torch.Arange(8*64).View(8, 64).MulScalar(float64(seed) / 4096).AddScalar(0.125)
		w, err := quantized.New(weight,
			quantized.Config{DoubleQuant: true, Type: quantized.NF4})
		require.NoError(t, err)
		l.SetQuantized(w)
		return l
	}
	a, b := pack(1), pack(1)
	torch.NoGrad(func() { a.Weight.Zero_() })
	_, err := nn.LoadStateDict(a, nn.Tensors(nn.StateDict(b)), nn.LoadOptions{})
	require.NoError(t, err)
	assert.True(t, a.FloatWeight().Equal(b.FloatWeight()))

	state := a.Quantized().(*quantized.Weight).State.NF4
	text := strings.Replace(string(torch.Values[uint8](state)), "nf4", "fp4", 1)
	torch.NoGrad(func() { state.Copy_(torch.From([]byte(text), int64(len(text)))) })
	_, err = nn.LoadStateDict(b, nn.Tensors(nn.StateDict(a)), nn.LoadOptions{})
	assert.ErrorContains(t, err, "of another kind")
}

func TestWhatCannotBeQuantizedIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	weight := torch.Zeros(4, 64)
	for want, f := range map[string]func() error{
		`Config.Type is "int4"; want "fp4" or "nf4"`: func() error {
			_, err := quantized.New(weight, quantized.Config{Type: "int4"})
			return err
		},
		"Config.ComputeDType is float64; want one of [float32 bfloat16 float16]": func() error {
			_, err := quantized.New(weight, quantized.Config{ComputeDType: torch.Float64})
			return err
		},
		"a weight is float64[4 64]; want [out, in] of one of": func() error {
			_, err := quantized.New(weight.ToDType(torch.Float64), quantized.Config{})
			return err
		},
		"a weight is float32[256]": func() error {
			_, err := quantized.New(weight.View(-1), quantized.Config{})
			return err
		},
		"shape is [4 64]; want [4 32]": func() error {
			_, err := quantized.FromFile([]byte(`{"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[4,64]}`), 4, 32,
				torch.Float32)
			return err
		},
	} {
		assert.ErrorContains(t, f(), want)
	}
}

func TestConfigurationsOfTransformers(t *testing.T) {
	var c quantized.Config
	require.NoError(t, json.Unmarshal([]byte(`{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
		"bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_use_double_quant": true, "llm_int8_skip_modules": ["lm_head"]}`), &c))
	assert.Equal(t, quantized.Config{Type: quantized.NF4, DoubleQuant: true, ComputeDType: torch.BFloat16,
		SkipModules: []string{"lm_head"}}, c)
	assert.True(t, c.Skips("lm_head"))
	assert.False(t, c.Skips("model.layers.0.mlp.up_proj"))
	text, err := json.Marshal(c)
	require.NoError(t, err)
	var again quantized.Config
	require.NoError(t, json.Unmarshal(text, &again))
	assert.Equal(t, c, again)
	for text, want := range map[string]string{
		`{"quant_method": "gptq", "bits": 4}`:                                                          `quant_method is "gptq"; only "bitsandbytes"`,
		`{"quant_method": "bitsandbytes", "load_in_8bit": true}`:                                       "load_in_4bit is not set",
		`{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_storage": "bfloat16"}`: `bnb_4bit_quant_storage is "bfloat16"`,
		`{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_compute_dtype": "float8"}`:   `bnb_4bit_compute_dtype is "float8"`,
		`{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "int4"}`:        `Config.Type is "int4"`,
		`{"quant_method": "bitsandbytes", "load_in_4bit": true, "llm_int8_skip_modules": "lm_head"}`:   "cannot unmarshal string",
	} {
		assert.ErrorContains(t, json.Unmarshal([]byte(text), &c), want)
	}
}

// FuzzFromFile checks that the content of a downloaded file results in an error or in a weight of
// the expected size.
func FuzzFromFile(f *testing.F) {
	f.Add([]byte(`{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[4,64],"nested_blocksize":256,` +
		`"nested_dtype":"float32","nested_offset":0.04}`))
	f.Add([]byte(`{"quant_type":"fp4","blocksize":64,"dtype":"float32","shape":[4,64]}`))
	f.Add([]byte(`{"quant_type":"fp4","blocksize":64,"dtype":"float32","shape":[-4,-64]}`))
	f.Add([]byte(`{"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[4,64],"nested_offset":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		testenv.RequireTorch(t)
		w, err := quantized.FromFile(text, 4, 64, torch.Float32)
		if err != nil {
			return
		}
		assert.Equal(t, []int64{4, 64}, w.Float().Shape())
	})
}

// TestNumbersAreThoseOfOperators compares the CPU's custom operator with the computation on other
// devices.
func TestNumbersAreThoseOfOperators(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	for _, shape := range [][]int64{{1, 1}, {3, 5}, {8, 8}, {7, 64}, {33, 100}, {130, 513}} {
		for _, kind := range []quantized.Type{quantized.NF4, quantized.FP4} {
			w, err := quantized.New(torch.Randn(shape...), quantized.Config{Type: kind, DoubleQuant: shape[0] > 7})
			require.NoError(t, err)
			for _, d := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float16} {
				assert.True(t, w.Numbers(d).Equal(w.ByOperators(d)), "%v %s %s", shape, kind, d)
				assert.Equal(t, shape, w.Numbers(d).Shape())
			}
		}
	}
	bytes := torch.TensorOptions{DType: torch.Uint8}
	for want, args := range map[string]struct {
		packed, largest, code torch.Tensor
		d                     torch.DType
	}{
		"want 3 times 5 numbers, two in a byte": {bytes.Zeros(7), torch.Zeros(1), torch.Zeros(16), torch.Float32},
		"want a largest size for each 64":       {bytes.Zeros(8), torch.Zeros(2), torch.Zeros(16), torch.Float32},
		"want 16 numbers":                       {bytes.Zeros(8), torch.Zeros(1), torch.Zeros(15), torch.Float32},
		"want float32, bfloat16 or float16":     {bytes.Zeros(8), torch.Zeros(1), torch.Zeros(16), torch.Float64},
	} {
		err := torch.Try(func() {
			torch.Call("gotrainer::unpack_4bit", args.packed, args.largest, args.code, int64(3), int64(5), args.d)
		})
		assert.ErrorContains(t, err, want)
	}
}

func BenchmarkUnpack(b *testing.B) {
	torch.SetThreads(1)
	w, err := quantized.New(torch.Randn(2816, 1024), quantized.Config{Type: quantized.NF4, DoubleQuant: true})
	require.NoError(b, err)
	for _, d := range []torch.DType{torch.Float32, torch.BFloat16} {
		b.Run(d.String(), func(b *testing.B) {
			for b.Loop() {
				torch.Scope(func() { w.Numbers(d) })
			}
		})
		b.Run(d.String()+" by operators", func(b *testing.B) {
			for b.Loop() {
				torch.Scope(func() { w.ByOperators(d) })
			}
		})
	}
}
