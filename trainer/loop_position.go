package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// Where the machine stands, and how a resumed run gets there.

// stage is where the machine stands: what next will look at. A checkpoint keeps it, hence the
// numbers are fixed.
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
	// log, evaluate and save in the order of the semantics; after an epoch its hooks too, hence
	// four
	atStepFirst   stage = 11
	atStepSecond  stage = 12
	atStepThird   stage = 13
	atStepDone    stage = 14
	atEpochEnd    stage = 15
	atEpochFirst  stage = 16
	atEpochSecond stage = 17
	atEpochThird  stage = 18
	atEpochDone   stage = 19
	atFinish      stage = 20
	atFinalLog    stage = 21
	atTrainEnd    stage = 22
	atDone        stage = 23
	atEpochFourth stage = 25
	atRest        stage = 24 // behind micro-batches of an epoch that no update follows
)

// finishing reports whether the last epoch of the run is over.
func (s stage) finishing() bool { return s >= atFinish && s <= atDone }

// position is the state of the loop that is needed to go on. A checkpoint keeps it.
type position struct {
	Stage      stage `json:"stage"`
	Epoch      int   `json:"epoch"`          // epochs that have ended
	Micro      int   `json:"micro_batches"`  // batches of this epoch that were trained on
	GlobalStep int   `json:"global_step"`    // steps: updates, or micro-batches where the semantics count them
	Updates    int   `json:"updates"`        // optimizer updates
	InEpoch    int   `json:"steps_in_epoch"` // steps of this epoch
	// micro-batches of the window at hand, where windows run over the ends of epochs
	Phase      int     `json:"window_phase"`
	Progress   float64 `json:"epoch_fractional"` // the epoch as it is logged: 1.5 is half of the second
	LastLogged int     `json:"last_logged"`      // GlobalStep of the last log
	LastSaved  int     `json:"last_saved"`       // GlobalStep of the last checkpoint; -1: none
	Control    Control `json:"control"`
	// The generator of the step has already been drawn from for this epoch's loader, or for the
	// evaluation that is next.
	LoaderStarted     bool `json:"loader_started"`
	EvalLoaderStarted bool `json:"eval_loader_started"`
	// of several validation sets, the one that is evaluated on next
	EvalSet int `json:"eval_set,omitempty"`
	// of a stream, the batches of the last pass that ended; 0: none has
	PassBatches int `json:"pass_batches,omitempty"`
}

// resume puts the machine where a checkpoint was made.
func (m *machine) resume(p position) {
	m.position = p
	m.resumed = true
	m.Updates = max(p.Updates, 0)
	if m.flow.rules.Steps == semantics.Updates {
		m.Updates = p.GlobalStep
	}
	switch {
	case m.flow.rules.PositionFromGlobalStep:
		m.Epoch = p.GlobalStep / m.plan.stepsPerEpoch
		m.InEpoch = p.GlobalStep % m.plan.stepsPerEpoch
		m.Micro = m.InEpoch * m.plan.batchesPerStep(m.flow.rules)
		m.Phase = 0
		m.LoaderStarted, m.EvalLoaderStarted, m.EvalSet = m.Micro > 0, false, 0
		m.LastLogged = p.GlobalStep
		m.Control = Control{}
		// transformers puts its control back too, as it was in the middle of the save
		if !m.flow.rules.ForgetHooksAtResume {
			m.Control = p.Control
			m.Control.ShouldSave, m.Control.ShouldTrainingStop = true, false
		}
		m.enter = atEpochBegin
		if m.flow.ignoreDataSkip {
			m.Micro, m.LoaderStarted = 0, false
		}
		if m.Micro > 0 {
			m.enter = atFetch
		}
	default:
		m.resumeExactly()
	}
	if m.flow.rules.EpochsPerSession {
		m.plan.epochs += m.Epoch
	}
	m.Stage = atBegin
}

// resumeExactly goes on where the checkpoint was made, or as near to it as the semantics want.
func (m *machine) resumeExactly() {
	p := m.position
	if m.flow.ignoreDataSkip && p.Stage <= atStepDone && m.plan.window(m.Micro, m.Phase) > 0 {
		m.beginEpoch(m.Epoch)
	}
	m.Control.ShouldTrainingStop = m.reached()
	m.enter = p.Stage
	if p.Stage.finishing() && !m.reached() { // a finished run is made longer
		m.Control = Control{}
		m.enter = atFetch
		if m.plan.window(m.Micro, m.Phase) == 0 { // its last epoch has ended already
			m.beginEpoch(m.Epoch + 1)
			m.enter = atEpochBegin
		}
	}
	switch rules := m.flow.rules; {
	case rules.RepeatEpochAtResume && !p.Stage.finishing():
		m.beginEpoch(m.Epoch)
		m.Control = Control{}
		m.enter = atEpochBegin
	case rules.RestartPassAtResume:
		m.LoaderStarted, m.EvalLoaderStarted, m.EvalSet = false, false, 0
	}
}

// beginEpoch puts the machine before the first batch of an epoch. A window that began in the epoch
// before goes on.
func (m *machine) beginEpoch(epoch int) {
	m.Epoch, m.Micro, m.InEpoch, m.LoaderStarted = epoch, 0, 0, false
}

// reached reports whether the run has come to its end.
func (m *machine) reached() bool { return m.steps() >= m.plan.limit }

// steps is what is held against the end of the run.
func (m *machine) steps() int {
	if m.flow.rules.LimitByEpoch {
		return m.Epoch*m.plan.stepsPerEpoch + m.Micro/m.plan.batchesPerStep(m.flow.rules)
	}
	return m.GlobalStep
}
