package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// TestTheScalerSurvivesAResumeAtEveryUpdate trains in float16 from a scale at which the gradients
// overflow, so that updates are skipped and the scale falls and grows again. Which updates are
// skipped determines how often the schedule advances.
func TestTheScalerSurvivesAResumeAtEveryUpdate(t *testing.T) {
	testenv.RequireTorch(t)
	const first = 1 << 20
	for name, loop := range map[string]semantics.Loop{
		"Default": semantics.DefaultLoop, "HuggingFace": semantics.HuggingFaceLoop, "Hezar": semantics.HezarLoop,
		"PyTorchAccelerated": semantics.PytorchAcceleratedLoop, "PyMarlin": semantics.PyMarlinLoop,
	} {
		run := func(t *testing.T, from, dir string) (bits string, scale float64) {
			torch.ManualSeed(9)
			s, err := engine.New(engine.Classify(newNet()), engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
			require.NoError(t, err)
			engine.UseFloat16(s, amp.GradScalerOptions{InitScale: first, GrowthInterval: 2})
			o := quiet(trainer.Options{OutputDir: dir, Epochs: 2, BatchSize: 2, Accumulate: 3, ResumeFrom: from,
				Semantics: semantics.Rules{Loop: loop}})
			if dir != "" {
				o.Save = trainer.Every(1, trainer.Update)
			}
			fit, err := trainer.New(s, o)
			require.NoError(t, err)
			_, err = fit.Fit(t.Context(), ring(20), nil)
			require.NoError(t, err)
			return fmt.Sprintf("%s %+v", fingerprint(s), engine.Scaler(s).State()), engine.Scaler(s).GetScale()
		}
		dir := t.TempDir()
		want, scale := run(t, "", dir)
		require.Less(t, scale, float64(first), "%s: no gradient overflowed", name)
		checkpoints, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(checkpoints), 6)
		for _, from := range checkpoints {
			t.Run(name+" from "+filepath.Base(from), func(t *testing.T) {
				require.FileExists(t, filepath.Join(from, "scaler.json"))
				got, _ := run(t, from, "")
				assert.Equal(t, want, got)
			})
		}
		assert.NoError(t, os.RemoveAll(dir))
	}
}
