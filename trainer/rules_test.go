package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// recorder is a step that records what happens in a run; its hooks are in listener.
type recorder struct {
	trainertest.Step
	d        scenario
	lines    []string
	micro    int
	cancelAt int // the update after which the run is cancelled; 0: none
	cancel   context.CancelFunc
	updates  int
}

func (s *recorder) record(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *recorder) Train(ctx context.Context, batch []int, w trainer.Window) error {
	s.micro++
	s.record("train %s / %d", rowsText(batch), int(w.Divisor))
	return s.Step.Train(ctx, batch, w)
}

func (s *recorder) Update(ctx context.Context, rate float64) (bool, error) {
	s.record("update")
	if s.updates++; s.updates == s.cancelAt {
		s.cancel()
	}
	return s.Step.Update(ctx, rate)
}

// listener has the hooks, since a step is not a callback.
type listener struct{ *recorder }

func (s listener) EpochBegin(r *trainer.Run) error {
	s.record("epoch %d", int(r.Epoch+1e-9))
	return nil
}
func (s listener) EpochEnd(r *trainer.Run) error { s.record("end of epoch"); return nil }
func (s listener) AfterEval(r *trainer.Run, _ trainer.Metrics) error {
	s.record("eval %d", r.GlobalStep)
	return nil
}
func (s listener) AfterSave(r *trainer.Run, _ string) error {
	s.record("save %d", r.GlobalStep)
	return nil
}
func (s listener) AfterLog(r *trainer.Run, row trainer.Logs) error {
	if _, ok := row["loss"]; ok {
		s.record("log %d", r.GlobalStep)
	}
	return nil
}
func (s listener) SubstepEnd(r *trainer.Run) error {
	if s.micro == s.d.stopAtMicro {
		r.Stop("as described")
	}
	return nil
}
func (s listener) StepEnd(r *trainer.Run) error {
	for _, a := range s.d.asks {
		if a.step == r.GlobalStep {
			c := &r.Control
			c.ShouldLog, c.ShouldEvaluate = c.ShouldLog || a.log, c.ShouldEvaluate || a.eval
			c.ShouldSave = (c.ShouldSave || a.save) && !a.cancelSave
			c.ShouldTrainingStop, c.ShouldEpochStop = c.ShouldTrainingStop || a.stopWholly, c.ShouldEpochStop ||
				a.stopEpoch
		}
	}
	return nil
}

func (i interval) trigger() trainer.Trigger {
	switch i.by {
	case "steps":
		return trainer.Every(i.n, trainer.Update)
	case "epoch":
		return trainer.Every(i.n, trainer.Epoch)
	case "share":
		return trainer.EveryShare(i.share)
	}
	return trainer.Never
}

func (d scenario) options() trainer.Options {
	o := trainer.Options{
		Epochs: d.epochs, MaxSteps: d.maxSteps, BatchSize: d.batch, EvalBatchSize: 1, Accumulate: d.accumulate,
		DropLast: d.dropLast, Log: d.log.trigger(), Eval: d.eval.trigger(),
		Save: d.save.trigger(), EvalDelay: d.delay, LogFirst: d.logFirst, EvalOnStart: d.evalOnStart,
		Order: data.Sequential{}, Workers: 1, Progress: io.Discard,
	}
	if d.huggingFace {
		o.Semantics = semantics.HuggingFace
	}
	return o
}

// randomScenario returns a random run.
func randomScenario(r *rand.Rand) scenario {
	when := func() interval {
		switch r.IntN(5) {
		case 0:
			return interval{by: "no"}
		case 1:
			return interval{by: "epoch", n: 1 + r.IntN(2)}
		case 2:
			return interval{by: "share", share: 0.05 + 0.9*r.Float64()}
		}
		return interval{by: "steps", n: 1 + r.IntN(6)}
	}
	d := scenario{
		rows: 1 + r.IntN(24), batch: 1 + r.IntN(5), accumulate: 1 + r.IntN(4), log: when(), eval: when(), save: when(),
		logFirst: r.IntN(4) == 0, evalOnStart: r.IntN(4) == 0, huggingFace: r.IntN(2) == 0,
	}
	d.dropLast = r.IntN(3) == 0 && d.rows >= d.batch
	if r.IntN(2) == 0 {
		d.maxSteps = 1 + r.IntN(12)
	} else {
		d.epochs = float64(1+r.IntN(12)) / 4
	}
	if r.IntN(3) == 0 {
		d.delay = float64(r.IntN(16)) / 2
	}
	some := func() bool { return r.IntN(3) == 0 }
	for range r.IntN(3) {
		d.asks = append(d.asks, asked{step: 1 + r.IntN(8), log: some(), eval: some(), save: some(), cancelSave: some(),
			stopEpoch: r.IntN(6) == 0, stopWholly: r.IntN(8) == 0})
	}
	if r.IntN(8) == 0 {
		d.stopAtMicro = 1 + r.IntN(10)
	}
	return d
}

// run runs the scenario, in sessions that end after cancelAt updates each, and returns what
// happened.
func (d scenario) run(t *testing.T, dir string, cancelAt int) (lines []string, log []trainer.Logs) {
	t.Helper()
	o := d.options()
	o.OutputDir = dir
	if dir == "" { // as one of several processes, one that writes nothing
		o.OutputDir, o.Process = "nowhere", trainer.Process{Rank: 1, World: 2}
	} else {
		o.ResumeFrom = trainer.Latest
	}
	micro := 0
	for {
		ctx, cancel := context.WithCancel(t.Context())
		s := &recorder{d: d, cancelAt: cancelAt, cancel: cancel, micro: micro}
		o.Callbacks = []any{listener{s}}
		tr, err := trainer.New[int, []int](s, o)
		if err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		r, err := tr.Fit(ctx, trainertest.Samples(d.rows), trainertest.Samples(1))
		cancel()
		lines, micro, cancelAt = append(lines, s.lines...), s.micro, 0
		switch {
		case err == nil:
			return append(lines, fmt.Sprintf("end at %d", r.GlobalStep)), r.History
		case !errors.Is(err, context.Canceled):
			t.Fatalf("%+v: %v", d, err)
		}
	}
}

// simple removes from a story what the two sides write differently: the numbers of epochs.
func simple(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		var n int
		if _, err := fmt.Sscanf(line, "epoch %d", &n); err == nil {
			line = "epoch"
		} else if _, err := fmt.Sscanf(line, "end of epoch %d", &n); err == nil {
			line = "end of epoch"
		}
		out[i] = line
	}
	return out
}

// Ten thousand random runs do what the rules say, line by line.
func TestTheLoopFollowsTheRules(t *testing.T) {
	n := 10_000
	if testing.Short() || raceEnabled {
		n = 1_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]int{}
	for i := range n {
		d := randomScenario(random)
		want := simple(d.story())
		lines, _ := d.run(t, "", 0)
		if diff := cmp.Diff(want, simple(lines)); diff != "" {
			t.Fatalf("run %d, %+v (-rules +loop):\n%s", i, d, diff)
		}
		for _, line := range want {
			var word string
			if _, err := fmt.Sscan(line, &word); err == nil {
				kinds[word]++
			}
		}
	}
	for _, word := range []string{"epoch", "train", "update", "log", "eval", "save", "end"} {
		if kinds[word] < n/2 {
			t.Errorf("only %d of the runs' lines are of %q: the made-up runs are too poor", kinds[word], word)
		}
	}
}

// A random run that is interrupted after any update and resumed does what the rules say of the
// whole run.
func TestAResumedLoopFollowsTheRules(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	n := 200
	if testing.Short() || raceEnabled {
		n = 40
	}
	for i := range n {
		d := randomScenario(random)
		d.huggingFace = false // a resume under its semantics loses what was due at the end of an epoch
		d.stopAtMicro = 0     // if a run was stopped by a hook, resuming it means to continue
		for i := range d.asks {
			d.asks[i].stopWholly = false
		}
		if d.save.by == "no" {
			d.save = interval{by: "steps", n: 5}
		}
		cancelAt := 1 + random.IntN(d.updates())
		// Hooks see again what happened after the last save; the batches, the updates and the log
		// are as if there had been no interruption.
		lines, log := d.run(t, memoryDir(t), cancelAt)
		for _, row := range log {
			if _, ok := row["loss"]; ok {
				lines = append(lines, fmt.Sprintf("row %d", int(row["step"])))
			} else if _, ok := row["eval_loss"]; ok {
				lines = append(lines, fmt.Sprintf("row of eval %d", int(row["step"])))
			}
		}
		want := without(d.story(), "save", "epoch", "end of", "log", "eval")
		for _, line := range d.story() {
			if n, ok := strings.CutPrefix(line, "log "); ok {
				want = append(want, "row "+n)
			} else if strings.HasPrefix(line, "eval") {
				want = append(want, "row of "+line)
			}
		}
		if diff := cmp.Diff(want, without(lines, "save", "epoch", "end of", "log", "eval")); diff != "" {
			t.Fatalf("run %d, interrupted in update %d, %+v (-rules +loop):\n%s", i, cancelAt, d, diff)
		}
	}
}
