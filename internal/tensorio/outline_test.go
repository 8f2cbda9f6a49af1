package tensorio_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// mappings is how often the process has the file mapped.
func mappings(t *testing.T, path string) int {
	text, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(text), path)
}

func TestMapGivesWhatLoadGives(t *testing.T) {
	testenv.RequireTorch(t)
	before := testenv.Live()
	path := filepath.Join(t.TempDir(), "x.safetensors")
	torch.Scope(func() {
		require.NoError(t, tensorio.Save(path, []torch.Named{
			{Name: "a", Tensor: torch.Arange(6).View(2, 3)}, {Name: "b", Tensor: torch.From([]float32{1.5})},
			{Name: "scalar", Tensor: torch.ScalarTensor(float32(2))}, {Name: "empty", Tensor: torch.Ones(0, 3)},
			{Name: "half", Tensor: torch.Ones(3).To(torch.TensorOptions{DType: torch.BFloat16})},
			{Name: "yes", Tensor: torch.From([]bool{true, false, true})},
		}, map[string]string{"updates": "7"}))
		want, _, err := tensorio.Load(path)
		require.NoError(t, err)
		got, metadata, err := tensorio.Map(path)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"updates": "7"}, metadata)
		require.Len(t, got, len(want))
		for i, w := range want {
			assert.Equal(t, w.Name, got[i].Name)
			golden.Bits(t, w.Name, got[i].Tensor, w.Tensor)
		}
		if runtime.GOOS == "linux" {
			assert.Equal(t, 1, mappings(t, path))
		}
		tensorio.Free(got)
		if runtime.GOOS == "linux" {
			assert.Equal(t, 0, mappings(t, path), "the file is mapped no longer than its tensors live")
		}
	})
	assert.LessOrEqual(t, torch.Live(), before)
}

// What is written to such a tensor stays in this process.
func TestMapDoesNotChangeTheFile(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	torch.Scope(func() {
		require.NoError(t, tensorio.Save(path, []torch.Named{{Name: "a", Tensor: torch.Zeros(1000)}}, nil))
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		ts, _, err := tensorio.Map(path)
		require.NoError(t, err)
		ts[0].Tensor.Fill_(1)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, after)
	})
}

// A file whose tensors do not begin at multiples of their element's size is one of safetensors too.
func TestMapLoadsWhatCannotBeViewed(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	header := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	header += strings.Repeat(" ", 9-len(header)%8) // one more than a multiple of eight
	file := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	require.NoError(t, os.WriteFile(path, append(file, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40), 0o666))
	torch.Scope(func() {
		ts, _, err := tensorio.Map(path)
		require.NoError(t, err)
		assert.Equal(t, []float32{1, 2}, torch.Values[float32](ts[0].Tensor))
	})
}

func TestMapSaysWhatIsWrongAsLoadDoes(t *testing.T) {
	testenv.RequireTorch(t)
	folder := t.TempDir()
	_, _, err := tensorio.Map(filepath.Join(folder, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	short := filepath.Join(folder, "short")
	require.NoError(t, os.WriteFile(short, []byte("short"), 0o666))
	_, _, err = tensorio.Map(short)
	assert.ErrorIs(t, err, safetensors.ErrHeaderTooSmall)
	unknown := filepath.Join(folder, "unknown")
	torch.Scope(func() {
		require.NoError(t, tensorio.Save(unknown, []torch.Named{{Name: "a", Tensor: torch.Zeros(2)}}, nil))
	})
	text, err := os.ReadFile(unknown)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(unknown, []byte(strings.Replace(string(text), `"F32"`, `"U32"`, 1)), 0o666))
	_, _, err = tensorio.Map(unknown)
	assert.ErrorContains(t, err, "which tensors here cannot have")
}
