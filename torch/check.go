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
// crashes the process (SIGSEGV) when it falls into the instant of the freeing; while CheckUse is
// on, as it is from the start with GOTRAINER_CHECK=1 in the environment, what is freed stays in
// memory for a second more, so that the use succeeds or panics with the sentence about a freed
// tensor. Programs need more memory meanwhile and are not slower. The race detector names both
// places.
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
