package trainer

// Where the machine stands, and how a resumed run gets there.

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
