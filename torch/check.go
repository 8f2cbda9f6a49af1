package torch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// checksUse is whether freed tensors stay for a while.
var checksUse atomic.Bool

// grace is how long a freed tensor stays: far longer than any call that had begun takes.
const grace = time.Second

// CheckUse helps to find a tensor that one goroutine frees while another uses it. Such a use
// crashes the process (SIGSEGV) if it coincides with the freeing. While CheckUse is on, freed
// tensors stay in memory for another second, so that the use either succeeds or panics with the
// message about a freed tensor. GOTRAINER_CHECK=1 in the environment turns it on from the start.
// Programs then need more memory, but are not slower. The race detector reports both places.
func CheckUse(on bool) { checksUse.Store(on) }

// free gives references back, now or, while uses are checked, later.
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
