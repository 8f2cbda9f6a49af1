package trainertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/trainer"
)

// The check that a run with a decorator of a step is the same as a run with the step itself.

// counting is a decorator that overrides every method and counts the calls.
type counting[S, B any] struct {
	step  trainer.Step[S, B]
	calls *calls
}

// calls counts the calls of each method. Collate is called by the loader's goroutines.
type calls struct {
	mu sync.Mutex
	n  map[string]int
}

// count counts a call of a method and returns the step to which the call is passed on.
func (c *counting[S, B]) count(method string) trainer.Step[S, B] {
	c.calls.mu.Lock()
	defer c.calls.mu.Unlock()
	c.calls.n[method]++
	return c.step
}

func (c *counting[S, B]) About() trainer.About { return c.count("About").About() }

func (c *counting[S, B]) Collate(samples []S) (B, error) { return c.count("Collate").Collate(samples) }

func (c *counting[S, B]) Loader(set data.Dataset[S], o trainer.LoaderOptions) (trainer.BatchLoader[B], error) {
	return c.count("Loader").Loader(set, o)
}

func (c *counting[S, B]) Count(batch B) trainer.Counts { return c.count("Count").Count(batch) }

func (c *counting[S, B]) Around(body func() error) error { return c.count("Around").Around(body) }

func (c *counting[S, B]) Seed(seed uint64, o trainer.SeedOptions) error {
	return c.count("Seed").Seed(seed, o)
}

func (c *counting[S, B]) StartLoader(train bool) error {
	return c.count("StartLoader").StartLoader(train)
}

func (c *counting[S, B]) ZeroGrad() error { return c.count("ZeroGrad").ZeroGrad() }

func (c *counting[S, B]) Train(ctx context.Context, batch B, w trainer.Window) error {
	return c.count("Train").Train(ctx, batch, w)
}

func (c *counting[S, B]) Clip(ctx context.Context) error { return c.count("Clip").Clip(ctx) }

func (c *counting[S, B]) SetMomentum(m float64) error { return c.count("SetMomentum").SetMomentum(m) }

func (c *counting[S, B]) Update(ctx context.Context, lr float64) (bool, error) {
	return c.count("Update").Update(ctx, lr)
}

func (c *counting[S, B]) Report(ctx context.Context) (trainer.Report, error) {
	return c.count("Report").Report(ctx)
}

func (c *counting[S, B]) StartEval(e trainer.Evaluation) error {
	return c.count("StartEval").StartEval(e)
}

func (c *counting[S, B]) Eval(ctx context.Context, batch B) error {
	return c.count("Eval").Eval(ctx, batch)
}

func (c *counting[S, B]) Metrics(ctx context.Context) (trainer.Metrics, error) {
	return c.count("Metrics").Metrics(ctx)
}

func (c *counting[S, B]) Save(dir string, o trainer.SaveOptions) error {
	return c.count("Save").Save(dir, o)
}

func (c *counting[S, B]) Load(dir string, o trainer.LoadOptions) error {
	return c.count("Load").Load(dir, o)
}

func (c *counting[S, B]) NonFinite() ([]string, error) { return c.count("NonFinite").NonFinite() }

func (c *counting[S, B]) EmptyCache() error { return c.count("EmptyCache").EmptyCache() }

func (c *counting[S, B]) OutOfMemory(err error) bool { return c.count("OutOfMemory").OutOfMemory(err) }

// uncalled returns the methods that were not called, except those for which the step does not have
// the ability.
func (c *counting[S, B]) uncalled() (names []string) {
	about := c.step.About()
	can := map[string]bool{"SetMomentum": about.SetsMomentum, "Save": about.Saves,
		"Load": about.Saves, "EmptyCache": about.KnowsMemory, "OutOfMemory": about.KnowsMemory}
	for m := range reflect.TypeFor[trainer.Step[S, B]]().Methods() {
		if needed, special := can[m.Name]; (needed || !special) && c.calls.n[m.Name] == 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// story records the events of a run, and can interrupt it.
type story struct {
	lines  []string
	until  int // the update after which the run is cancelled; 0: none
	cancel context.CancelFunc
}

func (s *story) record(event string, r *trainer.Run) error {
	s.lines = append(s.lines, fmt.Sprintf("%s %d", event, r.GlobalStep))
	return nil
}

func (s *story) StepBegin(r *trainer.Run) error                  { return s.record("step begin", r) }
func (s *story) SubstepEnd(r *trainer.Run) error                 { return s.record("substep end", r) }
func (s *story) BeforeUpdate(r *trainer.Run) error               { return s.record("before update", r) }
func (s *story) AfterUpdate(r *trainer.Run) error                { return s.record("after update", r) }
func (s *story) AfterSave(r *trainer.Run, _ string) error        { return s.record("after save", r) }
func (s *story) EpochEnd(r *trainer.Run) error                   { return s.record("epoch end", r) }
func (s *story) AfterLog(r *trainer.Run, row trainer.Logs) error { return s.record(numbers(row), r) }
func (s *story) TrainEnd(r *trainer.Run) error                   { return s.record("train end", r) }

func (s *story) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == s.until {
		s.cancel()
	}
	return s.record("step end", r)
}

// numbers formats the values of a row that do not depend on the clock, in every bit.
func numbers(row trainer.Logs) string {
	var text []string
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if !strings.HasSuffix(name, "_runtime") && !strings.HasSuffix(name, "_per_second") {
			text = append(text, fmt.Sprintf("%s %x", name, row[name]))
		}
	}
	return strings.Join(text, ", ")
}

// fit trains with the decorated step. If the run can be resumed, it interrupts the run and resumes
// it with another step in the same decorator. It returns the events, and what the step computes
// afterwards.
func (b *bench[S, B]) fit(decorate func(trainer.Step[S, B]) trainer.Step[S, B]) (lines []string, after []float64,
	err error) {
	about := b.newStep(b.t).About()
	o := trainer.Options{BatchSize: len(b.samples) / 2, EvalBatchSize: len(b.samples) / 2, Accumulate: 2, Epochs: 4,
		DropLast: true, LearningRate: rate, Log: trainer.Every(1, trainer.Update), CountTokens: about.CountsTokens,
		AutoFindBatchSize: about.KnowsMemory, Progress: io.Discard}
	o.Semantics.FilterNonFiniteLoss, o.Semantics.StayInEvalMode = about.FiltersLoss, about.KeepsMode
	if about.SetsMomentum {
		o.Schedule = lr.OneCycleLR{}
	}
	if about.KnowsMemory {
		o.EmptyCacheSteps = 2
	}
	until := []int{0}
	if about.Saves {
		o.OutputDir = filepath.Join(b.t.TempDir(), "run")
		o.Save, o.LoadBestAtEnd, o.ResumeFrom = trainer.Every(1, trainer.Epoch), true, trainer.Latest
		until = []int{2, 0}
	}
	var step trainer.Step[S, B]
	for _, n := range until {
		ctx, cancel := context.WithCancel(context.Background())
		s := &story{until: n, cancel: cancel}
		step = b.newStep(b.t)
		o.Callbacks = []any{s}
		t, err := trainer.New(decorate(step), o)
		if err != nil {
			cancel()
			return nil, nil, fmt.Errorf("trainer.New: %w", err)
		}
		_, err = t.Fit(ctx, data.Slice[S](b.samples), data.Slice[S](b.samples))
		cancel()
		if err != nil && !(n > 0 && errors.Is(err, context.Canceled)) {
			return nil, nil, fmt.Errorf("trainer.Fit: %w", err)
		}
		lines = append(lines, s.lines...)
	}
	return lines, b.windows(step, 2), nil
}

func (b *bench[S, B]) decorates() error {
	plain, want, err := b.fit(func(s trainer.Step[S, B]) trainer.Step[S, B] { return s })
	if err != nil {
		return err
	}
	all := &calls{n: map[string]int{}}
	var last *counting[S, B]
	lines, got, err := b.fit(func(s trainer.Step[S, B]) trainer.Step[S, B] {
		last = &counting[S, B]{s, all}
		return last
	})
	if err != nil {
		return fmt.Errorf("a decorator: %w", err)
	}
	if !slices.Equal(plain, lines) {
		return fmt.Errorf("over a decorator the run is\n%s\nwant that over the step itself\n%s",
			strings.Join(lines, "\n"), strings.Join(plain, "\n"))
	}
	if err := same("after a run over a decorator", want, got); err != nil {
		return err
	}
	updates := 0
	for _, line := range plain {
		if strings.HasPrefix(line, "after update") {
			updates++
		}
	}
	if n := all.n["Update"]; n != updates {
		return fmt.Errorf("the Update of a decorator was called %d times in a run of %d updates", n, updates)
	}
	if names := last.uncalled(); len(names) > 0 {
		return fmt.Errorf("the run did not call %s of a decorator", strings.Join(names, ", "))
	}
	return nil
}
