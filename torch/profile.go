package torch

import (
	"fmt"
	"os"
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// ProfileOptions are the options of [Profile].
type ProfileOptions struct {
	Shapes bool // record the shapes of the operators' arguments
	Memory bool // record allocations
}

// Profile runs f and writes what libtorch did meanwhile to a file, as a trace for chrome://tracing
// or ui.perfetto.dev: torch.profiler.profile. The trace contains the operators of the calling
// goroutine, the backward passes it runs and, with a CUDA build, the kernels, but not the
// operators of goroutines that f starts. If the file cannot be written or another profile is being
// taken, Profile returns an error without running f.
func Profile(path string, o ProfileOptions, f func()) (err error) {
	load("Profile")
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("torch: Profile: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("torch: Profile: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := Try(func() { check("Profile", cgotorch.StartProfiler(o.Shapes, o.Memory)) }); err != nil {
		return err
	}
	defer func() {
		stopped := Try(func() { check("Profile", cgotorch.StopProfiler(path)) })
		if err = stopped; err != nil {
			return
		}
		// If libtorch could not write the file, it only logs that.
		if info, statErr := os.Stat(path); statErr != nil {
			err = fmt.Errorf("torch: Profile: %w", statErr)
		} else if info.Size() == 0 {
			err = fmt.Errorf("torch: Profile: libtorch wrote nothing to %s", path)
		}
	}()
	f()
	return nil
}
