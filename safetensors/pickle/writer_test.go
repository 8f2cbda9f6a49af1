package pickle_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// entriesOf returns the tensors of a file.
func entriesOf(t *testing.T, f *pickle.File) (entries []safetensors.Entry) {
	t.Helper()
	for _, x := range f.Tensors() {
		data, err := f.Read(x.Name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, safetensors.Entry{Name: x.Name, DType: x.DType, Shape: x.Shape,
			Data: safetensors.Bytes(data)})
	}
	return entries
}

func TestWhatPyTorchWroteSurvivesWriting(t *testing.T) {
	for _, name := range []string{"state.bin", "newer.bin"} {
		f, err := pickle.Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := entriesOf(t, f)
		state, err := pickle.StateDict(want)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "copy.pt")
		if err := pickle.WriteFile(path, state); err != nil {
			t.Fatal(err)
		}
		g, err := pickle.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for _, e := range want {
			x, ok := g.Tensor(e.Name)
			if !ok || x.DType != e.DType || !cmp.Equal(x.Shape, e.Shape, cmpopts.EquateEmpty()) {
				t.Errorf("%s: %s came back as %v", name, e.Name, x)
				continue
			}
			var wrote bytes.Buffer
			if err := e.Data(&wrote); err != nil {
				t.Fatal(err)
			}
			if got, err := g.Read(e.Name); err != nil || !bytes.Equal(got, wrote.Bytes()) {
				t.Errorf("%s: %s came back with other bytes (%v)", name, e.Name, err)
			}
		}
		if d, ok := g.Value().(*pickle.Dict); !ok || !d.Ordered || len(d.Keys) != len(want) {
			t.Errorf("%s: the state came back as %T", name, g.Value())
		}
	}
}

func TestAnEntryInSeveralPlacesIsOneTensorInTheFile(t *testing.T) {
	entry := func(name, content string) *safetensors.Entry {
		return &safetensors.Entry{Name: name, DType: safetensors.U8, Shape: []int64{4},
			Data: safetensors.Bytes([]byte(content))}
	}
	tied, other := entry("a", "tied"), entry("b", "else")
	d := &pickle.Dict{}
	for name, e := range map[string]*safetensors.Entry{"a": tied, "b": other, "c": tied} {
		require.NoError(t, d.Set(name, e))
	}
	path := filepath.Join(t.TempDir(), "x.pt")
	require.NoError(t, pickle.WriteFile(path, d))
	f, err := pickle.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for name, want := range map[string]string{"a": "tied", "b": "else", "c": "tied"} {
		got, err := f.Read(name)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), name)
	}
	z, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer z.Close()
	storages := 0
	for _, part := range z.File {
		if strings.HasPrefix(part.Name, "x/data/") {
			storages++
		}
	}
	assert.Equal(t, 2, storages)
}

func TestTensorsAreAligned(t *testing.T) {
	state, err := pickle.StateDict([]safetensors.Entry{
		{Name: "a", DType: safetensors.U8, Shape: []int64{3}, Data: safetensors.Bytes([]byte{1, 2, 3})},
		{Name: "b", DType: safetensors.F32, Shape: []int64{1}, Data: safetensors.Bytes([]byte{1, 2, 3, 4})},
	})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pickle.Write(&b, "m", state); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range z.File {
		at, err := f.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(f.Name, "m/data/") {
			seen++
			if at%64 != 0 || f.Method != zip.Store {
				t.Errorf("%s begins at byte %d with method %d; want a multiple of 64, and no compression", f.Name, at,
					f.Method)
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d tensors, want 2", seen)
	}
}

func TestValuesSurviveWriting(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "bool") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "int") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64().Draw(t, "float") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "string") }),
		rapid.Custom(func(t *rapid.T) any {
			n := new(big.Int).Lsh(big.NewInt(rapid.Int64Min(1).Draw(t, "high")), rapid.UintRange(64, 200).Draw(t,
				"shift"))
			if rapid.Bool().Draw(t, "negative") {
				n.Neg(n)
			}
			return n
		}))
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return scalar
		}
		return rapid.OneOf(scalar,
			rapid.Custom(func(t *rapid.T) any {
				return pickle.Tuple(rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "tuple"))
			}),
			rapid.Custom(func(t *rapid.T) any {
				return &pickle.List{Items: rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list")}
			}),
			rapid.Custom(func(t *rapid.T) any {
				d := &pickle.Dict{Ordered: rapid.Bool().Draw(t, "ordered")}
				for _, key := range rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "keys") {
					if err := d.Set(key, value(depth-1).Draw(t, "value")); err != nil {
						t.Fatal(err)
					}
				}
				return d
			}))
	}
	rapid.Check(t, func(t *rapid.T) {
		want := value(3).Draw(t, "value")
		var b bytes.Buffer
		if err := pickle.Write(&b, "v", want); err != nil {
			t.Fatal(err)
		}
		r, err := pickle.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		same := []cmp.Option{cmpopts.EquateEmpty(), cmpopts.EquateNaNs(), cmpopts.IgnoreUnexported(pickle.Dict{}),
			cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })}
		if diff := cmp.Diff(want, r.Value(), same...); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	short := &safetensors.Entry{Name: "w", DType: safetensors.F32, Shape: []int64{2},
		Data: safetensors.Bytes([]byte{1})}
	endless := &pickle.List{}
	endless.Items = []any{endless}
	failing := &safetensors.Entry{Name: "w", DType: safetensors.F32, Shape: []int64{1}, Data: func(io.Writer) error {
		return io.ErrUnexpectedEOF
	}}
	for _, c := range []struct {
		claim string
		value any
		want  string
	}{
		{"a tensor with too few bytes", short, `tensor "w" wrote 1 bytes; its type and shape, float32[2], have 8`},
		{"a tensor that cannot be fetched", failing, "unexpected EOF"},
		{"a tensor without data", &safetensors.Entry{Name: "w", DType: safetensors.F32}, "has no data"},
		{"a type that PyTorch does not have", &safetensors.Entry{Name: "w", DType: safetensors.F4}, "no F4"},
		{"a shape below zero", &safetensors.Entry{Name: "w", DType: safetensors.F32, Shape: []int64{-1}},
			"its shape is [-1]"},
		{"a list in itself", endless, "contain themselves"},
		{"a channel", make(chan int), "chan int cannot be written"},
		{"a number of 3000 bits", new(big.Int).Lsh(big.NewInt(1), 3000), "3001 bits"},
	} {
		path := filepath.Join(t.TempDir(), "x.pt")
		if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := pickle.WriteFile(path, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", c.claim, err, c.want)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != "before" {
			t.Errorf("%s: the file is now %q (%v)", c.claim, now, err)
		}
	}
	if _, err := pickle.StateDict([]safetensors.Entry{{Name: "a"}, {Name: "a"}}); err == nil {
		t.Error("StateDict takes a name twice")
	}
	if err := pickle.Write(io.Discard, "a/b", nil); err == nil {
		t.Error("Write takes a folder with a slash")
	}
	if err := pickle.Write(fullDisk{}, "a", nil); !errors.Is(err, errFull) {
		t.Errorf("a full disk: error %v", err)
	}
}

var errFull = errors.New("disk full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
