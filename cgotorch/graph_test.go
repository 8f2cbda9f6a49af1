package cgotorch_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// GOTRAINER_TEST_GRAPHS is set by make graphs to the library that it builds with CUDA's headers and
// with stubs in place of CUDA.
func TestTheLibraryOfGraphsOpens(t *testing.T) {
	testenv.RequireTorch(t)
	path := os.Getenv("GOTRAINER_TEST_GRAPHS")
	if path == "" {
		t.Skip("make graphs builds the library with CUDA's headers")
	}
	require.NoError(t, cgotorch.LoadGraphs(path))
	assert.True(t, cgotorch.HasGraphs())
	assert.True(t, cgotorch.HasNCCL(), "it was built with nccl.h")
}

func TestWhatIsNoLibraryOfGraphsIsNamed(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "libcgotorch_cuda.so")
	require.ErrorContains(t, cgotorch.LoadGraphs(path), "cannot load "+path)
	build, err := torch.BuildInfo()
	require.NoError(t, err)
	require.ErrorContains(t, cgotorch.LoadGraphs(build.Library), "it is not a libcgotorch_cuda")
}
