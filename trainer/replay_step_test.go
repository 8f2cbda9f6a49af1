package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// replayStep returns what was recorded. It embeds the recording step for everything else.
type replayStep struct {
	trainertest.Step
	t       *testing.T
	trace   *hfTrace
	cursor  *replayCursor
	sum     float32 // Trainer sums losses in float32
	norm    float64
	seenNow int
	tokens  []int64 // of each training sample
}

// replayCursor is the current position in the recording; phases share it.
type replayCursor struct{ micro, update, eval int }

func (s *replayStep) Train(_ context.Context, batch []int, w trainer.Window) error {
	i := s.cursor.micro
	if i >= len(s.trace.Batches) {
		return fmt.Errorf("micro-batch %d, but only %d were recorded", i+1, len(s.trace.Batches))
	}
	if !slices.Equal(batch, s.trace.Batches[i]) {
		return fmt.Errorf("micro-batch %d is %v, recorded was %v", i+1, batch, s.trace.Batches[i])
	}
	s.cursor.micro++
	loss := float32(float(s.t, s.trace.MicroLosses[i]))
	if w.FilterLoss && (math.IsNaN(float64(loss)) || math.IsInf(float64(loss), 0)) {
		loss = s.sum / float32(1+w.SinceLog)
	}
	s.sum += loss
	return nil
}

func (s *replayStep) Update(_ context.Context, rate float64) (bool, error) {
	u := s.trace.Updates[s.cursor.update]
	s.cursor.update++
	if want := float(s.t, u.LR[0]); rate != want {
		return false, fmt.Errorf("update %d has rate %x, recorded was %x", s.cursor.update, rate, want)
	}
	s.norm = -1
	if u.GradNorm != nil {
		s.norm = float(s.t, *u.GradNorm)
	}
	return true, nil
}

func (s *replayStep) Report(context.Context) (trainer.Report, error) {
	sum := s.sum
	s.sum = 0
	return trainer.Report{LossSum: float64(sum), GradNorm: s.norm}, nil
}

func (s *replayStep) Eval(_ context.Context, batch []int) error {
	s.seenNow += len(batch)
	return nil
}

func (s *replayStep) Metrics(context.Context) (trainer.Metrics, error) {
	e := s.trace.Evaluations[s.cursor.eval]
	s.cursor.eval++
	if s.seenNow != e.Seen {
		return nil, fmt.Errorf("evaluation %d saw %d rows, recorded were %d", s.cursor.eval, s.seenNow, e.Seen)
	}
	if name := s.Evaluations[len(s.Evaluations)-1].Name; name != e.Prefix {
		return nil, fmt.Errorf("evaluation %d is %q, recorded was %q", s.cursor.eval, name, e.Prefix)
	}
	s.seenNow = 0
	m := trainer.Metrics{}
	for name, v := range e.Metrics {
		if name = strings.TrimPrefix(name, e.Prefix+"_"); !strings.HasSuffix(name, "runtime") &&
			!strings.HasSuffix(name, "per_second") {
			m[name] = float(s.t, v)
		}
	}
	return m, nil
}

var errKilled = errors.New("killed")

// events records the events of a run under Hugging Face's names, and fails where the recorded
// process was killed.
type events struct {
	list      [][]any
	saved     []string
	epochs    []float64
	killAfter int
}

func (e *events) add(name string, r *trainer.Run) error {
	e.list = append(e.list, []any{name, float64(r.GlobalStep), r.Epoch})
	return nil
}
func (e *events) InitEnd(r *trainer.Run) error    { return e.add("on_init_end", r) }
func (e *events) TrainBegin(r *trainer.Run) error { return e.add("on_train_begin", r) }
func (e *events) TrainEnd(r *trainer.Run) error   { return e.add("on_train_end", r) }
func (e *events) EpochBegin(r *trainer.Run) error { return e.add("on_epoch_begin", r) }
func (e *events) EpochEnd(r *trainer.Run) error   { return e.add("on_epoch_end", r) }
func (e *events) StepBegin(r *trainer.Run) error {
	_ = e.add("on_step_begin", r)
	if e.killAfter > 0 && r.GlobalStep == e.killAfter {
		return errKilled
	}
	return nil
}
func (e *events) SubstepEnd(r *trainer.Run) error   { return e.add("on_substep_end", r) }
func (e *events) BeforeUpdate(r *trainer.Run) error { return e.add("on_pre_optimizer_step", r) }
func (e *events) AfterUpdate(r *trainer.Run) error  { return e.add("on_optimizer_step", r) }
func (e *events) StepEnd(r *trainer.Run) error {
	e.epochs = append(e.epochs, r.Epoch)
	return e.add("on_step_end", r)
}
func (e *events) EvalStep(r *trainer.Run) error                        { return e.add("on_prediction_step", r) }
func (e *events) AfterEval(r *trainer.Run, _ trainer.Metrics) error    { return e.add("on_evaluate", r) }
func (e *events) AfterPredict(r *trainer.Run, _ trainer.Metrics) error { return e.add("on_predict", r) }
func (e *events) AfterLog(r *trainer.Run, _ trainer.Logs) error        { return e.add("on_log", r) }
func (e *events) AfterSave(r *trainer.Run, checkpoint string) error {
	e.saved = append(e.saved, filepath.Base(checkpoint))
	return e.add("on_save", r)
}

// controlHook is the callback of the recorded runs: it sets flags at one step.
type controlHook struct {
	step int
	set  []string
	to   bool
}

func (c controlHook) StepEnd(r *trainer.Run) error {
	if r.GlobalStep != c.step {
		return nil
	}
	for _, name := range c.set {
		*map[string]*bool{
			"should_log": &r.Control.ShouldLog, "should_evaluate": &r.Control.ShouldEvaluate,
			"should_save":       &r.Control.ShouldSave,
			"should_epoch_stop": &r.Control.ShouldEpochStop, "should_training_stop": &r.Control.ShouldTrainingStop,
		}[name] = c.to
	}
	return nil
}

func (s *replayStep) Count(batch []int) (n trainer.Counts) {
	for _, i := range batch {
		if s.tokens != nil {
			n.Tokens += s.tokens[i]
		}
	}
	return n
}
