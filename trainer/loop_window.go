package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// How micro-batches make windows, and windows steps.

// length is how many micro-batches are fetched together now; 0: the epoch is over.
func (m *machine) length() int {
	n := m.plan.window(m.Micro, m.Phase)
	left := m.plan.maxInEpoch - m.InEpoch
	switch {
	case m.plan.maxInEpoch > 0 && left <= 0:
		return 0
	case m.flow.rules.Steps != semantics.MicroBatches || m.flow.rules.StopInsideWindow:
	default: // the last window of the run, or of a limited epoch, ends where they do
		n = min(n, max(1, m.plan.limit-m.steps()))
		if m.plan.maxInEpoch > 0 {
			n = min(n, left)
		}
	}
	return n
}

// beginsStep reports whether the micro-batch at hand is the first of a step. Where windows run over
// the ends of epochs it is every so many-th of the epoch, wherever its window began, as in
// transformers 4.40.
func (m *machine) beginsStep() bool {
	switch {
	case m.flow.rules.Steps == semantics.MicroBatches:
		return true
	case m.flow.rules.CarryWindows:
		return m.Micro%m.plan.accumulate == 0
	}
	return m.index == 0
}

// afterTrain counts a micro-batch and says where that leads.
func (m *machine) afterTrain() stage {
	m.Micro++
	m.index++
	if m.flow.rules.CarryWindows {
		m.Phase = (m.Phase + 1) % m.plan.accumulate
	}
	switch {
	case m.windowEnds():
		return atUpdate
	case m.flow.rules.Steps == semantics.MicroBatches:
		return atStepEnd
	case m.index < m.window:
		return atSubstepDone
	}
	return atRest
}

// windowEnds reports whether the micro-batch that was just trained on was the last of its window.
func (m *machine) windowEnds() bool {
	switch rules := m.flow.rules; {
	case rules.CarryWindows:
		short := rules.FlushShortEpochs && !m.plan.stream && m.plan.batches <= m.plan.accumulate
		return m.Phase == 0 || short && m.Micro == m.plan.batches
	case m.index < m.window:
		return false
	case m.plan.stream && m.window < m.plan.accumulate:
		return !rules.StreamRestLeaks
	}
	return true
}

// lossCloses reports whether a window of the reported loss closes with the micro-batch at hand.
// Such windows are counted from the beginning of the epoch, wherever those of the updates begin.
func (m *machine) lossCloses() bool {
	done := m.Micro + 1
	if m.flow.rules.CarryWindows {
		return (m.Phase+1)%m.plan.accumulate == 0
	}
	return done%m.plan.accumulate == 0 || done == m.plan.batches || m.flow.rules.Steps == semantics.MicroBatches &&
		done == m.plan.maxSteps
}

// countIdle counts the passes over a stream that ended without a step: with StreamRestLeaks a pass
// of fewer batches than a window has none, nor has any after it.
func (m *machine) countIdle() {
	if m.InEpoch > 0 || !m.plan.stream || m.flow.rules.CarryWindows {
		m.idle = 0
		return
	}
	m.idle++
}

// countStep counts the step at hand.
func (m *machine) countStep() {
	m.GlobalStep++
	m.InEpoch++
	if m.updated {
		m.Updates++
		m.updated = false
	}
	m.Progress = m.progress()
}
