package nn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func newNet() nn.Sequential {
	return nn.Sequential{nn.NewConv2d(1, 2, nn.Dims{3}, nil), nn.NewBatchNorm2d(2, nil), nn.NewFlatten(),
		nn.NewLinear(8, 3, nil)}
}

// snapshot returns a copy of a module's state.
func snapshot(m any) map[string][]byte {
	s := map[string][]byte{}
	for _, t := range nn.StateDict(m) {
		s[t.Name] = t.Tensor.Bytes()
	}
	return s
}

func TestSavedModulesLoadBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		var build func(depth int) nn.Layer
		dtypes := []torch.DType{torch.Float32, torch.Float64, torch.BFloat16, torch.Float16}
		factory := torch.TensorOptions{DType: rapid.SampledFrom(dtypes).Draw(r, "dtype")}
		size := rapid.Int64Range(1, 5)
		build = func(depth int) nn.Layer {
			switch rapid.IntRange(0, 4).Draw(r, "kind") {
			case 0:
				return nn.NewLinear(size.Draw(r, "in"), size.Draw(r, "out"),
					&nn.LinearOptions{NoBias: rapid.Bool().Draw(r, "bias"), Factory: factory})
			case 1:
				return nn.NewBatchNorm1d(size.Draw(r, "channels"), &nn.BatchNormOptions{Factory: factory})
			case 2:
				return nn.NewLSTM(size.Draw(r, "in"), size.Draw(r, "hidden"),
					&nn.RNNOptions{Layers: size.Draw(r, "layers"), Factory: factory})
			case 3:
				return nn.ReLU{}
			}
			s := nn.Sequential{}
			for range rapid.IntRange(0, 3).Draw(r, "length") * min(depth, 1) {
				s = append(s, build(depth-1))
			}
			return s
		}
		var layers nn.Sequential
		for range rapid.IntRange(1, 4).Draw(r, "length") {
			layers = append(layers, build(2))
		}
		path := filepath.Join(dir, "model.safetensors")
		want := snapshot(layers)
		if err := nn.Save(path, layers, map[string]string{"step": "7"}); err != nil {
			r.Fatal(err)
		}
		torch.NoGrad(func() {
			for _, p := range nn.StateDict(layers) {
				p.Tensor.Fill_(3)
			}
		})
		report, err := nn.Load(path, layers, nn.LoadOptions{})
		if err != nil {
			r.Fatal(err)
		}
		if len(report.Loaded) != len(want) {
			r.Errorf("%d tensors were loaded, want %d", len(report.Loaded), len(want))
		}
		if diff := cmp.Diff(want, snapshot(layers)); diff != "" {
			r.Error(diff)
		}
	})
}

func TestSaveWritesWhatPythonReads(t *testing.T) {
	testenv.RequireTorch(t)
	type tied struct {
		Out    *nn.Linear    `module:"out"`
		Embed  *nn.Embedding `module:"embed"`
		Cached torch.Tensor  `buffer:"cached,nonpersistent"`
	}
	m := &tied{Embed: nn.NewEmbedding(4, 3, nil), Out: nn.NewLinear(3, 4, nil), Cached: torch.Ones(1)}
	m.Out.Weight = m.Embed.Weight
	if got := names(nn.Params(m)); !slices.Equal(got, []string{"out.weight", "out.bias"}) {
		t.Errorf("a tied parameter is listed once, under its first name; got %q", got)
	}
	path := filepath.Join(t.TempDir(), "tied.safetensors")
	if err := nn.Save(path, m, map[string]string{"epoch": "3"}); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []string
	for _, info := range f.Tensors() {
		list = append(list, fmt.Sprintf("%s %s %v", info.Name, info.DType, info.Shape))
	}
	if diff := cmp.Diff([]string{"embed.weight F32 [4 3]", "out.bias F32 [4]"}, list); diff != "" {
		t.Errorf("a tied tensor is written once (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"format": "pt", "epoch": "3", "out.weight": "embed.weight"},
		f.Metadata()); diff != "" {
		t.Errorf("metadata (-want +got)\n%s", diff)
	}
	// Either name of a tied tensor suffices to load it.
	want := snapshot(m)
	torch.NoGrad(func() { m.Embed.Weight.Zero_() })
	if _, err := nn.Load(path, m, nn.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, snapshot(m)); diff != "" {
		t.Error(diff)
	}
}

// tiedHead has its embedding under two names and declares which of them is not saved.
type tiedHead struct {
	Out   *nn.Linear    `module:"a"`
	Embed *nn.Embedding `module:"b"`
}

func (*tiedHead) TiedWeights() []string { return []string{"a.weight"} }

func TestTiedWeightsAreSavedUnderTheirOtherName(t *testing.T) {
	testenv.RequireTorch(t)
	m := &tiedHead{Embed: nn.NewEmbedding(4, 3, nil), Out: nn.NewLinear(3, 4, nil)}
	m.Out.Weight = m.Embed.Weight
	path := filepath.Join(t.TempDir(), "tied.safetensors")
	if err := nn.Save(path, m, nil); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []string
	for _, info := range f.Tensors() {
		list = append(list, info.Name)
	}
	if diff := cmp.Diff([]string{"a.bias", "b.weight"}, list); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"format": "pt", "a.weight": "b.weight"}, f.Metadata()); diff != "" {
		t.Errorf("metadata (-want +got)\n%s", diff)
	}
}

// rows is a model whose weight is in files row by row.
type rows struct {
	Bias   torch.Tensor `param:"bias"`
	Weight torch.Tensor `param:"weight"`
}

func (*rows) InFiles(state []torch.Named) (files []torch.Named) {
	for _, t := range state {
		if t.Name != "weight" {
			files = append(files, t)
			continue
		}
		for i, row := range t.Tensor.Detach().Unbind(0) {
			files = append(files, torch.Named{Name: fmt.Sprintf("row.%d", i), Tensor: row})
		}
	}
	return files
}

func newRows(value float64) *rows {
	return &rows{Bias: nn.Parameter(torch.Full(value, 3)), Weight: nn.Parameter(torch.Full(value, 2, 3))}
}

func TestFilesMayHaveAnotherFormThanMemory(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "rows.safetensors")
	require.NoError(t, nn.Save(path, newRows(5), nil))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var list []string
	for _, info := range f.Tensors() {
		list = append(list, fmt.Sprint(info.Name, info.Shape))
	}
	require.Equal(t, []string{"bias[3]", "row.0[3]", "row.1[3]"}, list)

	m := newRows(1)
	report, err := nn.Load(path, m, nn.LoadOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"bias", "row.0", "row.1"}, report.Loaded)
	assert.EqualValues(t, 30, m.Weight.Sum(0).Item())

	_, err = nn.LoadStateDict(m, nn.Tensors(nn.StateDict(newRows(7))), nn.LoadOptions{})
	require.NoError(t, err, "the form of memory")
	assert.EqualValues(t, 42, m.Weight.Sum(0).Item())

	short := nn.FileState(newRows(9))[:2]
	_, err = nn.LoadStateDict(m, nn.Tensors(short), nn.LoadOptions{})
	require.ErrorContains(t, err, "row.1")
	assert.EqualValues(t, 42, m.Weight.Sum(0).Item())
}

func TestLoadRefusesWhatDoesNotFitAndTouchesNothing(t *testing.T) {
	testenv.RequireTorch(t)
	good := func() []torch.Named {
		var ts []torch.Named
		for _, s := range nn.StateDict(newNet()) {
			ts = append(ts, torch.Named{Name: s.Name, Tensor: s.Tensor.Detach().FullLike(5)})
		}
		return ts
	}
	without := func(ts []torch.Named, name string) []torch.Named {
		var rest []torch.Named
		for _, n := range ts {
			if n.Name != name {
				rest = append(rest, n)
			}
		}
		return rest
	}
	extra := torch.Named{Name: "head.weight", Tensor: torch.Zeros(2)}
	resized := torch.Named{Name: "3.bias", Tensor: torch.Zeros(4)}
	tests := []struct {
		name    string
		source  []torch.Named
		options nn.LoadOptions
		refused []string // parts of the error; nil if it loads
		loaded  int
	}{
		{"everything fits", good(), nn.LoadOptions{}, nil, 9},
		{"old files have no num_batches_tracked", without(good(), "1.num_batches_tracked"), nn.LoadOptions{}, nil, 8},
		{"a missing tensor", without(good(), "3.bias"), nn.LoadOptions{},
			[]string{"1 missing, 0 unexpected, 0 of another shape", "missing  3.bias  want [3]"}, 8},
		{"a missing tensor, allowed", without(good(), "3.bias"), nn.LoadOptions{IgnoreMissing: true}, nil, 8},
		{"an unexpected tensor", append(good(), extra), nn.LoadOptions{},
			[]string{"unexpected  head.weight  found [2]"}, 9},
		{"an unexpected tensor, allowed", append(good(), extra), nn.LoadOptions{IgnoreUnexpected: true}, nil, 9},
		{"another shape", append(without(good(), "3.bias"), resized), nn.LoadOptions{},
			[]string{"mismatched  3.bias  want [3], found [4]"}, 8},
		{"another shape, allowed", append(without(good(), "3.bias"), resized), nn.LoadOptions{IgnoreMismatched: true},
			nil, 8},
		{"one permission does not give the others", append(without(good(), "3.bias"), extra),
			nn.LoadOptions{IgnoreMissing: true}, []string{"1 missing, 1 unexpected"}, 8},
		{"names with a prefix, and the remedy", prefixed(good(), "model."), nn.LoadOptions{},
			[]string{`the source's names begin with "model.": LoadOptions.Rename`}, 0},
		{"a prefix cut off", prefixed(good(), "model."),
			nn.LoadOptions{Rename: func(n string) string { return strings.TrimPrefix(n, "model.") }}, nil, 9},
		{"Rename can leave tensors out", append(good(), extra), nn.LoadOptions{Rename: func(n string) string {
			if n == extra.Name {
				return ""
			}
			return n
		}}, nil, 9},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			net := newNet()
			before := snapshot(net)
			report, err := nn.LoadStateDict(net, nn.Tensors(test.source), test.options)
			if len(report.Loaded) != test.loaded {
				t.Errorf("the report lists %d tensors that fit, want %d", len(report.Loaded), test.loaded)
			}
			if test.refused == nil {
				if err != nil {
					t.Fatal(err)
				}
				state := tensors(nn.StateDict(net))
				for _, name := range report.Loaded {
					golden.Bits(t, name, state[name].Detach(), state[name].Detach().FullLike(5))
					delete(before, name)
					delete(state, name)
				}
				for name, want := range before {
					if string(state[name].Bytes()) != string(want) {
						t.Errorf("%s was not in the report but has changed", name)
					}
				}
				return
			}
			if le := (*nn.LoadError)(nil); !errors.As(err, &le) || le.Report != report {
				t.Fatalf("got %v, want a LoadError with the report", err)
			}
			for _, want := range test.refused {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error\n%v\ndoes not say %q", err, want)
				}
			}
			if diff := cmp.Diff(before, snapshot(net)); diff != "" {
				t.Errorf("the module has changed: %s", diff)
			}
		})
	}
}

func prefixed(ts []torch.Named, prefix string) []torch.Named {
	for i := range ts {
		ts[i].Name = prefix + ts[i].Name
	}
	return ts
}

func TestLoadConvertsDTypesAndKeepsLeaves(t *testing.T) {
	testenv.RequireTorch(t)
	l := nn.NewLinear(2, 1, nil)
	source := []torch.Named{{Name: "weight", Tensor: torch.From([]float64{1.5, 2}, 1, 2)},
		{Name: "bias", Tensor: torch.From([]float32{3}).ToDType(torch.BFloat16)}}
	if _, err := nn.LoadStateDict(l, nn.Tensors(source), nn.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	golden.Bits(t, "weight", l.Weight, torch.From([]float32{1.5, 2}, 1, 2))
	golden.Bits(t, "bias", l.Bias, torch.From([]float32{3}))
	if !l.Weight.IsLeaf() || !l.Weight.NeedsGrad() {
		t.Error("the weight is no leaf that gets a gradient any more")
	}
	if !source[0].Tensor.Defined() || source[0].Tensor.Numel() != 2 {
		t.Error("the source's tensor was freed")
	}
}

// Files of many megabytes are read by several goroutines. The file contains the tied weight under
// both names, as older versions of transformers wrote it.
func TestLargeModelsLoadBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	build := func(tied bool) nn.Sequential {
		var s nn.Sequential
		for range 6 {
			s = append(s, nn.NewLinear(1024, 1024, nil))
		}
		if tied {
			s[5].(*nn.Linear).Weight = s[0].(*nn.Linear).Weight
		}
		return s
	}
	for _, tied := range []bool{false, true} {
		from, path := build(tied), filepath.Join(t.TempDir(), "model.safetensors")
		entries, err := tensorio.Entries(nn.StateDict(from))
		require.NoError(t, err)
		require.NoError(t, safetensors.WriteFile(path, entries, nil))
		to := build(tied)
		report, err := nn.Load(path, to, nn.LoadOptions{})
		require.NoError(t, err)
		assert.Len(t, report.Loaded, 12)
		want := snapshot(from)
		for name, bytes := range snapshot(to) {
			assert.True(t, string(bytes) == string(want[name]), name) // unlike Equal, it does not print megabytes
		}
	}
}

// broken fails at the given read.
type broken struct {
	nn.Source
	at int
}

var errBroken = errors.New("the disk is gone")

func (b *broken) Read(name string) (torch.Tensor, error) {
	if b.at--; b.at < 0 {
		return torch.Tensor{}, errBroken
	}
	return b.Source.Read(name)
}

func TestFailuresWhileReadingAreErrors(t *testing.T) {
	testenv.RequireTorch(t)
	for at := range 3 {
		net := newNet()
		_, err := nn.LoadStateDict(net, &broken{nn.Tensors(nn.StateDict(newNet())), at}, nn.LoadOptions{})
		if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "could not be read") {
			t.Errorf("read %d fails: got %v", at, err)
		}
	}
	net := newNet()
	if _, err := nn.Load(filepath.Join(t.TempDir(), "none"), net, nn.LoadOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := nn.Save(path, net, nil); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	before := snapshot(net)
	if _, err := nn.Load(path, net, nn.LoadOptions{}); !errors.Is(err, safetensors.ErrIncomplete) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("a file cut short: got %v", err)
	}
	if diff := cmp.Diff(before, snapshot(net)); diff != "" {
		t.Error("a damaged file has changed the module")
	}
	if err := nn.Save(filepath.Join(path, "below", "a.file"), net, nil); err == nil {
		t.Error("a file below a file was saved")
	}
	if err := nn.Save(path, nn.Linear{}, nil); err == nil {
		t.Error("a module by value was saved")
	}
	rename := nn.LoadOptions{Rename: func(string) string { return "3.bias" }}
	if _, err := nn.LoadStateDict(net, nn.Tensors(nn.StateDict(net)), rename); !errors.Is(err, torch.ErrValue) ||
		!strings.Contains(err.Error(), "check Rename") {
		t.Errorf("two tensors of one name: got %v", err)
	}
}

func TestReportsStayShort(t *testing.T) {
	r := &nn.Report{Loaded: []string{"a"}}
	for i := range 100 {
		r.Missing = append(r.Missing, nn.TensorInfo{Name: fmt.Sprint("layer.", i), Shape: []int64{2, int64(i)}})
	}
	s := r.String()
	if lines := strings.Count(s, "\n"); lines != 22 || !strings.Contains(s, "and 80 more") || !strings.HasPrefix(s,
		"1 tensors fit\n") {
		t.Errorf("%d lines:\n%s", lines, s)
	}
}

func FuzzLoad(f *testing.F) {
	testenv.RequireTorch(f)
	f.Setenv("TMPDIR", f.TempDir()) // also for the fuzzing workers, which may be killed
	module := func() any { return nn.NewBatchNorm1d(2, nil) }
	path := filepath.Join(f.TempDir(), "seed.safetensors")
	if err := nn.Save(path, module(), nil); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(bytes.Replace(seed, []byte("bias"), []byte("bios"), 1))
	f.Add(bytes.Replace(seed, []byte("F32"), []byte("I32"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := safetensors.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		m := module()
		before := snapshot(m)
		report, err := nn.LoadStateDict(m, nn.FileSource(r), nn.LoadOptions{})
		if err == nil {
			return
		}
		if err.Error() == "" {
			t.Error("an error without words")
		}
		if le := (*nn.LoadError)(nil); errors.As(err, &le) && (report == nil || !cmp.Equal(before, snapshot(m))) {
			t.Errorf("a refused file has changed the module: %v", err)
		}
	})
}

func TestWriteWritesWhatSaveSaves(t *testing.T) {
	testenv.RequireTorch(t)
	m := nn.Sequential{nn.NewLinear(3, 4, nil), nn.NewBatchNorm1d(4, nil)}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	metadata := map[string]string{"epoch": "3"}
	if err := nn.Save(path, m, metadata); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := nn.Write(&got, m, metadata); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("Write writes %d bytes, and not the %d that Save writes", got.Len(), len(want))
	}
	if err := nn.Write(brokenWriter{}, m, nil); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(),
		"nn: write: ") {
		t.Errorf("a writer that fails gives %v", err)
	}
	if err := nn.Write(&got, nn.Sequential{nn.NewLazyLinear(2, nil)}, nil); !errors.Is(err, torch.ErrUndefined) {
		t.Errorf("a layer without parameters so far gives %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }
