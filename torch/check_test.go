package torch_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// TestFreeBesideAUseIsASentenceWhereItIsChecked checks the error of CheckUse; without it, the
// program would crash within seconds.
func TestFreeBesideAUseIsASentenceWhereItIsChecked(t *testing.T) {
	testenv.RequireTorch(t)
	if raceDetector {
		t.Skip("the race detector reports the misuse itself")
	}
	if os.Getenv(childVariable) == "check" {
		freeBesideUse()
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFreeBesideAUseIsASentenceWhereItIsChecked$", "-test.v")
	cmd.Env = append(os.Environ(), childVariable+"=check", "GOTRAINER_CHECK=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "SURVIVED")
	assert.Contains(t, string(out), "a tensor was used after it was freed")
}

// freeBesideUse frees tensors in one goroutine while another uses them, for a second.
func freeBesideUse() {
	torch.SetThreads(1)
	said := ""
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		x := torch.Randn(256)
		done := make(chan struct{})
		go func() { defer close(done); x.Free() }()
		if err := torch.Try(func() {
			for range 3 {
				x.AddScalar(1).Free()
			}
		}); err != nil {
			said = err.Error()
		}
		<-done
	}
	println("SURVIVED", said)
}

func TestCheckedTensorsAreFreedInTheEnd(t *testing.T) {
	testenv.RequireTorch(t)
	torch.CheckUse(true)
	defer torch.CheckUse(false)
	before := torch.Live()
	var inner torch.Tensor
	torch.Scope(func() { inner = torch.Ones(3) })
	x := torch.Ones(3)
	x.Free()
	for _, freed := range []torch.Tensor{inner, x} {
		e := mustFail(t, func() { freed.AddScalar(1) })
		assert.ErrorIs(t, e, torch.ErrFreed)
		assert.True(t, strings.HasPrefix(e.Error(), "torch: AddScalar"))
	}
	assert.Equal(t, before, torch.Live(), "they are not counted as live")
}
