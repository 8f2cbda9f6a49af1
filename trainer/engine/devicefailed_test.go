package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// broken is a task during whose forward or backward pass with number at a GPU fails, with
// libtorch's own exception.
type broken struct {
	tagTask
	at, passes int
	backward   bool
}

func (t *broken) Loss(p engine.ForwardPass, b tokenBatch) engine.Loss {
	loss := t.tagTask.Loss(p, b)
	if t.passes++; t.passes == t.at {
		loss.Value = torch.Call("gotrainer::throw_for_test", loss.Value, 10, t.backward)[0]
	}
	return loss
}

// A GPU that fails ends the run: no checkpoint is made of the current state, earlier ones remain
// complete, and there is a separate exit code. Python's Trainer ends with the same exception.
func TestARunWhoseGPUFailsEndsWithoutASaveAndResumesFromTheLast(t *testing.T) {
	testenv.RequireTorch(t)
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	for name, backward := range map[string]bool{"forward": false, "backward": true} {
		for name, o := range map[string]trainer.Options{name: {}, name + ", saved asynchronously": {AsyncSave: true},
			name + ", in parts":                      {DivideOnOutOfMemory: true},
			name + ", with a batch size to be found": {AutoFindBatchSize: true}} {
			t.Run(name, func(t *testing.T) {
				defer cgotorch.ThrowForTest(cgotorch.Mend)
				dir := t.TempDir()
				o.OutputDir, o.Epochs, o.BatchSize, o.Save = dir, 1, 4, trainer.Every(2, trainer.Update)
				fit := func(at int, o trainer.Options) error {
					torch.ManualSeed(5)
					s, err := engine.New[tokens, tokenBatch](&broken{tagTask: tagTask{newTagger(0)}, at: at, backward: backward},
						engine.Options{})
					require.NoError(t, err)
					tr, err := trainer.New(s, quiet(o))
					require.NoError(t, err)
					_, err = tr.Fit(t.Context(), train[:24], nil)
					return err
				}
				err := fit(4, o)
				require.ErrorIs(t, err, torch.ErrDevice)
				assert.Equal(t, run.Device, run.CodeOf(err))
				assert.True(t, torch.DeviceFailed())
				found, err := filepath.Glob(filepath.Join(dir, "*checkpoint-*"))
				require.NoError(t, err)
				assert.Equal(t, []string{filepath.Join(dir, "checkpoint-2")}, found, "no draft, and no checkpoint of update 3")
				cgotorch.ThrowForTest(cgotorch.Mend) // as in another process
				o.ResumeFrom = trainer.Latest
				require.NoError(t, fit(-1, o))
			})
		}
	}
}
