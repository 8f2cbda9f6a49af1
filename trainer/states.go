package trainer

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// What a checkpoint says about a run, collected from the run's parts.

// savedState returns the current trainer_state.json.
func (r *runner) savedState(best string) (savedState, error) {
	states, err := hookStates(r.hooks)
	if err != nil {
		return savedState{}, err
	}
	if states["TrainerControl"], err = r.loop.Control.exported(); err != nil {
		return savedState{}, err
	}
	s := savedState{
		Epoch: jsonFloat(r.loop.Progress), GlobalStep: r.loop.GlobalStep, MaxSteps: r.loop.plan.maxSteps,
		NumTrainEpochs: r.loop.plan.epochs,
		LogHistory:     append([]Logs{}, r.history...), StatefulCallbacks: states,
		TrainBatchSize:     cmp.Or(max(0, r.stateBatchSize), r.o.BatchSize),
		NumInputTokensSeen: r.tokens, TotalFlos: jsonFloat(r.flops),
		IsLocalProcessZero: r.o.Process.LocalRank == 0, IsWorldProcessZero: r.o.Process.Main(),
		EvalSteps: updatesOf(r.loop.flow.eval), LoggingSteps: updatesOf(r.loop.flow.log),
		SaveSteps: updatesOf(r.loop.flow.save),
	}
	if r.best.Metric != "" {
		s.BestMetric, s.BestGlobalStep = new(jsonFloat(r.best.Value)), &r.best.GlobalStep
		if r.saver.forgetsBestStep() {
			s.BestGlobalStep = nil
		}
	}
	if best != "" {
		s.BestModelCheckpoint = &best
	}
	return s, nil
}

// states returns the current contents of the two state files.
func (r *runner) states(best string) (savedState, loopState, error) {
	s, err := r.savedState(best)
	if err != nil {
		return s, loopState{}, err
	}
	l := loopState{Format: loopFormat, Position: r.loop.saved(), Sizes: r.sizes(), Configuration: r.configuration(),
		PeakRate:   r.rates.peak,
		BestMetric: r.best.Metric, BestMetrics: Logs(r.best.Metrics), Evaluated: r.eval.evaluated,
		OnlyModel: r.o.SaveOnlyModel}
	r.record.save(&l)
	return s, l, r.rates.save(&l)
}

// stateNow is Run.State.
func (r *runner) stateNow(done bool) ([]byte, error) {
	p := r.loop.resumePosition(done)
	if !p.possible() {
		return nil, fmt.Errorf("trainer: Run.State: no run can start at this point (%s); call it in AroundEpoch, "+
			"StepEnd, EpochEnd, EpochDone or TrainEnd", p.At)
	}
	if !r.o.Semantics.ForgetLossAtResume {
		if err := r.report(); err != nil {
			return nil, err
		}
	}
	s, l, err := r.states(r.saver.bestCheckpoint())
	if err != nil {
		return nil, err
	}
	l.Position = p
	return json.Marshal(bothStates{s, l})
}

// updatesOf returns an interval in updates. For any other, transformers writes its default.
func updatesOf(t Trigger) int {
	if t.kind == every && t.unit == Update {
		return t.n
	}
	return 500
}

func (r *runner) sizes() sizes {
	return sizes{TrainSamples: r.run.Info.TrainSamples, BatchSize: r.o.BatchSize, Accumulate: r.o.Accumulate,
		GlobalBatch: r.o.GlobalBatch, DropLast: r.o.DropLast, DataSeed: r.o.DataSeed}
}
