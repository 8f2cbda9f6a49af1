package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
	"github.com/gotrainer/gotrainer/trainer"
)

// Graphs makes training on a GPU run as recorded CUDA graphs. A graph costs the host a single
// launch rather than one for each operator; see [cuda.Graph]. The forward and the backward pass are
// recorded once for each kind of micro-batch, together with the clipping of their gradients. The
// rest of an update takes only a few calls and is not recorded: the sum of losses, which depends on
// the last log; loss scaling; the step of the optimizer, since kernels in a graph can read the
// learning rate only in float32; and the average of the weights. The bits are therefore those of
// training without graphs.
//
// The task must be an [InputLister]. Everything else that it does is recorded too. Numbers that its
// Loss, or Options.Loss, takes from the host (such as a step counter or an annealed weight) keep
// the values they had when the graph was captured. Put those into a buffer of the model.
//
// A kind is determined by the shapes of the inputs, the divisor of the loss, the mode of the model,
// and whether gradients are added to existing ones. What cannot be recorded is trained as usual,
// and the run reports once why. Graphs are discarded when the weights or buffers are moved or
// frozen, when a state is loaded, and at the end of a run.
type Graphs struct {
	Kinds  int // the greatest number of kinds to record; zero: no graphs
	WarmUp int // how often a kind is trained as usual before it is recorded; zero: 3
}

func (g Graphs) validate(r *refusals, d torch.Device) {
	r.when(g.Kinds < 0 || g.WarmUp < 0, "Graphs is %+v; want numbers that are not negative", g)
	r.when(g.Kinds == 0 && g.WarmUp > 0, "Graphs.WarmUp is set, but Kinds is 0, so that nothing is recorded; want the "+
		"most kinds of batches to record, such as 8")
	r.when(g.Kinds > 0 && !hasGraphs(d), "Graphs is set, but Options.Device is %s; CUDA graphs need a GPU", d)
}

// graphs are the recorded graphs, and the state that decides what is recorded.
type graphs struct {
	Graphs
	warn     func(format string, args ...any) // once for each format
	kinds    map[string]*kind
	captured int
	pool     cuda.Pool
	model    *torch.List // weights and buffers
	places   []int64     // addresses of these tensors when the graphs were recorded
	into     *kind       // kind whose gradient tensors the parameters have; nil: none
	dirty    bool        // the parameters have gradients that no graph has made
	noClip   bool        // clipping cannot be captured
	replayed int         // micro-batches replayed so far
}

type kind struct {
	seen      int
	eager     bool // it cannot be recorded
	graph     *cuda.Graph
	buffers   []torch.Tensor // the inputs
	loss      torch.Tensor
	logged    torch.Tensor   // values of a TrainingLogger
	gradients []torch.Tensor // gradients that it makes; nil: it adds to those of another kind
	clip      *cuda.Graph    // clips these gradients
}

type graphMode int

const (
	eagerly graphMode = iota
	capturing
	replaying
)

// next decides what to do with a micro-batch of a kind: the first few are trained as usual, then
// one is captured, and later ones are replayed.
func (g *graphs) next(name string) (*kind, graphMode) {
	k := g.kinds[name]
	if k == nil {
		if len(g.kinds) >= 64*g.Kinds { // too many kinds, most of which never recur: remember no more
			return &kind{}, eagerly
		}
		k = &kind{}
		g.kinds[name] = k
	}
	k.seen++
	switch {
	case k.graph != nil:
		return k, replaying
	case k.seen <= cmp.Or(g.WarmUp, 3), k.eager:
		return k, eagerly
	case g.captured == g.Kinds:
		g.once("batches of more than %d kinds (Options.Graphs.Kinds), the first of them %s", g.Kinds, name)
		return k, eagerly
	}
	return k, capturing
}

// once reports what is not recorded, once for each reason.
func (g *graphs) once(reason string, args ...any) {
	g.warn("not recorded as a CUDA graph: "+reason, args...)
}

// gradients records that the gradients were removed or, with others, replaced by gradients that no
// graph has made.
func (g *graphs) gradients(others bool) {
	if g != nil {
		g.into, g.dirty = nil, others
	}
}

// forget frees all graphs, so that recording starts over with warming up.
func (g *graphs) forget() {
	if g == nil {
		return
	}
	for name, k := range g.kinds {
		if !k.eager {
			k.free()
			delete(g.kinds, name)
		}
	}
	g.captured, g.pool, g.model, g.places = 0, cuda.Pool{}, nil, nil
	g.dirty, g.into = g.dirty || g.into != nil, nil
}

func (k *kind) free() {
	for _, graph := range []*cuda.Graph{k.graph, k.clip} {
		if graph != nil {
			graph.Free()
		}
	}
	for _, t := range append(append(k.buffers, k.gradients...), k.loss, k.logged) {
		t.Free()
	}
	*k = kind{}
}

// moved discards the graphs if the tensors of the model are no longer where the graphs look for
// them.
func (g *graphs) moved(model any) {
	if g.model == nil {
		var all []torch.Tensor
		for _, t := range append(nn.Params(model), nn.Buffers(model)...) {
			all = append(all, t.Tensor)
		}
		g.model = torch.NewList(all...)
		g.places = g.model.Places()
	}
	if !slices.Equal(g.places, g.model.Places()) {
		g.forget()
		g.moved(model)
	}
}

// buildGraphs sets up recording, unless something rules it out for the whole run.
func (s *core) buildGraphs() {
	s.graphs.forget()
	s.graphs = nil
	if s.options.Graphs.Kinds == 0 {
		return
	}
	g := &graphs{Graphs: s.options.Graphs, warn: s.once, kinds: map[string]*kind{}}
	switch {
	case !s.task.isInputLister:
		g.once("anything, since %T does not list its inputs (engine.InputLister)", s.task.given)
	case s.task.isTrainingStepper:
		g.once("anything, since %T has a training step of its own (engine.TrainingStepper)", s.task.given)
	case !s.clipped():
		g.once("anything, since %T updates weights during the backward pass", s.options.Optimizer)
	case s.options.GradientCheckpointing:
		g.once("anything, since Options.GradientCheckpointing runs layers again from Go")
	default:
		s.graphs = g
	}
}

// passes runs forward and backward on a micro-batch, recorded or not, and returns the loss to
// report.
func (s *core) passes(ctx context.Context, b any, w trainer.Window) torch.Tensor {
	p, g := s.trainingPass(ctx, w), s.graphs
	if g == nil {
		return s.trainingStep(ctx, p, b, w)
	}
	p.staged = &staged{}
	s.task.Inputs(p, b) // buildGraphs has looked whether it is an InputLister
	g.moved(s.task.Model())
	k, do := &kind{}, eagerly
	switch {
	case s.parallel != nil || s.sharded != nil:
		g.once("anything, since several processes average their gradients during the backward pass")
	case p.staged.eager != "":
		g.once(strings.ReplaceAll(p.staged.eager, "%", "%%"))
	case g.dirty || (g.into != nil) != (w.Index > 0):
		g.once("micro-batches whose window has begun without a graph")
	default:
		k, do = g.next(g.name(p, w, s.training))
	}
	if do == capturing && !s.capture(ctx, k, p, b, w) {
		do = eagerly
	}
	if do == eagerly {
		p.staged.hand(nil)
		g.dirty = g.dirty || g.into == nil // gradients added to those of a graph stay in its tensors
		return s.trainingStep(ctx, p, b, w)
	}
	s.beginBackward(w)
	p.staged.fill(k.buffers)
	k.graph.Replay()
	s.logged.fresh = k.logged
	g.replayed++
	if k.gradients != nil {
		s.params.SetGrads(k.gradients)
		g.into = k
	}
	return k.loss
}

func (g *graphs) name(p ForwardPass, w trainer.Window, training bool) string {
	into := ""
	if g.into != nil {
		into = fmt.Sprintf(", added to %p", g.into)
	}
	return fmt.Sprintf("%s(loss divided by %g, %d items, training %t%s)", p.staged.kind(), w.Divisor, w.Items, training,
		into)
}

// capture records a kind. If it fails, the gradients are as before.
func (s *core) capture(ctx context.Context, k *kind, p ForwardPass, b any, w trainer.Window) bool {
	k.buffers = p.staged.room(p)
	p.staged.hand(k.buffers)
	k.graph = s.record(func() {
		k.loss = s.trainingStep(ctx, p, b, w).Keep()
		if k.logged = s.logged.fresh; k.logged.Defined() {
			k.logged.Keep()
		}
	})
	if k.graph == nil {
		if s.graphs.into == nil {
			s.params.ZeroGrad(false)
		}
		k.free()
		k.eager = true
		s.graphs.forget()
		return false
	}
	s.graphs.captured++
	if s.graphs.into == nil {
		k.gradients = s.params.Grads()
		for _, t := range k.gradients {
			if t.Defined() {
				t.Keep()
			}
		}
	}
	return true
}

// record captures f. It returns nil, after a warning with the reason, if that fails. Capturing
// changes what other graphs draw from the same generators, so those must then be discarded.
func (s *core) record(f func()) *cuda.Graph {
	g := s.graphs
	graph := cuda.NewGraph(s.options.Device)
	err := torch.Try(func() { graph.Capture(cuda.CaptureOptions{Pool: g.pool}, f) })
	switch {
	case err == nil:
		g.pool = graph.Pool()
		return graph
	case errors.Is(err, torch.ErrDevice):
		panic(err)
	}
	graph.Free()
	reason, _, _ := strings.Cut(err.Error(), "\n")
	g.once("what %T does: "+strings.ReplaceAll(reason, "%", "%%"), s.task.given)
	return nil
}

// limit clips the gradients, with a graph if they come from one.
func (s *core) limit(ctx context.Context) {
	g := s.graphs
	nothing := s.options.MaxGradNorm < 0 && s.options.MaxGradValue == 0
	if g == nil || g.into == nil || g.dirty || g.noClip || nothing {
		s.clip(ctx)
		return
	}
	k := g.into
	if k.clip == nil {
		if k.clip = s.record(func() { s.clip(ctx) }); k.clip == nil {
			g.noClip = true
			g.forget()
			s.clip(ctx)
			return
		}
	}
	k.clip.Replay()
}
