package torch_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// groupOn returns a group of one process with a GPU.
func groupOn(t *testing.T, d torch.Device) (*torch.ProcessGroup, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return torch.NewProcessGroup(torch.ProcessGroupOptions{World: 1, Store: l.Addr().String(),
		Listener: l.(*net.TCPListener), Name: t.Name(), Address: "127.0.0.1", Device: d,
		Join: time.Minute, Timeout: time.Minute})
}

// The backend that replaces NCCL records its calls.
func TestAGPUsGroupIsMadeForItAbortedAndShutDown(t *testing.T) {
	testenv.RequireTorch(t)
	require.NoError(t, torch.Load())
	cgotorch.PretendGraphs(true)
	t.Cleanup(func() { cgotorch.PretendGraphs(false) })
	require.True(t, torch.NCCLAvailable())
	asked := func() (all [3]int64) {
		all[0], all[1], all[2] = cgotorch.PretendedNCCL()
		return all
	}
	g, err := groupOn(t, torch.CUDA(3))
	require.NoError(t, err)
	assert.Equal(t, [3]int64{3, 0, 0}, asked(), "GPU, aborted, shut down")
	torch.Scope(func() { // gloo handles the CPU's tensors
		assert.Equal(t, []float32{1, 1}, torch.Values[float32](g.AllReduce(torch.Ones(2))))
	})
	g.Abort("a process is gone")
	assert.Equal(t, [3]int64{3, 1, 0}, asked())
	err = torch.Try(func() { g.AllReduce(torch.Ones(2)) })
	require.ErrorContains(t, err, "a process is gone")
	g.Close()

	g, err = groupOn(t, torch.CUDA(2))
	require.NoError(t, err)
	g.Shutdown()
	g.Abort("the end")
	assert.Equal(t, [3]int64{2, 0, 1}, asked(), "after a shutdown there is nothing to abort")
	g.Close()

	g, err = groupOn(t, torch.CPU)
	require.NoError(t, err)
	g.Shutdown()
	g.Abort("the end")
	assert.Equal(t, [3]int64{2, 0, 1}, asked(), "a group on the CPU has nothing to abort")
	g.Close()
}

func TestAGPUsGroupWithoutNCCLSaysHowToGetIt(t *testing.T) {
	testenv.RequireTorch(t)
	if torch.NCCLAvailable() {
		t.Skip("NCCL is here")
	}
	_, err := groupOn(t, torch.CUDA(0))
	require.ErrorIs(t, err, torch.ErrNotSupported)
	assert.ErrorContains(t, err, "make setup CUDA=1")
	_, err = torch.NewProcessGroup(torch.ProcessGroupOptions{World: 2, Fake: true, Checked: true})
	require.ErrorIs(t, err, torch.ErrInvalid)
}

// In libtorch 2.11, this setting promises encryption but does not encrypt.
func TestTLSOfGlooIsRefusedSinceItEncryptsNothing(t *testing.T) {
	testenv.RequireTorch(t)
	t.Setenv("GLOO_DEVICE_TRANSPORT", "TCP_TLS")
	_, err := groupOn(t, torch.CPU)
	require.ErrorIs(t, err, torch.ErrNotSupported)
	assert.ErrorContains(t, err, "values travel unencrypted")
}
