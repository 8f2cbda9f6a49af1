package tensorio_test

import (
	"os"
	"path/filepath"
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

// outlined saves tensors, the last two of which are large.
func outlined(t *testing.T) (path string, saved []torch.Named) {
	path = filepath.Join(t.TempDir(), "x.safetensors")
	long := torch.Arange(3 << 20).To(torch.TensorOptions{DType: torch.Float32})
	saved = []torch.Named{{Name: "scalar", Tensor: torch.ScalarTensor(float32(2))},
		{Name: "empty", Tensor: torch.Ones(0, 3)},
		{Name: "below", Tensor: long.Narrow(0, 0, 16<<10-1)}, {Name: "at", Tensor: long.Narrow(0, 7, 16<<10).View(2, -1)},
		{Name: "long", Tensor: long}}
	require.NoError(t, tensorio.Save(path, saved, map[string]string{"updates": "7"}))
	return path, saved
}

func TestOutlineLeavesLargeTensorsToBeReadInPlace(t *testing.T) {
	testenv.RequireTorch(t)
	before := testenv.Live()
	torch.Scope(func() {
		path, saved := outlined(t)
		ts, metadata, fill, err := tensorio.Outline(path)
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"updates": "7"}, metadata)
		require.Len(t, ts, len(saved))
		got := map[string]torch.Tensor{}
		var into []torch.Named
		for _, o := range ts {
			got[o.Name] = o.Tensor
			if large := o.Name == "at" || o.Name == "long"; large {
				require.Equal(t, torch.Meta, o.Tensor.Device(), o.Name)
				got[o.Name] = torch.Zeros(o.Tensor.Shape()...)
			}
			into = append(into, torch.Named{Name: o.Name, Tensor: got[o.Name]})
		}
		require.NoError(t, fill(into))
		for _, s := range saved {
			golden.Bits(t, s.Name, got[s.Name], s.Tensor)
		}
		tensorio.Free(ts)
	})
	assert.LessOrEqual(t, torch.Live(), before)
}

func TestOutlineSaysWhatIsWrong(t *testing.T) {
	testenv.RequireTorch(t)
	folder := t.TempDir()
	_, _, _, err := tensorio.Outline(filepath.Join(folder, "none"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	short := filepath.Join(folder, "short")
	require.NoError(t, os.WriteFile(short, []byte("short"), 0o666))
	_, _, _, err = tensorio.Outline(short)
	assert.ErrorIs(t, err, safetensors.ErrHeaderTooSmall)
	torch.Scope(func() {
		path, saved := outlined(t)
		_, _, fill, err := tensorio.Outline(path)
		require.NoError(t, err)
		assert.ErrorContains(t, fill(saved[:4]), `tensor "long"`, "it has no place")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, int64(len(text)-1)))
		assert.ErrorContains(t, fill(saved), path, "the file has become shorter")
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), `"F32"`, `"U32"`, 1)), 0o666))
		_, _, _, err = tensorio.Outline(path)
		assert.ErrorContains(t, err, "which tensors here cannot have")
	})
}
