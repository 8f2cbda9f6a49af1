package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// About describes the model, its size, precision and device, and says what the task and the
// optimizer support.
func (s *core) About() trainer.About {
	return trainer.About{
		Text:           s.text(),
		LearningRate:   s.options.Optimizer.LearningRate(),
		Fused:          s.fused(),
		Reproducible:   s.reproducible(),
		Settings:       s.outcomeSettings(),
		MakesModel:     s.init != nil,
		Saves:          true,
		Clips:          true,
		SetsMomentum:   is[optim.MomentumSetter](s.optimizer),
		CountsTokens:   s.task.isTokenCounter,
		FiltersLoss:    true,
		KeepsMode:      true,
		KnowsMemory:    true,
		SkipsNonFinite: s.clipped(),
		JoinsGroup:     true,
		Sharded:        s.options.Sharding != 0,
		SavesLater:     true,
		Recycles:       s.task.isRecycler,
		DrawsOrder:     s.order.drawn,
	}
}

// outcomeSettings returns what decides the outcome of a run besides the trainer's options.
func (s *core) outcomeSettings() map[string]string {
	m := map[string]string{
		"Precision": s.options.Precision.String(), "MaxGradNorm": fmt.Sprint(s.options.MaxGradNorm),
		"MaxGradValue": fmt.Sprint(s.options.MaxGradValue), "Device": s.options.Device.String(),
		"EMA": fmt.Sprintf("%+v", s.options.EMA), "LabelSmoothing": fmt.Sprint(s.options.LabelSmoothing),
		"NEFTuneAlpha": fmt.Sprint(s.options.NEFTuneAlpha), "Groups": groupsText(s.optimizer.Groups()),
		"LowRankTargets": fmt.Sprintf("%+v", s.options.LowRankTargets),
	}
	if settings, err := json.Marshal(s.options.Optimizer); err == nil {
		m["Optimizer"] = fmt.Sprintf("%T%s", s.options.Optimizer, settings)
	}
	if build, err := torch.BuildInfo(); err == nil {
		m["Threads"], m["CPU kernels"] = fmt.Sprint(build.Threads), build.CPUCapability
		m["MKL's kernels for Intel"] = fmt.Sprint(build.MKL.Intel)
	}
	return m
}

// groupsText describes the settings of groups of parameters.
func groupsText(groups []optim.Group) string {
	texts := make([]string, len(groups))
	for i, g := range groups {
		decay := "of the optimizer"
		if g.WeightDecay != nil {
			decay = fmt.Sprint(*g.WeightDecay)
		}
		texts[i] = fmt.Sprintf("weight decay %s, rate times %g", decay, cmp.Or(g.LRScale, 1))
		if settings, err := json.Marshal(g.Optimizer); err == nil && g.Optimizer != nil {
			texts[i] += fmt.Sprintf(", %T%s", g.Optimizer, settings)
		}
	}
	return strings.Join(texts, "; ")
}

// reproducible returns the number of threads with which the process computes the same bits on every
// CPU; 0: it does not. Nothing is promised for GPUs.
func (s *core) reproducible() int {
	build, err := torch.BuildInfo()
	if err != nil || s.options.Device != torch.CPU {
		return 0
	}
	return build.Reproducible
}

// fused reports whether the optimizer's kernel itself leaves out an update that loss scaling skips.
func (s *core) fused() bool {
	o, ok := s.optimizer.(amp.UnlessStepper)
	return ok && o.StepSupportsAMPScaling()
}

func (s *core) text() string {
	trained := ""
	if s.trained != s.elements {
		trained = ", " + short(s.trained) + " trained"
	}
	text := fmt.Sprintf("%T, %s parameters%s, %s on %s", s.task.Model(), short(s.elements), trained, s.options.Precision,
		s.options.Device)
	if s.options.Sharding != 0 {
		text += ", " + s.options.Sharding.String()
	}
	if s.options.Device != torch.CPU {
		return text
	}
	if w := torch.Waiting(); w.Passive {
		text += "; threads wait passively, " + w.Reason
		if w.Wanted > 0 {
			text += fmt.Sprintf(", and are %d of %d", torch.Threads(), w.Wanted)
		}
	}
	if build, err := torch.BuildInfo(); err == nil && build.MKL.Intel && build.Reproducible == 0 {
		text += "; MKL takes its kernels for Intel's CPUs"
	}
	return text
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
