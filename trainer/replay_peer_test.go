package trainer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// The common part of the replays of Hezar, pytorch-accelerated and PyMarlin. As for Hugging Face,
// the recorded losses replace the arithmetic. The order of events, the batches, updates, rates,
// reports and saves must be as recorded.

// peerSpec is spec.json; each peer has its own arguments.
type peerSpec struct {
	Args      json.RawMessage
	Data      json.RawMessage
	Callbacks []map[string]any
	Phases    []json.RawMessage
}

// peerTrace is the common part of the three traces.
type peerTrace struct {
	Batches  [][]int
	Losses   []string `json:"micro_losses"`
	Unscaled []string `json:"micro_losses_unscaled"`
	Updates  []struct {
		LR         json.RawMessage
		AfterStep  int `json:"after_step"`
		AfterMicro int `json:"after_micro"`
	}
	Events      [][]any
	Evaluations []peerEvaluation
	Error       any
}

type peerEvaluation struct {
	BatchLosses []string `json:"batch_losses"`
}

// peerCases runs a subtest for each recorded run of a peer.
func peerCases(t *testing.T, peer string, skip map[string]string, replay func(t *testing.T, dir string)) {
	folder := "../../shared/conformance/cases/" + peer
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("the recorded runs are not here: %v", err)
	}
	cases, err := filepath.Glob(folder + "/*/spec.json")
	if err != nil || len(cases) == 0 {
		t.Fatalf("found no case of %s (%v)", peer, err)
	}
	for _, path := range cases {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if why := skip[filepath.Base(dir)]; why != "" {
				t.Skip(why)
			}
			replay(t, dir)
		})
	}
}

// peerStep returns what was recorded. It embeds the recording step for everything else.
type peerStep struct {
	trainertest.Step
	t        *testing.T
	trace    *peerTrace
	micro    *int // micro-batches of the recording used so far
	updates  *int
	evals    *int
	inEval   int
	clips    int
	modes    []bool // whether the model was in training mode, for each forward pass
	last     trainer.BatchLoss
	onUpdate func()
}

func (s *peerStep) Forward(_ context.Context, batch []int, w trainer.Window) error {
	i := *s.micro
	if i >= len(s.trace.Batches) {
		return fmt.Errorf("micro-batch %d, but only %d were recorded", i+1, len(s.trace.Batches))
	}
	if !slices.Equal(batch, s.trace.Batches[i]) {
		return fmt.Errorf("micro-batch %d is %v, recorded was %v", i+1, batch, s.trace.Batches[i])
	}
	*s.micro++
	s.modes = append(s.modes, !w.KeepMode)
	s.last.Loss = float(s.t, s.trace.Unscaled[i])
	s.last.Divided = float64(float32(s.last.Loss) / float32(w.Divisor))
	if i < len(s.trace.Losses) {
		if want := float(s.t, s.trace.Losses[i]); s.last.Divided != want && !math.IsNaN(want) {
			return fmt.Errorf("micro-batch %d has the divided loss %x, recorded was %x", i+1, s.last.Divided, want)
		}
	}
	return nil
}

func (s *peerStep) Backward(context.Context) error { return nil }

func (s *peerStep) Train(ctx context.Context, batch []int, w trainer.Window) error {
	return s.Forward(ctx, batch, w)
}

func (s *peerStep) BatchLoss() (trainer.BatchLoss, error) { return s.last, nil }

func (s *peerStep) Clip(context.Context) error { s.clips++; return nil }

// Update compares the rate with the recorded one.
func (s *peerStep) Update(_ context.Context, rate float64) (bool, error) {
	if *s.updates >= len(s.trace.Updates) {
		return false, fmt.Errorf("update %d, but only %d were recorded", *s.updates+1, len(s.trace.Updates))
	}
	u := s.trace.Updates[*s.updates]
	*s.updates++
	if s.onUpdate != nil {
		s.onUpdate()
	}
	if at := max(u.AfterStep, u.AfterMicro); at > 0 && u.AfterStep == 0 && *s.micro != at {
		return false, fmt.Errorf("update %d comes after micro-batch %d, recorded was %d", *s.updates, *s.micro, at)
	}
	if want := firstRate(s.t, u.LR); rate != want {
		return false, fmt.Errorf("update %d has rate %x, recorded was %x", *s.updates, rate, want)
	}
	return true, nil
}

// firstRate returns the rate of the first group of the first optimizer.
func firstRate(t *testing.T, text json.RawMessage) float64 {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for {
		list, ok := v.([]any)
		if !ok {
			return float(t, v)
		}
		v = list[0]
	}
}

func (s *peerStep) Eval(context.Context, []int) error {
	if losses := s.trace.Evaluations[*s.evals].BatchLosses; s.inEval < len(losses) {
		s.last.Loss = float(s.t, losses[s.inEval])
		s.last.Divided = s.last.Loss
	}
	s.inEval++
	return nil
}

func (s *peerStep) Metrics(context.Context) (trainer.Metrics, error) {
	*s.evals++
	s.inEval = 0
	return trainer.Metrics{"loss": 1}, nil
}

// rates is a recorded schedule: the rate after each of its steps. After the last one, the rate
// stays.
type rates []float64

func (r rates) Plan(float64, int) lr.Rate {
	return func(step int) float64 { return r[min(step, len(r)-1)] }
}

// recordedOrder returns the recorded order of the samples of each epoch. Samples that were never
// seen come last.
func recordedOrder(batches [][]int, perEpoch int) data.Order {
	return data.OrderFunc(func(epoch, n int) []int {
		var order []int
		for _, b := range batches[min(epoch*perEpoch, len(batches)):min((epoch+1)*perEpoch, len(batches))] {
			order = append(order, b...)
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
			}
		}
		return order
	})
}

// only returns the recorded events with these names, truncated to the given number of fields.
func only(all [][]any, fields int, names ...string) (list [][]any) {
	for _, e := range all {
		if slices.Contains(names, e[0].(string)) {
			list = append(list, e[:min(fields, len(e))])
		}
	}
	return list
}

// sameEvents compares events. The numbers of a recording are float64.
func sameEvents(t *testing.T, recorded, ours [][]any) {
	t.Helper()
	for _, e := range ours {
		for i, v := range e {
			if n, ok := v.(int); ok {
				e[i] = float64(n)
			}
		}
	}
	if diff := cmp.Diff(recorded, ours); diff != "" {
		t.Errorf("events (-recorded +ours):\n%s", diff)
	}
}

// rowsOf returns the number of samples in a split of a case.
func rowsOf(t *testing.T, dir, split string) int {
	t.Helper()
	file, err := safetensors.Open(filepath.Join(dir, "data.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tensor := range file.Tensors() {
		if strings.HasPrefix(tensor.Name, split+".") {
			return int(tensor.Shape[0])
		}
	}
	t.Fatalf("%s has no split %q", dir, split)
	return 0
}
