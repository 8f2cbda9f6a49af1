package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// This file is the loop: a state machine that knows order and counting and nothing else. next says
// what is to be done; whoever drives it does it and reports back through the control flags and
// evaluated. It has no Step, no data and no files, so every order of events can be tested by
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
	doEpochDone                      // hooks
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
	window int // micro-batches that were fetched together: a window, or the part of it that lies in this epoch
	index  int // the micro-batch of doTrain within it

	updated bool // the step at hand had an update

	passEnded bool // the stream has no more batches in this pass
	idle      int  // passes over a stream without a step, in a row

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
			case m.Epoch >= m.plan.epochs, enter.finishing():
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
			m.window, m.index = m.length(), 0
			if m.window == 0 || m.stopping() && !m.flow.rules.StopInsideWindow {
				m.Stage = atEpochEnd
				continue
			}
			m.Stage = atStepBegin
			return doFetch
		case atStepBegin:
			m.Stage = atTrain
			if !m.beginsStep() {
				continue
			}
			m.Control.ShouldLog, m.Control.ShouldEvaluate = false, false
			// it waits for the update
			m.Control.ShouldSave = m.Control.ShouldSave && m.index > 0 && !m.flow.rules.SaveInsideWindow
			return doStepBegin
		case atTrain:
			m.Stage = atTrained
			return doTrain
		case atTrained:
			m.Stage = m.afterTrain()
			switch m.Stage {
			case atSubstepDone, atRest:
				return doSubstepEnd
			case atUpdate:
				return doBeforeUpdate
			}
		case atSubstepDone:
			m.Stage = atStepBegin
			if m.flow.rules.StopInsideWindow && m.stopping() {
				m.Stage = atEpochEnd
			}
		case atRest:
			m.Stage = atFetch
		case atUpdate:
			m.Stage = atUpdated
			return doUpdate
		case atUpdated:
			m.updated = true
			m.Stage = atStepEnd
			return doAfterUpdate
		case atStepEnd:
			m.countStep()
			m.afterStep()
			m.Stage = atStepFirst
			return doStepEnd
		case atEpochEnd:
			if m.plan.stream && m.passEnded && m.Micro > 0 && !m.flow.rules.StreamEpochByPlan {
				m.PassBatches, m.Progress = m.Micro, float64(m.Epoch+1)
			}
			m.passEnded = false
			m.countIdle()
			m.afterEpoch()
			m.Stage = atEpochFirst
			return doEpochEnd
		case atStepFirst, atStepSecond, atStepThird, atEpochFirst, atEpochSecond, atEpochThird, atEpochFourth:
			a := m.due()
			if m.Stage++; m.Stage == atEpochThird+1 {
				m.Stage = atEpochFourth
			} else if m.Stage == atEpochFourth+1 {
				m.Stage = atEpochDone
			}
			if a != 0 {
				return a
			}
		case atStepDone:
			switch {
			case m.stopping() && (m.index >= m.window || m.flow.rules.StopInsideWindow):
				m.Stage = atEpochEnd
			case m.index < m.window:
				m.Stage = atStepBegin
			default:
				m.Stage = atFetch
			}
		case atEpochDone:
			if m.Control.ShouldTrainingStop {
				m.Stage = atFinish
				continue
			}
			m.beginEpoch(m.Epoch + 1)
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

// abort ends the run where it stands: what was gathered of a window is neither used nor cleared.
func (m *machine) abort() {
	m.Control.ShouldTrainingStop = true
	m.Stage = atFinish
}

// ending reports whether the run is already about to end.
func (m *machine) ending() bool { return m.Stage >= atFinalLog && m.Stage <= atDone }

// fetched tells the machine that a stream had only n batches left for the window of doFetch. A pass
// without any batch ends the run.
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
