package torch_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// requireVectorMasks skips the test if libtorch itself draws dropout masks.
func requireVectorMasks(t *testing.T) {
	t.Helper()
	testenv.RequireTorch(t)
	build, err := torch.BuildInfo()
	require.NoError(t, err)
	if !build.VectorMasks {
		t.Skip("dropout masks are libtorch's own on this CPU")
	}
}

// oneByOne fills t with libtorch's scalar loop, which bernoulli_ uses on every CPU when the
// probabilities are a tensor.
func oneByOne(t torch.Tensor, p float64, g *torch.Generator) {
	torch.Call("aten::bernoulli_.Tensor", t, torch.TensorOptions{DType: torch.Float64}.Full(p, 1), g)
}

// layouts are tensors of about n elements: dense in several orders, and with gaps.
var layouts = map[string]func(o torch.TensorOptions, n int64) torch.Tensor{
	"contiguous": func(o torch.TensorOptions, n int64) torch.Tensor { return o.Zeros(n) },
	"transposed": func(o torch.TensorOptions, n int64) torch.Tensor { return o.Zeros(n/7, 7).Transpose(0, 1) },
	"permuted":   func(o torch.TensorOptions, n int64) torch.Tensor { return o.Zeros(3, 1, n/6, 2).Permute(2, 0, 3, 1) },
	"with gaps":  func(o torch.TensorOptions, n int64) torch.Tensor { return o.Zeros(n, 2).Narrow(1, 0, 1) },
	"expanded":   func(o torch.TensorOptions, n int64) torch.Tensor { return o.Zeros(2, n).Select(0, 1) },
}

func TestMasksAreLibtorchs(t *testing.T) {
	requireVectorMasks(t)
	rapid.Check(t, func(r *rapid.T) {
		o := torch.TensorOptions{DType: rapid.SampledFrom([]torch.DType{torch.Float32, torch.Float64, torch.BFloat16,
			torch.Float16, torch.Bool, torch.Int64}).Draw(r, "dtype")}
		n := rapid.OneOf(rapid.Int64Range(1, 70), rapid.Int64Range(300, 330), rapid.Int64Range(1, 5000)).Draw(r, "n")
		layout := rapid.SampledFrom([]string{"contiguous", "transposed", "permuted", "with gaps",
			"expanded"}).Draw(r, "layout")
		p := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 0.1, 0.5, 0.9, 1.0 / 3, math.SmallestNonzeroFloat64,
			0x1p-53, 0x1.8p-53, math.Nextafter(1, 0)}), rapid.Float64Range(0, 1)).Draw(r, "p")
		seed := rapid.Uint64().Draw(r, "seed")
		numbers := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(618, 630), rapid.Int64Range(0, 2000))
		before, normals := numbers.Draw(r, "numbers before"), rapid.Int64Range(0, 3).Draw(r, "normals before")

		torch.Scope(func() {
			draw := func(fill func(torch.Tensor, float64, *torch.Generator)) ([]float64, []byte, []float64) {
				g := torch.NewGenerator(seed)
				torch.TensorOptions{DType: torch.Float64}.Zeros(normals).Normal_(0, 1, g) // leaves a cached number in the generator
				torch.TensorOptions{DType: torch.Int32}.Zeros(before).Random_(g)
				mask := layouts[layout](o, n)
				fill(mask, p, g)
				state := g.State()
				next := torch.TensorOptions{DType: torch.Float64}.Zeros(3).Normal_(0, 1, g)
				return torch.Values[float64](mask.ToDType(torch.Float64).Contiguous()), state, torch.Values[float64](next)
			}
			values, state, next := draw(func(t torch.Tensor, p float64, g *torch.Generator) { t.Bernoulli_(p, g) })
			wantValues, wantState, wantNext := draw(oneByOne)
			require.Equal(r, wantValues, values)
			require.Equal(r, wantState, state)
			require.Equal(r, wantNext, next)
		})
	})
}

// TestMasksOfAStateThatNobodyDraws uses a state that set_state accepts but that drawing never
// reaches.
func TestMasksOfAStateThatNobodyDraws(t *testing.T) {
	requireVectorMasks(t)
	state := torch.NewGenerator(3).State()
	binary.LittleEndian.PutUint32(state[8:], 100) // numbers left, plus one
	binary.LittleEndian.PutUint64(state[16:], 40) // the next one
	draw := func(fill func(torch.Tensor, float64, *torch.Generator)) ([]float32, []byte) {
		g := torch.NewGenerator(0)
		g.SetState(state)
		mask := torch.Zeros(48) // the remaining numbers suffice for these
		fill(mask, 0.5, g)
		more := torch.Zeros(700)
		fill(more, 0.5, g)
		return append(torch.Values[float32](mask), torch.Values[float32](more)...), g.State()
	}
	values, after := draw(func(t torch.Tensor, p float64, g *torch.Generator) { t.Bernoulli_(p, g) })
	wantValues, wantAfter := draw(oneByOne)
	assert.Equal(t, wantValues, values)
	assert.Equal(t, wantAfter, after)
}

// dropouts returns hashes of the results of operators that draw masks from the default generator,
// and of its final state.
func dropouts() (text string) {
	sum := func(values any) { text += fmt.Sprintf("%x\n", sha256.Sum256(fmt.Appendf(nil, "%x", values))) }
	torch.ForkRNG(func() {
		torch.ManualSeed(7)
		x := torch.Rand(30, 101)
		query := torch.Randn(2, 4, 16, 8)
		for _, y := range []torch.Tensor{
			torch.Call("aten::dropout", x, 0.1, true)[0], torch.Call("aten::native_dropout", x, 0.4, true)[0],
			torch.Call("aten::feature_dropout", torch.Ones(50, 40, 3), 0.2, true)[0],
			torch.Call("aten::alpha_dropout", x, 0.3, true)[0],
			torch.Call("aten::scaled_dot_product_attention", query, query, query, nil, 0.2)[0],
			torch.Call("aten::bernoulli.p", x, 0.7)[0],
		} {
			sum(torch.Values[float32](y.Contiguous()))
		}
		sum(torch.DefaultGenerator(torch.CPU).State())
	})
	return text
}

func TestMasksChild(t *testing.T) {
	if os.Getenv(childVariable) != "masks" {
		t.Skip("it runs in a process that TestMasksAreLeftToLibtorch starts")
	}
	build, err := torch.BuildInfo()
	require.NoError(t, err)
	fmt.Printf("\nVECTOR %v\n%s", build.VectorMasks, dropouts())
}

func TestMasksAreLeftToLibtorch(t *testing.T) {
	requireVectorMasks(t)
	child := func(settings ...string) string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMasksChild$")
		cmd.Env = append(append(os.Environ(), childVariable+"=masks"), settings...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	_, ours, vector := strings.Cut(child("GOTRAINER_MASKS="), "\nVECTOR true\n")
	require.True(t, vector)
	_, theirs, native := strings.Cut(child("GOTRAINER_MASKS=native"), "\nVECTOR false\n")
	require.True(t, native)
	assert.Equal(t, theirs, ours)
}

func BenchmarkMask(b *testing.B) {
	testenv.RequireTorch(b)
	mask, g := torch.Zeros(1<<20), torch.NewGenerator(1)
	b.Run("bernoulli_", func(b *testing.B) {
		for b.Loop() {
			mask.Bernoulli_(0.9, g)
		}
	})
	b.Run("libtorch one by one", func(b *testing.B) {
		for b.Loop() {
			oneByOne(mask, 0.9, g)
		}
	})
}
