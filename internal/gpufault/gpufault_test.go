package gpufault_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/gpufault"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestTheOperatorOfTheTestsChoiceFails(t *testing.T) {
	testenv.RequireTorch(t)
	t.Cleanup(gpufault.Mend)
	x, w := torch.Ones(2, 2), torch.Ones(2, 2).RequiresGrad()
	backward := func() { x.MatMul(w).Sum(torch.Float32).Backward() }
	stop := gpufault.Never()
	require.NoError(t, torch.Try(backward))
	forward := 2
	calls := stop()
	require.Greater(t, calls, forward+1, "the operators of the backward pass are counted too")

	broken := gpufault.Fault{Exception: gpufault.Accelerator, Number: 700, Text: "CUDA error: an illegal memory access"}
	for n := range calls {
		gpufault.Mend()
		stop := broken.After(n, true)
		err := torch.Try(backward)
		assert.GreaterOrEqual(t, gpufault.Called(), n)
		stop()
		require.ErrorIs(t, err, torch.ErrDevice, "operator %d of %d", n, calls)
	}
	gpufault.Mend()
	require.NoError(t, torch.Try(backward), "it is over")
}

// An operator that runs out of memory is called again after the caches were emptied; one inside a
// backward pass is not.
func TestWhatFailsOnceIsTriedAgain(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2)
	stop := gpufault.Short.After(0, true)
	err := torch.Try(func() { x.Add(x) })
	assert.Equal(t, 2, stop())
	require.NoError(t, err)

	stop = gpufault.Short.After(0, false)
	err = torch.Try(func() { x.Add(x) })
	assert.Equal(t, 2, stop())
	require.ErrorIs(t, err, torch.ErrOutOfMemory)
	require.ErrorContains(t, err, "Tried to allocate 2.00 GiB")
}

func TestTheExceptionIsTheOneAskedFor(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2)
	for _, c := range []struct {
		fault gpufault.Fault
		want  torch.Code
	}{
		{gpufault.Fault{Exception: gpufault.Plain, Text: "it does not fit"}, torch.ErrInvalid},
		{gpufault.Fault{Exception: gpufault.Standard, Text: "CUDA out of memory."}, torch.ErrOutOfMemory},
		{gpufault.Fault{Exception: gpufault.NotImplemented, Text: "no kernel"}, torch.ErrNotSupported},
		{gpufault.Fault{Exception: gpufault.Accelerator, Number: 101, Text: "CUDA error"}, torch.ErrInvalid},
		{gpufault.Short, torch.ErrOutOfMemory},
	} {
		stop := c.fault.After(0, false)
		err := torch.Try(func() { x.Add(x) })
		stop()
		require.ErrorIs(t, err, c.want, c.fault.Exception)
		assert.ErrorContains(t, err, c.fault.Text)
	}
}
