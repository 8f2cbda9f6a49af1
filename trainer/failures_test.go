package trainer_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func TestFailuresSayWhere(t *testing.T) {
	cause := errors.New("the cause")
	for _, c := range []struct {
		op   string
		n    int
		want string
	}{
		{"seed", 1, "seed after update 0"},
		{"startloader", 1, "start a loader after update 0"},
		{"train", 4, "train on micro-batch 2 of 2 after update 1 (epoch 0.5)"},
		{"update", 2, "update after update 1 (epoch 0.5)"},
		{"eval", 2, "evaluate after update 2 (epoch 1)"},
		{"metrics", 1, "evaluate after update 2"},
		{"save", 1, "save after update 2"},
		{"report", 1, "report the loss after update 1"},
	} {
		step := &trainertest.Step{Inject: func(op string, n int) error {
			if op == c.op && n == c.n {
				return cause
			}
			return nil
		}}
		o := trainer.Options{OutputDir: t.TempDir(), Epochs: 1, BatchSize: 1, EvalBatchSize: 1, Accumulate: 2,
			Log: trainer.Every(1, trainer.Update), Progress: io.Discard}
		tr, err := trainer.New[int, []int](step, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tr.Fit(t.Context(), trainertest.Samples(4), trainertest.Samples(2))
		var where *trainer.StepError
		if !errors.Is(err, cause) || !errors.As(err, &where) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s fails: Fit = %v, want a StepError with %q", c.op, err, c.want)
		}
	}
}

type failingHook struct{ failed error }

func (h *failingHook) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == 2 {
		return errors.New("no more")
	}
	return nil
}
func (h *failingHook) TrainFailed(_ *trainer.Run, err error) { h.failed = err }

func TestAHookThatFailsEndsTheRunByName(t *testing.T) {
	h := &failingHook{}
	tr, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{Callbacks: []any{h},
		Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tr.Fit(t.Context(), trainertest.Samples(40), nil)
	if want := "trainer: hook *trainer_test.failingHook.StepEnd after update 2: no more"; err == nil ||
		err.Error() != want {
		t.Errorf("Fit = %v, want %s", err, want)
	}
	if !errors.Is(h.failed, err) {
		t.Errorf("TrainFailed got %v, want the error of Fit", h.failed)
	}
}

type torchPanic struct{}

func (torchPanic) Error() string { return "torch: MatMul: shapes" }
func (torchPanic) TorchError()   {}

func TestOnlyTheLibrarysPanicBecomesAnError(t *testing.T) {
	fit := func(v any) (err error) {
		step := &trainertest.Step{Inject: func(op string, n int) error {
			if op == "train" {
				panic(v)
			}
			return nil
		}}
		dir := t.TempDir()
		tr, err := trainer.New[int, []int](step, trainer.Options{OutputDir: dir, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { // the folder is unlocked again, however Fit ended
			s, lockErr := checkpoint.Open(dir, checkpoint.Options{})
			if lockErr != nil {
				t.Errorf("after a panic with %v: %v", v, lockErr)
				return
			}
			s.Close()
		}()
		_, err = tr.Fit(t.Context(), trainertest.Samples(4), nil)
		return err
	}
	if err := fit(torchPanic{}); !errors.Is(err, torchPanic{}) {
		t.Errorf("Fit = %v, want the library's error", err)
	}
	defer func() {
		if p := recover(); p != "a bug" {
			t.Errorf("recovered %v, want the panic to pass through", p)
		}
	}()
	t.Errorf("Fit returned %v, want a panic", fit("a bug"))
}
