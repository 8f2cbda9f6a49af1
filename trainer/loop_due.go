package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// What is due after an update and at the end of an epoch.

// progress is the epoch as it is logged.
func (m *machine) progress() float64 {
	batches := m.plan.batches
	if m.PassBatches > 0 && m.plan.stream && !m.flow.rules.StreamEpochByPlan {
		batches = max(m.PassBatches, m.Micro) // a pass may be longer than the one before
	}
	return float64(m.Epoch) + float64(m.Micro)/float64(batches)
}

func (m *machine) stopping() bool { return m.Control.ShouldEpochStop || m.Control.ShouldTrainingStop }

// afterStep raises the flags that are due after a step: on_step_end of
// transformers.DefaultFlowCallback.
func (m *machine) afterStep() {
	c, f := &m.Control, &m.flow
	c.ShouldLog = c.ShouldLog || f.log.due(m.GlobalStep, Update) || f.logFirstStep && m.GlobalStep == 1
	late := f.evalDelay <= float64(m.GlobalStep)
	c.ShouldEvaluate = c.ShouldEvaluate || late && f.eval.due(m.GlobalStep, Update)
	c.ShouldSave = c.ShouldSave || f.save.due(m.GlobalStep, Update)
	if m.reached() {
		c.ShouldTrainingStop = true
		c.ShouldEvaluate = c.ShouldEvaluate || late && f.eval.byUpdates() && !f.rules.NoFinalStep
		c.ShouldSave = c.ShouldSave || f.save.byUpdates() && !f.rules.NoFinalStep
	}
}

// afterEpoch raises the flags that are due at the end of an epoch. What its last step has logged or
// saved already is not due again, unless the semantics say so.
func (m *machine) afterEpoch() {
	c, f := &m.Control, &m.flow
	c.ShouldLog = c.ShouldLog || f.log.due(m.Epoch+1, Epoch)
	c.ShouldEvaluate = c.ShouldEvaluate || f.evalDelay <= m.Progress && f.eval.due(m.Epoch+1, Epoch)
	saved := f.save.both() && m.LastSaved == m.GlobalStep && !f.rules.RepeatAtEpochEnd
	c.ShouldSave = c.ShouldSave || f.save.due(m.Epoch+1, Epoch) && !saved
}

// orders are what is done after an epoch, by semantics.Order; after a step it is the same without
// the hooks.
var orders = [...][4]action{
	semantics.LogEvaluateSave: {doLog, doEvaluate, doEpochDone, doSave},
	semantics.SaveEvaluateLog: {doSave, doEvaluate, doLog, doEpochDone},
}

var stepOrders = [...][3]action{
	semantics.LogEvaluateSave: {doLog, doEvaluate, doSave},
	semantics.SaveEvaluateLog: {doSave, doEvaluate, doLog},
}

// due returns what the stage is for, or 0 if it is not due.
func (m *machine) due() action {
	var a action
	switch order := m.flow.rules.Order; {
	case m.Stage <= atStepThird:
		a = stepOrders[order][m.Stage-atStepFirst]
	case m.Stage == atEpochFourth:
		a = orders[order][3]
	default:
		a = orders[order][m.Stage-atEpochFirst]
	}
	ok := true
	switch a {
	case doLog:
		again := m.flow.rules.RepeatAtEpochEnd && m.Stage >= atEpochFirst &&
			m.flow.rules.LossReport != semantics.SinceLog
		ok = m.Control.ShouldLog && (m.GlobalStep > m.LastLogged || again)
	case doEvaluate:
		ok = m.Control.ShouldEvaluate
	case doSave:
		ok = m.Control.ShouldSave && (m.Stage >= atEpochFirst || m.index >= m.window || m.flow.rules.SaveInsideWindow)
	}
	if !ok {
		return 0
	}
	return a
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
