package trainer

import (
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

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

// stage is where the machine stands: what next will look at. A checkpoint keeps it, hence the numbers are fixed.
type stage int

const (
	atBegin       stage = 0
	atEvalOnStart stage = 1
	atEpochBegin  stage = 2
	atFetch       stage = 3
	atStepBegin   stage = 4
	atTrain       stage = 5
	atTrained     stage = 6
	atSubstepDone stage = 7
	atUpdate      stage = 8
	atUpdated     stage = 9
	atStepEnd     stage = 10
	atStepLog     stage = 11 // log, evaluate, save, done: in this order, after a step and after an epoch
	atStepEval    stage = 12
	atStepSave    stage = 13
	atStepDone    stage = 14
	atEpochEnd    stage = 15
	atEpochLog    stage = 16
	atEpochEval   stage = 17
	atEpochSave   stage = 18
	atEpochDone   stage = 19
	atFinish      stage = 20
	atFinalLog    stage = 21
	atTrainEnd    stage = 22
	atDone        stage = 23
	atRest        stage = 24 // behind the last micro-batches of a pass, which are no window
)

// position is the state of the loop that is needed to go on. A checkpoint keeps it.
type position struct {
	Stage      stage   `json:"stage"`
	Epoch      int     `json:"epoch"`            // epochs that have ended
	Micro      int     `json:"micro_batches"`    // batches of this epoch that were trained on
	GlobalStep int     `json:"global_step"`      // updates
	Progress   float64 `json:"epoch_fractional"` // the epoch as it is logged: 1.5 is half of the second
	LastLogged int     `json:"last_logged"`      // GlobalStep of the last log
	LastSaved  int     `json:"last_saved"`       // GlobalStep of the last checkpoint; -1: none
	Control    Control `json:"control"`
	// The generator of the step has already been drawn from for this epoch's loader, or for the evaluation that is next.
	LoaderStarted     bool `json:"loader_started"`
	EvalLoaderStarted bool `json:"eval_loader_started"`
	EvalSet           int  `json:"eval_set,omitempty"`     // of several validation sets, the one that is evaluated on next
	PassBatches       int  `json:"pass_batches,omitempty"` // of a stream, the batches of the last pass that ended; 0: none has
}

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

// resume puts the machine where a checkpoint was made.
func (m *machine) resume(p position) {
	m.position = p
	m.resumed = true
	if m.flow.rules.PositionFromGlobalStep {
		m.Epoch = p.GlobalStep / m.plan.updatesPerEpoch
		m.Micro = p.GlobalStep % m.plan.updatesPerEpoch * m.plan.accumulate
		m.LoaderStarted, m.EvalLoaderStarted, m.EvalSet = m.Micro > 0, false, 0
		m.LastLogged = p.GlobalStep
		m.Control = Control{}
		m.enter = atEpochBegin
		if m.flow.ignoreDataSkip {
			m.Micro, m.LoaderStarted = 0, false
		}
		if m.Micro > 0 {
			m.enter = atFetch
		}
	} else {
		if m.flow.ignoreDataSkip && p.Stage <= atStepDone && m.plan.window(m.Micro) > 0 {
			m.Micro, m.LoaderStarted = 0, false
		}
		m.Control.ShouldTrainingStop = p.GlobalStep >= m.plan.maxSteps
		m.enter = p.Stage
		if p.Stage >= atFinish && p.GlobalStep < m.plan.maxSteps { // a finished run is made longer
			m.Control = Control{}
			m.enter = atFetch
			if m.plan.window(m.Micro) == 0 { // its last epoch has ended already
				m.Epoch, m.Micro, m.LoaderStarted = m.Epoch+1, 0, false
				m.enter = atEpochBegin
			}
		}
	}
	m.Stage = atBegin
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

// progress is the epoch as it is logged.
func (m *machine) progress() float64 {
	batches := m.plan.batches
	if m.PassBatches > 0 && m.plan.stream && !m.flow.rules.StreamEpochByPlan {
		batches = max(m.PassBatches, m.Micro) // a pass may be longer than the one before
	}
	return float64(m.Epoch) + float64(m.Micro)/float64(batches)
}

func (m *machine) stopping() bool { return m.Control.ShouldEpochStop || m.Control.ShouldTrainingStop }

// afterStep raises the flags that are due after an update: on_step_end of transformers.DefaultFlowCallback.
func (m *machine) afterStep() {
	c, f := &m.Control, &m.flow
	c.ShouldLog = c.ShouldLog || f.log.due(m.GlobalStep, Update) || f.logFirstStep && m.GlobalStep == 1
	late := f.evalDelay <= float64(m.GlobalStep)
	c.ShouldEvaluate = c.ShouldEvaluate || late && f.eval.due(m.GlobalStep, Update)
	c.ShouldSave = c.ShouldSave || f.save.due(m.GlobalStep, Update)
	if m.GlobalStep >= m.plan.maxSteps {
		c.ShouldTrainingStop = true
		c.ShouldEvaluate = c.ShouldEvaluate || late && f.eval.byUpdates()
		c.ShouldSave = c.ShouldSave || f.save.byUpdates()
	}
}

// afterEpoch raises the flags that are due at the end of an epoch.
func (m *machine) afterEpoch() {
	c, f := &m.Control, &m.flow
	c.ShouldLog = c.ShouldLog || f.log.due(m.Epoch+1, Epoch)
	c.ShouldEvaluate = c.ShouldEvaluate || f.evalDelay <= m.Progress && f.eval.due(m.Epoch+1, Epoch)
	c.ShouldSave = c.ShouldSave || f.save.due(m.Epoch+1, Epoch)
}

// evaluated tells the machine whether the evaluation of doEvaluate was the best so far.
func (m *machine) evaluated(best bool) {
	if m.flow.save.kind == atBest {
		m.Control.ShouldSave = best
	} else if best && m.flow.saveNewBest {
		m.Control.ShouldSave = true
	}
}

// finalSave reports whether the last update has still to be saved.
func (m *machine) finalSave() bool {
	return !m.flow.rules.NoFinalSave && m.flow.save.kind == every && m.GlobalStep > 0 && m.LastSaved != m.GlobalStep
}
