package trainer_test

import (
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// stopAt ends a run at the n-th call of an event.
type stopAt struct {
	event string
	n     int
}

func (s *stopAt) here(event string) error {
	if event != s.event {
		return nil
	}
	if s.n--; s.n == 0 {
		return trainer.StopError("enough")
	}
	return nil
}

func (s *stopAt) BatchBegin(*trainer.Run) error    { return s.here("batch begin") }
func (s *stopAt) AfterForward(*trainer.Run) error  { return s.here("forward") }
func (s *stopAt) AfterBackward(*trainer.Run) error { return s.here("backward") }
func (s *stopAt) BeforeUpdate(*trainer.Run) error  { return s.here("update") }

var tracedBatch = regexp.MustCompile(`^forward\((\d+)/`)

// updated returns the samples of a session that were part of its updates.
func updated(step *trainertest.Step) (used []int) {
	var window []int
	for _, call := range strings.Fields(step.Trace()) {
		if m := tracedBatch.FindStringSubmatch(call); m != nil {
			sample, _ := strconv.Atoi(m[1])
			window = append(window, sample)
		}
		if strings.HasPrefix(call, "update(") {
			used, window = append(used, window...), nil
		}
	}
	return used
}

// When a hook ends a run inside a window, the resumed run trains on its batches, and their losses
// are left out before that.
func TestAStopInsideAWindowIsResumedBeforeIt(t *testing.T) {
	const rows, epochs = 16, 2
	for _, event := range []string{"batch begin", "forward", "backward", "update"} {
		last := rows * epochs
		if event == "update" {
			last /= 4
		}
		for n := 1; n <= last; n++ {
			dir := memoryDir(t)
			fit := func(callback *stopAt) (*trainertest.Step, *trainer.Result) {
				step := &trainertest.Step{Loss: func(int, []int) float64 { return 1 }}
				tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, Epochs: epochs, BatchSize: 1,
					Accumulate: 4, Log: trainer.Every(3, trainer.Update), ResumeFrom: trainer.Latest,
					Callbacks: []any{callback}, Progress: io.Discard})
				require.NoError(t, err)
				r, err := tr.Fit(t.Context(), trainertest.Samples(rows), nil)
				require.NoError(t, err)
				return step, r
			}
			first, r := fit(&stopAt{event: event, n: n})
			require.Equal(t, "enough", r.StopReason)
			if r.GlobalStep > 0 {
				assert.InDelta(t, 1, r.TrainLoss, 1e-12, "stopped at %s %d", event, n)
			}
			second, r := fit(&stopAt{})
			require.Equal(t, rows*epochs/4, r.GlobalStep)

			all := append(updated(first), updated(second)...)
			if r.Warnings != nil || len(all) != rows*epochs {
				t.Errorf("stopped at %s %d: %d batches went into updates, want %d; %q", event, n, len(all), rows*epochs,
					r.Warnings)
				continue
			}
			for epoch := range epochs {
				seen := slices.Sorted(slices.Values(all[epoch*rows : (epoch+1)*rows]))
				assert.Equal(t, inOrder{}.Indices(0, rows), seen, "stopped at %s %d, epoch %d", event, n, epoch)
			}
			for _, row := range r.History {
				for _, name := range []string{"loss", "train_loss"} {
					if v, ok := row[name]; ok {
						assert.InDelta(t, 1, v, 1e-12, "stopped at %s %d: %s after update %v", event, n, name,
							row["step"])
					}
				}
			}
		}
	}
}
