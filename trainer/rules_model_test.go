package trainer_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// This file describes what a run does, in the order of Hugging Face's documentation, slowly and
// without the loop's code. The test next to it compares the loop with this description for
// thousands of random runs.

// interval is when something is done: never, every n updates, every n epochs, or every share of the
// run.
type interval struct {
	by    string // "no", "steps", "epoch", "share"
	n     int
	share float64
}

// asked is what a hook requests after an update.
type asked struct {
	step                                   int
	log, eval, save, stopEpoch, stopWholly bool
	cancelSave                             bool
}

// scenario is a run in terms of its options.
type scenario struct {
	rows, batch, accumulate int
	dropLast                bool
	epochs                  float64
	maxSteps                int
	log, eval, save         interval
	delay                   float64
	logFirst, evalOnStart   bool
	huggingFace             bool
	asks                    []asked
	// a hook between two micro-batches stops the run at the micro-batch with this number; 0: none
	stopAtMicro int
}

// cut divides a list into parts of a length; the last may be shorter.
func cut[T any](list []T, length int) (parts [][]T) {
	for len(list) > length {
		parts = append(parts, list[:length])
		list = list[length:]
	}
	return append(parts, list)
}

// windows returns the micro-batches of an epoch in groups, one for each update.
func (d scenario) windows() [][][]int {
	rows := make([]int, d.rows)
	for i := range rows {
		rows[i] = i
	}
	batches := cut(rows, d.batch)
	if d.dropLast && len(batches[len(batches)-1]) < d.batch {
		batches = batches[:len(batches)-1]
	}
	return cut(batches, d.accumulate)
}

// updates returns the length of the run.
func (d scenario) updates() int {
	if d.maxSteps > 0 {
		return d.maxSteps
	}
	return int(math.Ceil(d.epochs * float64(len(d.windows()))))
}

// passes returns the maximum number of epochs that are begun.
func (d scenario) passes() int {
	if d.maxSteps == 0 {
		return int(math.Ceil(d.epochs))
	}
	passes := 0
	for n := 0; n < d.maxSteps; n += len(d.windows()) {
		passes++
	}
	return passes
}

// everyUpdates turns a share into a number of updates.
func (d scenario) everyUpdates(i interval) interval {
	if i.by == "share" {
		return interval{by: "steps", n: int(math.Ceil(float64(d.updates()) * i.share))}
	}
	return i
}

// story returns what happens in a run, one line for each event.
func (d scenario) story() (lines []string) {
	tell := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	log, eval, save := d.everyUpdates(d.log), d.everyUpdates(d.eval), d.everyUpdates(d.save)
	step, micro, logged, saved, progress := 0, 0, 0, -1, 0.0
	stop := false

	var wantLog, wantEval, wantSave bool
	carryOut := func() {
		if wantLog && step > logged {
			tell("log %d", step)
			logged, wantLog = step, false
		}
		if wantEval {
			tell("eval %d", step)
			wantEval, wantLog = false, false // an evaluation is logged, which fulfils a request for a log
		}
		if wantSave {
			tell("save %d", step)
			saved, wantSave = step, false
		}
	}

	if d.evalOnStart {
		tell("eval 0")
	}
	for epoch := range d.passes() {
		tell("epoch %d", epoch)
		stopEpoch := false
		done := 0
	epoch:
		for _, window := range d.windows() {
			wantLog, wantEval, wantSave = false, false, false
			for i, batch := range window {
				tell("train %s / %d", rowsText(batch), len(window))
				micro++
				done++
				if i == len(window)-1 {
					continue
				}
				if stop = stop || micro == d.stopAtMicro; stop && d.huggingFace {
					break epoch // immediately: the accumulated gradients give no update
				}
			}
			tell("update")
			step++
			batches := 0
			for _, w := range d.windows() {
				batches += len(w)
			}
			progress = float64(epoch) + float64(done)/float64(batches)

			wantLog = log.by == "steps" && step%log.n == 0 || d.logFirst && step == 1
			late := d.delay <= float64(step)
			wantEval = eval.by == "steps" && step%eval.n == 0 && late
			wantSave = save.by == "steps" && step%save.n == 0
			if step == d.updates() {
				stop = true
				wantEval = wantEval || eval.by == "steps" && late
				wantSave = wantSave || save.by == "steps"
			}
			for _, a := range d.asks {
				if a.step == step {
					wantLog, wantEval, wantSave = wantLog || a.log, wantEval || a.eval, (wantSave || a.save) &&
						!a.cancelSave
					stop, stopEpoch = stop || a.stopWholly, stopEpoch || a.stopEpoch
				}
			}
			carryOut()
			if stop || stopEpoch {
				break
			}
		}
		tell("end of epoch %d", epoch)
		wantLog = wantLog || log.by == "epoch" && (epoch+1)%log.n == 0
		wantEval = wantEval || eval.by == "epoch" && (epoch+1)%eval.n == 0 && d.delay <= progress
		wantSave = wantSave || save.by == "epoch" && (epoch+1)%save.n == 0
		carryOut()
		if stop {
			break
		}
	}
	if !d.huggingFace && d.save.by != "no" && step > 0 && saved != step {
		tell("save %d", step)
	}
	tell("end at %d", step)
	return lines
}

func rowsText(rows []int) string { return strings.Trim(fmt.Sprint(rows), "[]") }

// without removes the lines that begin with one of these words.
func without(lines []string, words ...string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(line, w) })
	})
}
