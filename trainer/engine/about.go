package engine

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/trainer"
)

// About names the model, its size, precision and device, and says what the task and the optimizer
// can do.
func (s *Step[S, B]) About() trainer.About {
	_, countsTokens := s.task.(TokenCounter[B])
	_, setsMomentum := s.optimizer.(optim.MomentumSetter)
	return trainer.About{
		Text:         s.text(),
		LearningRate: s.options.Optimizer.LearningRate(),
		Fused:        s.fused(),
		MakesModel:   s.init != nil,
		Saves:        true,
		Clips:        true,
		SetsMomentum: setsMomentum,
		CountsTokens: countsTokens,
		FiltersLoss:  true,
		KeepsMode:    true,
		KnowsMemory:  true,
		JoinsGroup:   true,
	}
}

// fused tells whether the optimizer's kernel itself leaves out an update that loss scaling skips.
func (s *Step[S, B]) fused() bool {
	o, ok := s.optimizer.(interface{ StepSupportsAMPScaling() bool })
	return ok && o.StepSupportsAMPScaling()
}

func (s *Step[S, B]) text() string {
	total := int64(0)
	for _, p := range nn.Params(s.task.Model()) {
		total += p.Tensor.Numel()
	}
	return fmt.Sprintf("%T, %s parameters, %s on %s", s.task.Model(), short(total), s.options.Precision,
		s.options.Device)
}

func short(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
