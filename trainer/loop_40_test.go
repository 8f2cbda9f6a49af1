package trainer

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// model40 is _inner_training_loop of transformers 4.40.2 with its DefaultFlowCallback, as far as it
// counts: its own variables, in its own order. stopAt is a batch of the run behind which a hook
// sets should_training_stop; 0: none.
func model40(batches, accumulate int, epochs float64, maxSteps int, f flow, stopAt int) (list []string) {
	do := func(text string) { list = append(list, text) }
	updatesPerEpoch := max(batches/accumulate, 1)
	steps, passes := int(math.Ceil(epochs*float64(updatesPerEpoch))), int(math.Ceil(epochs))
	if maxSteps > 0 {
		steps, passes = maxSteps, maxSteps/updatesPerEpoch
		if maxSteps%updatesPerEpoch > 0 {
			passes++
		}
	}
	globalStep, lastLogged, total := 0, 0, 0
	var shouldLog, shouldEvaluate, shouldSave, shouldStop bool
	maybe := func() {
		if shouldLog && globalStep > lastLogged {
			do("log")
			lastLogged, shouldLog = globalStep, false
		}
		if shouldEvaluate {
			do("evaluate")
			shouldEvaluate = false
		}
		if shouldSave {
			do("save")
			shouldSave = false
		}
	}
	do("train-begin")
	for epoch := range passes {
		do("epoch-begin")
		for step := range batches {
			total++
			if step%accumulate == 0 {
				shouldLog, shouldEvaluate, shouldSave = false, false, false
				do("step-begin")
			}
			do("train")
			short := batches <= accumulate && step+1 == batches
			if total%accumulate == 0 || short {
				do("update")
				globalStep++
				shouldLog = shouldLog || f.log.due(globalStep, Update)
				shouldEvaluate = shouldEvaluate || f.eval.due(globalStep, Update)
				shouldSave = shouldSave || f.save.due(globalStep, Update)
				shouldStop = shouldStop || globalStep >= steps || total == stopAt
				do("step-end")
				maybe()
			} else {
				shouldStop = shouldStop || total == stopAt
				do("substep-end")
			}
			if shouldStop {
				break
			}
		}
		shouldLog = shouldLog || f.log.due(epoch+1, Epoch)
		shouldEvaluate = shouldEvaluate || f.eval.due(epoch+1, Epoch)
		shouldSave = shouldSave || f.save.due(epoch+1, Epoch)
		do("epoch-end")
		maybe()
		if shouldStop {
			break
		}
	}
	do("final-log")
	do("train-end")
	return list
}

// There are no recorded runs of transformers 4.40, so its loop is told once more.
func TestHuggingFace40EqualsItsSource(t *testing.T) {
	triggers := rapid.Custom(func(t *rapid.T) Trigger {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return Never
		case 1:
			return Every(rapid.IntRange(1, 3).Draw(t, "n"), Epoch)
		default:
			return Every(rapid.IntRange(1, 5).Draw(t, "n"), Update)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		batches, accumulate := rapid.IntRange(1, 12).Draw(t, "batches"), rapid.IntRange(1, 6).Draw(t, "accumulate")
		epochs, maxSteps := float64(rapid.IntRange(1, 16).Draw(t, "quarters"))/4, 0
		if rapid.Bool().Draw(t, "by steps") {
			maxSteps = rapid.IntRange(1, 20).Draw(t, "max steps")
		}
		f := flow{log: triggers.Draw(t, "log"), eval: triggers.Draw(t, "eval"), save: triggers.Draw(t, "save"),
			rules: semantics.HuggingFace40}
		stopAt := rapid.IntRange(0, 30).Draw(t, "stop at")
		m := newMachine(newPlan(lengths{batches: batches, accumulate: accumulate, epochs: epochs, maxSteps: maxSteps},
			f.rules), f)
		micro := 0
		all := drive(m, func(a action) {
			if a == doTrain {
				micro++
			}
			// what a hook of these events does
			if micro == stopAt && stopAt > 0 && (a == doSubstepEnd || a == doStepEnd) {
				m.Control.ShouldTrainingStop = true
			}
		})
		var got []string
		for _, a := range all {
			switch {
			case len(a) > 5 && a[:5] == "fetch", a == "before-update", a == "after-update", a == "epoch-done":
			default:
				got = append(got, a)
			}
		}
		if diff := cmp.Diff(model40(batches, accumulate, epochs, maxSteps, f, stopAt), got); diff != "" {
			t.Fatalf("(-transformers 4.40 +ours):\n%s", diff)
		}
	})
}
