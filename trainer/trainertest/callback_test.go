package trainertest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

type (
	right       struct{}
	noError     struct{}
	wrongAmong  struct{ right }
	noEvent     struct{}
	byValue     struct{}
	otherOutput struct{}
)

func (*right) StepEnd(*trainer.Run) error                           { return nil }
func (*right) AroundEpoch(_ *trainer.Run, train func() error) error { return train() }
func (*right) TrainFailed(*trainer.Run, error)                      {}
func (*noError) StepEnd(*trainer.Run)                               {}
func (*wrongAmong) EvalEnd(*trainer.Run, map[string]any) error      { return nil }
func (*noEvent) OnStepEnd(*trainer.Run) error                       { return nil }
func (byValue) AfterLog(*trainer.Run, trainer.Logs) error           { return nil }
func (*otherOutput) TrainFailed(*trainer.Run, error) error          { return nil }

// said records the errors with which a test would have failed.
type said struct {
	testing.TB
	errors []string
}

func (*said) Helper()                     {}
func (s *said) Error(a ...any)            { s.errors = append(s.errors, fmt.Sprint(a...)) }
func (s *said) Errorf(f string, a ...any) { s.errors = append(s.errors, fmt.Sprintf(f, a...)) }

func TestAMethodThatIsNeverCalledIsNamed(t *testing.T) {
	for _, c := range []struct {
		callback any
		wants    string
	}{
		{new(right), ""},
		{right{}, ""},
		{byValue{}, ""},
		{new(byValue), ""},
		{new(callback.EarlyStopping), ""},
		{new(noError), "*trainertest_test.noError has the method StepEnd as func(*trainer.Run), which is never called; " +
			"want func(*trainer.Run) error"},
		{new(wrongAmong), "*trainertest_test.wrongAmong has the method EvalEnd as " +
			"func(*trainer.Run, map[string]interface {}) error, which is never called; " +
			"want func(*trainer.Run, trainer.Metrics) error"},
		{new(otherOutput), "*trainertest_test.otherOutput has the method TrainFailed as " +
			"func(*trainer.Run, error) error, which is never called; want func(*trainer.Run, error)"},
		{new(noEvent), "*trainertest_test.noEvent has no method of trainer.Hooks, such as StepEnd(*trainer.Run) error"},
		{nil, "the callback is nil"},
	} {
		s := &said{TB: t}
		trainertest.TestCallback(s, c.callback)
		if c.wants == "" {
			assert.Empty(t, s.errors)
			continue
		}
		assert.Equal(t, []string{"trainertest: " + c.wants}, s.errors)
	}
}
