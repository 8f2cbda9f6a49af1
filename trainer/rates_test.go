package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// plateau halves the rate after every evaluation without improvement.
var plateau = lr.ReduceLROnPlateau{Factor: 0.5, Patience: new(0)}

func TestAnAdaptiveScheduleFollowsTheEvaluations(t *testing.T) {
	losses := []float64{3, 4, 2, 2.5, 9}
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": losses[n-1]}
	}}
	o := trainer.Options{Epochs: 4, LearningRate: 0.8, Adaptive: plateau, EvalOnStart: true,
		Log: trainer.Every(1, trainer.Update)}
	r, err := fitted(t, step, o, 8, trainertest.Samples(2))
	if err != nil {
		t.Fatal(err)
	}
	var rates []float64
	for _, row := range r.History {
		if rate, ok := row["learning_rate"]; ok {
			rates = append(rates, rate)
		}
	}
	// The schedule does not see the evaluation at the start (3): 4 is its first value, 2 is better,
	// 2.5 is worse.
	if want := []float64{0.8, 0.8, 0.8, 0.4}; !slices.Equal(rates, want) {
		t.Errorf("rates %v, want %v", rates, want)
	}
}

// A run whose schedule follows its evaluations can be resumed after every update, with the same
// rates.
func TestAnAdaptiveScheduleGoesOnFromEveryPoint(t *testing.T) {
	for _, adaptive := range []lr.Adaptive{plateau, lr.Greedy{Patience: new(0), MinLR: new(1e-6), Smooth: true,
		WindowSize: 3}} {
		run := func(cancelAt int) (uint64, []trainer.Logs) {
			o := trainer.Options{
				OutputDir: memoryDir(t), Epochs: 4, BatchSize: 2, LearningRate: 0.1, Adaptive: adaptive,
				Log:  trainer.Every(1, trainer.Update),
				Eval: trainer.Every(2, trainer.Update), ResumeFrom: trainer.Latest, Progress: io.Discard,
			}
			for {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				step := &trainertest.Step{Inject: func(op string, n int) error {
					if op == "update" && n == cancelAt {
						cancelAt = 0
						cancel()
					}
					return nil
				}}
				tr, err := trainer.New(step, o)
				if err != nil {
					t.Fatal(err)
				}
				r, err := tr.Fit(ctx, trainertest.Samples(6), trainertest.Samples(3))
				if errors.Is(err, context.Canceled) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				return step.Weights(), r.History
			}
		}
		weights, log := run(0)
		for at := 1; at < 12; at++ {
			w, h := run(at)
			if diff := cmp.Diff(log, h, ignoreTimes); diff != "" || w != weights {
				t.Errorf("%T, cancelled at update %d: weights %x, want %x; log (-whole +resumed):\n%s", adaptive, at, w,
					weights, diff)
			}
		}
	}
}

// still is a step that supports only the arithmetic, and so has no momentum.
type still struct{ trainer.Step[int, []int] }

func (still) About() trainer.About { return trainer.About{} }

func TestWhatAScheduleNeeds(t *testing.T) {
	valid := trainertest.Samples(2)
	for _, c := range []struct {
		claim, want string
		run         func() error
	}{
		{"only one schedule", "Options.Adaptive", func() error {
			_, err := fitted(t, new(trainertest.Step), trainer.Options{Adaptive: plateau, Schedule: lr.Linear{}}, 8,
				valid)
			return err
		}},
		{"an adaptive one needs evaluations", "Eval is Never", func() error {
			_, err := fitted(t, new(trainertest.Step), trainer.Options{Adaptive: plateau, Eval: trainer.Never}, 8,
				valid)
			return err
		}},
		{"an adaptive one needs a validation set", "no validation set", func() error {
			_, err := fitted(t, new(trainertest.Step), trainer.Options{Adaptive: plateau}, 8, nil)
			return err
		}},
		{"an adaptive one needs its metric", `has ["loss"]`, func() error {
			_, err := fitted(t, new(trainertest.Step), trainer.Options{Adaptive: plateau, MetricForBest: "f1"}, 8,
				valid)
			return err
		}},
		{"settings of an adaptive schedule are checked immediately", "Options.Adaptive: lr: ", func() error {
			_, err := fitted(t, new(trainertest.Step), trainer.Options{Adaptive: lr.ReduceLROnPlateau{Factor: 2}}, 8,
				valid)
			return err
		}},
		{"one that moves the momentum needs a step that has one", "About().SetsMomentum is false",
			func() error {
				_, err := fitted(t, still{new(trainertest.Step)}, trainer.Options{Schedule: lr.OneCycleLR{}}, 8, nil)
				return err
			}},
	} {
		if err := c.run(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.claim, err, c.want)
		}
	}
	if _, err := fitted(t, still{new(trainertest.Step)}, trainer.Options{Schedule: lr.OneCycleLR{FixedMomentum: true}},
		8, nil); err != nil {
		t.Errorf("a fixed momentum needs no SetMomentum: %v", err)
	}
}

func TestTheMomentumMovesWithTheRate(t *testing.T) {
	step := new(trainertest.Step)
	if _, err := fitted(t, step, trainer.Options{Epochs: 1, BatchSize: 2, LearningRate: 0.1, Schedule: lr.OneCycleLR{}},
		8, nil); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, c := range step.Calls {
		if strings.HasPrefix(c, "momentum") || strings.HasPrefix(c, "update") {
			got = append(got, c)
		}
	}
	rate, momentum := lr.OneCycleLR{}.Plan(0.1, 4), lr.OneCycleLR{}.PlanMomentum(4)
	for i := range 4 {
		want = append(want, fmt.Sprintf("momentum(%.4g)", momentum(i)), fmt.Sprintf("update(%.4g)", rate(i)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}
