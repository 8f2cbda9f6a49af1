package torch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// checksUse is whether freeing of tensors is delayed, see CheckUse.
var checksUse atomic.Bool

// grace is how long a freed tensor is kept: far longer than any call already in progress takes.
const grace = time.Second

// CheckUse helps to find a tensor that one goroutine frees while another uses it. Such a use
// crashes the process (SIGSEGV) if it coincides with the freeing. While CheckUse is on, freed
// tensors stay in memory for another second, so that the use either succeeds or panics with the
// message about a freed tensor. GOTRAINER_CHECK=1 in the environment turns it on from the start.
// Programs then need more memory, but are not slower. The race detector reports both places.
func CheckUse(on bool) { checksUse.Store(on) }

// free drops references to tensors, after the grace period if CheckUse is on.
func free(ts []cgotorch.Tensor) {
	if !checksUse.Load() {
		cgotorch.FreeTensors(ts)
		return
	}
	if len(ts) == 0 {
		return
	}
	ts = slices.Clone(ts)
	time.AfterFunc(grace, func() { cgotorch.FreeTensors(ts) })
}
