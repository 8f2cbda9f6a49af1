package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// This file has the order of events of every trainer, one function for each, from the first hook to
// the last. These functions know nothing of steps, data or files: do carries out an action, due
// carries out those of its actions that are due, and the loop does the counting (loop.go). A
// resumed run goes through its function from the beginning, too; the loop skips what was done
// before the checkpoint.

var loops = map[semantics.Loop]func(*loop){
	semantics.DefaultLoop:            defaultLoop,
	semantics.HuggingFaceLoop:        huggingFaceLoop,
	semantics.HezarLoop:              hezarLoop,
	semantics.PytorchAcceleratedLoop: pytorchAcceleratedLoop,
	semantics.PyMarlinLoop:           pyMarlinLoop,
}

// defaultLoop is Hugging Face's loop with its defects fixed: a window is always finished, the rest
// of a stream's pass is an update, and the last update is saved however the run ends.
func defaultLoop(l *loop) {
	l.do(trainBegin)
	l.due(evalOnStart)
	for range l.epochs() {
		l.do(epochBegin)
		for range l.windows() {
			l.do(stepBegin)
			for range l.batches() {
				l.do(train)
				if !l.windowIsComplete() {
					l.do(substepEnd)
				}
			}
			l.do(clip)
			l.do(beforeUpdate)
			l.do(update)
			l.do(afterUpdate)
			l.do(schedule)
			l.countUpdate()
			l.countStep()
			l.lastStepIsDue()
			l.do(stepEnd)
			l.due(stepLog, stepEvaluate, stepSave)
		}
		l.countEpoch()
		l.do(epochEnd)
		l.due(epochLog, epochEvaluate)
		l.do(epochDone)
		l.due(epochSave)
	}
	l.due(finalSave)
	l.do(finalLog)
	l.do(trainEnd)
}

// huggingFaceLoop is transformers 5.17: Trainer._inner_training_loop, _run_epoch and
// _maybe_log_save_evaluate.
func huggingFaceLoop(l *loop) {
	l.do(trainBegin)
	l.due(evalOnStart)
	for range l.epochs() {
		l.do(epochBegin)
	windows:
		for range l.windows() {
			l.do(stepBegin)
			for range l.batches() {
				l.do(train)
				if l.windowIsComplete() && !l.streamHasEnded() {
					break
				}
				l.do(substepEnd)
				if l.stopping() { // immediately: accumulated gradients are neither used nor cleared
					break windows
				}
			}
			if l.streamHasEnded() { // the leftover batches make no update, and their gradients leak into the next pass
				continue
			}
			l.do(clip)
			l.do(beforeUpdate)
			l.do(update)
			l.do(afterUpdate)
			l.do(schedule)
			l.countUpdate()
			l.countStep()
			l.lastStepIsDue()
			l.do(stepEnd)
			l.due(stepLog, stepEvaluate, stepSave)
			if l.stopping() {
				break
			}
		}
		l.countEpoch()
		l.do(epochEnd)
		l.due(epochLog, epochEvaluate)
		l.do(epochDone)
		l.due(epochSave)
	}
	l.do(finalLog)
	l.do(trainEnd)
}

// hezarLoop is Trainer.train and inner_training_loop of hezar 1.0.0. A step is a micro-batch, and
// the schedule counts steps. It saves before it evaluates. The second save is one that the
// evaluation has requested because its model is the best so far; Hezar has no such save.
func hezarLoop(l *loop) {
	l.do(trainBegin)
	l.due(evalOnStart)
	for range l.epochs() {
		l.do(epochBegin)
	windows:
		for range l.windows() {
			for range l.batches() {
				l.do(stepBegin)
				l.do(train)
				if l.windowIsComplete() {
					l.do(clip)
					l.do(beforeUpdate)
					l.do(update)
					l.do(afterUpdate)
					l.countUpdate()
				}
				l.countStep()
				l.due(scheduleBySteps)
				l.do(stepEnd)
				l.due(stepSave, stepEvaluate, stepSave, stepLog)
				if l.stopping() && (l.windowIsComplete() || l.flow.rules.UnfinishedWindowLost) {
					break windows
				}
			}
		}
		l.countEpoch()
		l.do(epochEnd)
		l.due(epochSave, epochEvaluate, epochSave, epochLog)
		l.do(epochDone)
	}
	l.do(finalLog)
	l.do(trainEnd)
}

// pytorchAcceleratedLoop is Trainer._run_training and _run_train_epoch of pytorch-accelerated
// 0.1.61.
func pytorchAcceleratedLoop(l *loop) {
	l.do(trainBegin)
	l.due(evalOnStart)
	for range l.epochs() {
		l.do(epochBegin)
		for range l.windows() {
			l.do(stepBegin)
			for range l.batches() {
				l.do(train)
				if l.flow.rules.ClipEveryBatch {
					l.do(clip)
				}
				if !l.windowIsComplete() {
					l.do(substepEnd)
				}
			}
			if !l.flow.rules.ClipEveryBatch {
				l.do(clip)
			}
			l.do(beforeUpdate)
			l.do(update)
			l.do(afterUpdate)
			l.do(schedule)
			l.countUpdate()
			l.countStep()
			l.do(stepEnd)
			l.due(stepLog, stepEvaluate, stepSave)
		}
		l.countEpoch()
		l.do(epochEnd)
		l.due(epochLog, epochEvaluate)
		l.do(epochDone)
		l.due(epochSave)
	}
	l.do(finalLog)
	l.do(trainEnd)
}

// pyMarlinLoop is Trainer.train of PyMarlin 0.3.6 over SingleProcess.train_dl and
// process_global_step. A window that the end of an epoch cuts short continues in the next epoch.
func pyMarlinLoop(l *loop) {
	l.do(trainBegin)
	l.due(evalOnStart)
	for range l.epochs() {
		l.do(epochBegin)
		for range l.windows() { // the part of a window that is in this epoch
			if l.Phase == 0 {
				l.do(stepBegin)
			}
			for range l.batches() {
				l.do(train)
				if l.Phase != 0 {
					l.do(substepEnd)
				}
			}
			if l.Phase != 0 {
				continue
			}
			l.do(clip)
			l.do(beforeUpdate)
			l.do(update)
			l.do(schedule)
			l.do(afterUpdate)
			l.countUpdate()
			l.countStep()
			l.do(stepEnd)
			l.due(stepLog, stepEvaluate, stepSave)
		}
		l.countEpoch()
		l.do(epochEnd)
		l.due(epochLog, epochEvaluate)
		l.do(epochDone)
		l.due(epochSave)
	}
	l.do(finalLog)
	l.do(trainEnd)
}
