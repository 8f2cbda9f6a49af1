package trainer

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
