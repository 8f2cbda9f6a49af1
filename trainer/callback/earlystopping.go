package callback

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/trainer"
)

// EarlyStopping stops a run when its evaluations no longer improve: EarlyStoppingCallback of
// Hugging Face. It judges by the metric that decides which evaluation is the best
// (Options.MetricForBest). Set Options.LoadBestAtEnd to end with the best weights.
//
// The count of evaluations without improvement survives a resume. If a run that it stopped is
// resumed, the run stops immediately, unless Patience has been raised or the semantics say
// otherwise (EarlyStoppingWaits).
type EarlyStopping struct {
	Patience  int     // consecutive evaluations without improvement after which the run stops; zero: 1
	Threshold float64 // an improvement must be greater than this; zero: any improvement counts

	count int  // evaluations since the last improvement
	seen  bool // there has been an evaluation
}

var _ trainer.StateSaver = (*EarlyStopping)(nil)

// TrainBegin checks that there will be evaluations, and a metric to compare.
func (e *EarlyStopping) TrainBegin(r *trainer.Run) error {
	switch {
	case e.Patience < 0:
		return fmt.Errorf("its Patience is %d: want a positive number, or 0 for 1", e.Patience)
	case !(e.Threshold >= 0):
		return fmt.Errorf("its Threshold is %v: want 0 or a positive number", e.Threshold)
	case r.BestMetric() == "":
		return fmt.Errorf("no metric decides which evaluation is the best: set trainer.Options.MetricForBest")
	case r.Info.Eval == trainer.Never:
		return fmt.Errorf("the run is never evaluated: set trainer.Options.Eval and give Fit a validation set")
	}
	if r.StartStep == 0 {
		e.count, e.seen = 0, false
	}
	if !r.Info.Semantics.EarlyStoppingWaits {
		e.stopIfDue(r)
	}
	return nil
}

// AfterEval compares an evaluation with the best one before it.
func (e *EarlyStopping) AfterEval(r *trainer.Run, m trainer.Metrics) error {
	if !r.Decides() {
		return nil
	}
	v, ok := r.BestValue(m)
	if !ok { // the loop refuses this when it looks for the best evaluation; that of Options.EvalOnStart is not compared
		return nil
	}
	if e.improved(r, v) {
		e.count = 0
	} else {
		e.count++
	}
	e.seen = true
	e.stopIfDue(r)
	return nil
}

// improved reports whether v is better than the best value so far. The first evaluation is always
// an improvement.
func (e *EarlyStopping) improved(r *trainer.Run, v float64) bool {
	best, ok := r.Best()
	if !ok {
		return !e.seen || !math.IsNaN(v) || r.Info.Semantics.EarlyStoppingWaits
	}
	return r.Better(v, best.Value) && math.Abs(v-best.Value) > e.Threshold
}

func (e *EarlyStopping) stopIfDue(r *trainer.Run) {
	if e.count >= max(1, e.Patience) {
		r.Stop(fmt.Sprintf("%s has not improved for %d evaluations", r.BestMetric(), e.count))
	}
}

// earlyStoppingState is the state that transformers writes for its EarlyStoppingCallback.
type earlyStoppingState struct {
	Args struct {
		Patience  int     `json:"early_stopping_patience"`
		Threshold float64 `json:"early_stopping_threshold"`
	} `json:"args"`
	Attributes struct {
		Count int `json:"early_stopping_patience_counter"`
	} `json:"attributes"`
}

// MarshalState implements trainer.StateSaver.
func (e *EarlyStopping) MarshalState() ([]byte, error) {
	var s earlyStoppingState
	s.Args.Patience, s.Args.Threshold, s.Attributes.Count = max(1, e.Patience), e.Threshold, e.count
	return json.Marshal(s)
}

// StateName is the name of the state in a checkpoint. It is the one that transformers uses, so its
// EarlyStoppingCallback resumes with the same count.
func (e *EarlyStopping) StateName() string { return "EarlyStoppingCallback" }

// UnmarshalState implements trainer.StateSaver. It does not change the settings: those of the
// program apply.
func (e *EarlyStopping) UnmarshalState(text []byte) error {
	var s earlyStoppingState
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	if s.Attributes.Count < 0 {
		return fmt.Errorf("early_stopping_patience_counter is %d", s.Attributes.Count)
	}
	e.count, e.seen = s.Attributes.Count, true
	return nil
}
