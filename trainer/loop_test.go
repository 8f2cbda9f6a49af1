package trainer

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// recorder is a runner that only records the actions. It also does what a loop expects of its
// runner: it clears the decisions that it has carried out.
type recorder struct {
	loop  *loop
	list  []string
	after func(action)
}

func (r *recorder) do(a action) error {
	text := string(a)
	switch a {
	case stepLog, epochLog:
		r.loop.LastLogged = r.loop.GlobalStep
		r.loop.Control.ShouldLog = false
		text = "log"
	case stepEvaluate, epochEvaluate, evalOnStart:
		r.loop.Control.ShouldEvaluate = false
		text = "evaluate"
	case stepSave, epochSave, finalSave:
		r.loop.LastSaved = r.loop.GlobalStep
		r.loop.Control.ShouldSave = false
		text = "save"
	}
	r.record(text, a)
	return nil
}

func (r *recorder) record(text string, a action) {
	if len(r.list) > 1e5 {
		r.loop.skipTo = nowhere
		text = "endless"
	}
	r.list = append(r.list, text)
	if r.after != nil {
		r.after(a)
	}
}

func (r *recorder) around(train func() error) error { return train() }

func (r *recorder) fetch(body func() bool) error {
	for {
		r.record(fmt.Sprintf("fetch %d", r.loop.window), nextWindow)
		if !body() || !r.loop.nextWindow() {
			return nil
		}
	}
}

// drive runs a loop to its end with a recorder, and returns the actions.
func drive(l *loop, after func(action)) []string {
	r := &recorder{loop: l, after: after}
	_ = l.run(r) // the recorder returns no errors
	return r.list
}

// One epoch of three batches, windows of two: the order of everything, readable.
func Example_loop() {
	m := newLoop(newPlan(lengths{batches: 3, accumulate: 2, epochs: 1}, semantics.Rules{}), flow{
		log: Every(1, Update), eval: Every(1, Epoch), save: Every(2, Update), evalOnStart: true,
	})
	fmt.Println(strings.NewReplacer(", fetch", ",\nfetch", ", epoch end, ", ",\nepoch end, ").
		Replace(strings.Join(drive(m, nil), ", ")))
	// Output:
	// train begin, evaluate, epoch begin,
	// fetch 2, step begin, train, substep end, train, clip, before update, update, after update, schedule, step end, log,
	// fetch 1, step begin, train, clip, before update, update, after update, schedule, step end, log, save,
	// epoch end, evaluate, epoch done, final log, train end
}

// model is the same loop written in the usual way: nested loops, directly from the description of
// Hugging Face's, without actions.
func model(batches, accumulate int, epochs float64, maxSteps int, f flow) (list []string) {
	do := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	perEpoch := 0
	for left := batches; left > 0; left -= accumulate {
		perEpoch++
	}
	total, passes := int(math.Ceil(epochs*float64(perEpoch))), int(math.Ceil(epochs))
	if maxSteps > 0 {
		total, passes = maxSteps, int(math.Ceil(float64(maxSteps)/float64(perEpoch)))
	}
	step, logged, saved := 0, 0, -1
	tail := func(log, eval, save, epoch bool) {
		if log && step > logged {
			do("log")
			logged = step
		}
		if eval {
			do("evaluate")
		}
		if epoch {
			do("epoch done")
		}
		if save {
			do("save")
			saved = step
		}
	}
	on := func(t Trigger, n int, u Unit) bool { return t.kind == every && t.unit == u && n%t.n == 0 }
	do("train begin")
	if f.evalOnStart {
		do("evaluate")
	}
	for epoch := 1; epoch <= passes; epoch++ {
		do("epoch begin")
		// What becomes due after the last update remains due until the next window, as in
		// TrainerControl.
		log := false
		for left := batches; left > 0 && step < total; left -= accumulate {
			window := min(left, accumulate)
			do("fetch %d", window)
			do("step begin")
			for i := range window {
				do("train")
				if i < window-1 {
					do("substep end")
				}
			}
			do("clip")
			do("before update")
			do("update")
			do("after update")
			do("schedule")
			step++
			do("step end")
			last := step == total
			log = on(f.log, step, Update) || f.logFirstStep && step == 1
			tail(log, on(f.eval, step, Update) || last && f.eval.byUpdates(), on(f.save, step, Update) || last &&
				f.save.byUpdates(), false)
			if log && logged == step {
				log = false
			}
		}
		do("epoch end")
		tail(log || on(f.log, epoch, Epoch), on(f.eval, epoch, Epoch), on(f.save, epoch, Epoch), true)
		if step >= total {
			break
		}
	}
	if f.rules.Loop == semantics.DefaultLoop && f.save.kind == every && saved != step {
		do("save")
	}
	do("final log")
	do("train end")
	return list
}

func TestTheTextsEqualTheNestedLoops(t *testing.T) {
	triggers := rapid.Custom(func(t *rapid.T) Trigger {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return Never
		case 1, 2:
			return Every(rapid.IntRange(1, 7).Draw(t, "n"), Update)
		default:
			return Every(rapid.IntRange(1, 3).Draw(t, "n"), Epoch)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		batches := rapid.IntRange(1, 12).Draw(t, "batches")
		accumulate := rapid.IntRange(1, 5).Draw(t, "accumulate")
		epochs := float64(rapid.IntRange(1, 16).Draw(t, "quarters")) / 4
		maxSteps := 0
		if rapid.Bool().Draw(t, "by steps") {
			maxSteps = rapid.IntRange(1, 30).Draw(t, "max steps")
		}
		f := flow{
			log: triggers.Draw(t, "log"), eval: triggers.Draw(t, "eval"), save: triggers.Draw(t, "save"),
			evalOnStart: rapid.Bool().Draw(t, "eval on start"), logFirstStep: rapid.Bool().Draw(t, "log first"),
		}
		f.rules = rapid.SampledFrom([]semantics.Rules{semantics.Default, semantics.HuggingFace}).Draw(t, "rules")
		want := model(batches, accumulate, epochs, maxSteps, f)
		got := drive(newLoop(newPlan(lengths{batches: batches, accumulate: accumulate, epochs: epochs,
			maxSteps: maxSteps}, semantics.Rules{}), f), nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("events (-nested loops +loop):\n%s", diff)
		}
	})
}

// TestALoopContinuesFromEverySave saves the position at every save of a random run and lets a new
// loop continue from it. After its begin events, the new loop must do what the first one did after
// that save.
func TestALoopContinuesFromEverySave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlan(lengths{batches: rapid.IntRange(1, 9).Draw(t, "batches"), accumulate: rapid.IntRange(1, 4).Draw(t,
			"accumulate"), epochs: float64(rapid.IntRange(1, 12).Draw(t, "quarters")) / 4}, semantics.Rules{})
		f := flow{log: Every(rapid.IntRange(1, 5).Draw(t, "log"), Update), eval: Every(1, Epoch),
			save: Every(rapid.IntRange(1, 4).Draw(t, "save"), Update)}
		type saved struct {
			position position
			at       int
		}
		var saves []saved
		m := newLoop(p, f)
		n := 0
		whole := drive(m, func(a action) {
			n++
			if a == stepSave || a == epochSave || a == finalSave {
				saves = append(saves, saved{m.saved(), n})
			}
		})
		for _, s := range saves {
			again := newLoop(p, f)
			again.resume(s.position)
			got := drive(again, nil)
			if len(got) < 2 || got[0] != "train begin" || got[1] != "epoch begin" {
				t.Fatalf("resumed loop begins with %q", got)
			}
			if diff := cmp.Diff(whole[s.at:], got[2:]); diff != "" {
				t.Fatalf("after the save at update %d (-whole +resumed):\n%s", s.position.GlobalStep, diff)
			}
		}
	})
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		claim      string
		batches    int
		accumulate int
		epochs     float64
		maxSteps   int
		want       plan
	}{
		{"a short last window is an update", 10, 4, 2, 0, plan{10, 4, 3, 3, 6, 6, 2, 0, false}},
		{"a window longer than the epoch is one update", 3, 8, 2, 0, plan{3, 8, 1, 1, 2, 2, 2, 0, false}},
		{"a fraction of an epoch is rounded up to an update", 9, 1, 1.5, 0, plan{9, 1, 9, 9, 14, 14, 2, 0, false}},
		{"max steps decide alone and may exceed the epochs", 5, 1, 1, 13, plan{5, 1, 5, 5, 13, 13, 3, 0, false}},
	} {
		if got := newPlan(lengths{batches: c.batches, accumulate: c.accumulate, epochs: c.epochs, maxSteps: c.maxSteps},
			semantics.Rules{}); got != c.want {
			t.Errorf("%s: newPlan(%d, %d, %v, %d) = %+v, want %+v", c.claim, c.batches, c.accumulate, c.epochs,
				c.maxSteps, got, c.want)
		}
	}
}

func TestStops(t *testing.T) {
	stopAt := func(m *loop, want action, flag func(*Control)) []string {
		return drive(m, func(a action) {
			if a == want && m.GlobalStep == 1 {
				flag(&m.Control)
			}
		})
	}
	count := func(list []string, what string) (n int) {
		for _, s := range list {
			if s == what {
				n++
			}
		}
		return n
	}
	training := func(c *Control) { c.ShouldTrainingStop = true }
	epoch := func(c *Control) { c.ShouldEpochStop = true }
	for _, c := range []struct {
		claim                     string
		rules                     semantics.Rules
		at                        action
		flag                      func(*Control)
		updates, trained, savings int
	}{
		{"a stop after an update is the end, and the update is saved", semantics.Default, stepEnd, training, 1, 2, 1},
		{"Hugging Face does not save then", semantics.HuggingFace, stepEnd, training, 1, 2, 0},
		{"a stop inside a window waits for its update", semantics.Default, substepEnd, training, 2, 4, 1},
		{"Hugging Face leaves the window", semantics.HuggingFace, substepEnd, training, 1, 3, 0},
		{"a stop when a window begins waits for its update", semantics.Default, stepBegin, training, 2, 4, 1},
		{"the end of an epoch is followed by the next epoch", semantics.Default, stepEnd, epoch, 4, 7, 1},
	} {
		m := newLoop(newPlan(lengths{batches: 5, accumulate: 2, epochs: 2}, semantics.Rules{}),
			flow{save: Every(100, Update), rules: c.rules})
		got := stopAt(m, c.at, c.flag)
		if count(got, "update") != c.updates || count(got, "train") != c.trained || count(got, "save") != c.savings {
			t.Errorf("%s: %d updates, %d micro-batches, %d saves, want %d, %d, %d: %q", c.claim,
				count(got, "update"), count(got, "train"), count(got, "save"), c.updates, c.trained, c.savings, got)
		}
	}
}
