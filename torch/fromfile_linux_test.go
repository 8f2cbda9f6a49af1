package torch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestFromFile(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "bytes")
	require.NoError(t, os.WriteFile(path, []byte{1, 2, 3}, 0o666))
	torch.Scope(func() {
		x, err := torch.FromFile(path, 2)
		require.NoError(t, err)
		assert.Equal(t, []uint8{1, 2}, torch.Values[uint8](x))
		_, err = torch.FromFile(path, 4)
		assert.ErrorContains(t, err, "torch: aten::from_file")
		_, err = torch.FromFile(path+"s", 1)
		assert.ErrorContains(t, err, path+"s")
	})
}
