package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// This file is the loop: a state machine that knows order and counting and nothing else. next says what is to be done; whoever drives it does
// it and reports back through the control flags and evaluated. It has no Step, no data and no files, so every order of events can be tested by
// itself, and its whole state is the small value [position] that a checkpoint keeps.

// action is one thing to do.
type action int

const (
	doTrainBegin   action = iota + 1 // hooks
	doEvalOnStart                    // evaluate, without looking for the best
	doEpochBegin                     // hooks
	doFetch                          // have machine.window batches ready
	doStepBegin                      // hooks
	doTrain                          // forward and backward of micro-batch machine.index of the window
	doSubstepEnd                     // hooks
	doBeforeUpdate                   // hooks
	doUpdate                         // optimizer step
	doAfterUpdate                    // hooks
	doStepEnd                        // hooks
	doLog                            // loss, grad_norm, learning_rate
	doEvaluate                       // evaluate, then machine.evaluated
	doSave                           // write a checkpoint
	doEpochEnd                       // hooks
	doFinalLog                       // train_loss and the speeds
	doTrainEnd                       // best model, hooks
	doDone                           // nothing is left
)

// flow is when to log, evaluate and save.
type flow struct {
	log, eval, save Trigger // resolved: no shares
	evalDelay       float64 // no evaluation before so many updates or epochs, whichever eval counts
	logFirstStep    bool
	evalOnStart     bool
	saveNewBest     bool // a new best is saved at once
	ignoreDataSkip  bool // a resumed run begins its epoch again
	rules           semantics.Rules
}

type machine struct {
	plan plan
	flow flow
	position
	window int // length of the window that is being trained on
	index  int // the micro-batch of doTrain within it

	passEnded bool // the stream has no more batches in this pass

	resumed bool  // began from a checkpoint
	enter   stage // where to go on after the first epoch-begin event of a resumed run; 0: nowhere
}

func newMachine(p plan, f flow) *machine {
	return &machine{plan: p, flow: f, position: position{LastSaved: -1}}
}

// next returns what is to be done and moves on.
func (m *machine) next() action {
	for {
		switch m.Stage {
		case atBegin:
			m.Stage = atEvalOnStart
			return doTrainBegin
		case atEvalOnStart:
			m.Stage = atEpochBegin
			if m.flow.evalOnStart && (!m.resumed || m.flow.rules.EvalOnStartAfterResume || m.enter == atEvalOnStart) {
				return doEvalOnStart
			}
		case atEpochBegin:
			enter := m.enter
			m.enter = 0
			switch {
			case m.Epoch >= m.plan.epochs, enter >= atFinish:
				m.Stage = max(atFinish, enter)
				continue
			case enter > atEpochBegin:
				m.Stage = enter
			default:
				m.Control.ShouldEpochStop = false
				m.Stage = atFetch
			}
			return doEpochBegin
		case atFetch:
			m.window, m.index = m.plan.window(m.Micro), 0
			if m.window == 0 || m.stopping() && !m.flow.rules.StopInsideWindow {
				m.Stage = atEpochEnd
				continue
			}
			m.Stage = atStepBegin
			return doFetch
		case atStepBegin:
			m.Control.ShouldLog, m.Control.ShouldEvaluate, m.Control.ShouldSave = false, false, false
			m.Stage = atTrain
			return doStepBegin
		case atTrain:
			m.Stage = atTrained
			return doTrain
		case atTrained:
			m.Micro++
			m.index++
			if m.index < m.window {
				m.Stage = atSubstepDone
				return doSubstepEnd
			}
			if m.plan.stream && m.window < m.plan.accumulate && m.flow.rules.StreamRestLeaks {
				m.Stage = atRest
				return doSubstepEnd
			}
			m.Stage = atUpdate
			return doBeforeUpdate
		case atSubstepDone:
			m.Stage = atTrain
			if m.flow.rules.StopInsideWindow && m.stopping() {
				m.Stage = atEpochEnd
			}
		case atRest:
			m.Stage = atFetch
		case atUpdate:
			m.Stage = atUpdated
			return doUpdate
		case atUpdated:
			m.Stage = atStepEnd
			return doAfterUpdate
		case atStepEnd:
			m.GlobalStep++
			m.Progress = m.progress()
			m.afterStep()
			m.Stage = atStepLog
			return doStepEnd
		case atEpochEnd:
			if m.plan.stream && m.passEnded && m.Micro > 0 && !m.flow.rules.StreamEpochByPlan {
				m.PassBatches, m.Progress = m.Micro, float64(m.Epoch+1)
			}
			m.passEnded = false
			m.afterEpoch()
			m.Stage = atEpochLog
			return doEpochEnd
		case atStepLog, atEpochLog:
			m.Stage++
			if m.Control.ShouldLog && m.GlobalStep > m.LastLogged {
				return doLog
			}
		case atStepEval, atEpochEval:
			m.Stage++
			if m.Control.ShouldEvaluate {
				return doEvaluate
			}
		case atStepSave, atEpochSave:
			m.Stage++
			if m.Control.ShouldSave {
				return doSave
			}
		case atStepDone:
			m.Stage = atFetch
			if m.stopping() {
				m.Stage = atEpochEnd
			}
		case atEpochDone:
			if m.Control.ShouldTrainingStop {
				m.Stage = atFinish
				continue
			}
			m.Epoch++
			m.Micro, m.LoaderStarted = 0, false
			m.Stage = atEpochBegin
		case atFinish:
			m.Stage = atFinalLog
			if m.finalSave() {
				return doSave
			}
		case atFinalLog:
			m.Stage = atTrainEnd
			return doFinalLog
		case atTrainEnd:
			m.Stage = atDone
			return doTrainEnd
		default:
			return doDone
		}
	}
}

// fetched tells the machine that a stream had only n batches left for the window of doFetch. A pass without any batch ends the run.
func (m *machine) fetched(n int) {
	m.passEnded = true
	if m.window = n; n > 0 {
		return
	}
	if m.Micro == 0 {
		m.Control.ShouldTrainingStop = true
	}
	m.Stage = atEpochEnd
}
