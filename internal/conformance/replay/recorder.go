package replay

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// errKilled simulates the process being killed between two updates.
var errKilled = errors.New("the case ends the process here")

// recorder records what a run does, in the format of the trace: a list for each field that is one.
type recorder struct {
	lists   map[string][]any
	earlier [len(counted)]int // lengths of the counted lists at the end of the last phase
	initial any
	window  []any  // losses since the last update
	order   []int  // rows seen by the current evaluation
	written []any  // checkpoints
	where   string // what is being done, for the field error
}

// add appends to a list of the trace. An entry that is an object may be modified later.
func (r *recorder) add(list string, v any) {
	if r.lists == nil {
		r.lists = map[string][]any{}
	}
	r.lists[list] = append(r.lists[list], v)
}

// grow appends to a list in an entry.
func grow(entry trace.Object, list string, v any) {
	before, _ := entry[list].([]any)
	entry[list] = append(before, v)
}

func (r *recorder) count(list string) int { return len(r.lists[list]) }

// counted are the lists whose growth is recorded for each phase.
var counted = [...]string{"batches", "updates", "events", "evaluations", "log_history", "tensorboard", "stats"}

// phase records the end of a phase.
func (r *recorder) phase(info trace.Object) {
	for i, name := range counted {
		info[name] = r.count(name) - r.earlier[i]
		r.earlier[i] = r.count(name)
	}
	r.add("phases", info)
}

// start records the initial weights, on its first call.
func (r *recorder) start(m *model) {
	if r.initial == nil {
		r.initial = weightsOf(m.module)
	}
}

// micro records a micro-batch and the loss that backward was called on.
func (r *recorder) micro(index []int, loss float64) {
	r.add("batches", index)
	r.add("micro_losses", trace.Hex(loss))
	r.window = append(r.window, trace.Hex(loss))
}

// paramGroups records the optimizer's groups, on its first call.
func (r *recorder) paramGroups(o optim.Optimizer) {
	if r.count("param_groups") > 0 {
		return
	}
	for _, g := range o.Groups() {
		names := []string{}
		for _, p := range g.Params {
			names = append(names, p.Name)
		}
		decay := any(nil)
		if g.WeightDecay != nil {
			decay = *g.WeightDecay
		}
		r.add("param_groups", trace.Of("weight_decay", decay, "params", names))
	}
}

// update records an update after the weights have changed. norm is nil if none was computed.
func (r *recorder) update(number int, epoch, norm any, rates []float64, m *model, skipped bool, more trace.Object) {
	o := weightsOf(m.module).With("update", number, "epoch", epoch, "loss_window", r.window, "grad_norm", norm,
		"lr", hexes(rates...), "skipped", skipped)
	maps.Copy(o, more)
	r.add("updates", o)
	r.window = nil
}

// evaluation records an evaluation with the number of rows seen, and their order if it is not
// sequential.
func (r *recorder) evaluation(fields trace.Object) {
	fields["seen"] = len(r.order)
	if !slices.Equal(r.order, data.Sequential{}.Indices(0, len(r.order))) {
		fields["order"] = r.order
	}
	r.order = nil
	r.add("evaluations", fields)
}

// trace assembles the trace; fields replace recorded ones of the same name.
func (r *recorder) trace(err error, fields ...any) trace.Object {
	all := trace.Object{"env": environment(), "initial": r.initial, "best": nil, "train_output": nil, "error": nil,
		"checkpoints": trace.Of("written", r.written, "after", []string{})}
	for name, list := range r.lists {
		all[name] = list
	}
	if err != nil {
		all["error"] = trace.Of("where", r.where, "type", fmt.Sprintf("%T", err), "text", err.Error())
	}
	return all.With(fields...)
}

func environment() trace.Object {
	o := trace.Of("peer", "gotrainer")
	if build, err := torch.BuildInfo(); err == nil {
		o.With("torch", strings.Split(build.Version, "+")[0], "cpu_capability", build.CPUCapability, "threads",
			torch.Threads())
	}
	return o
}

// orNil returns v if ok is true, and nil otherwise.
func orNil(v any, ok bool) any {
	if ok {
		return v
	}
	return nil
}

func hexes(values ...float64) []trace.Hex {
	out := make([]trace.Hex, len(values))
	for i, v := range values {
		out[i] = trace.Hex(v)
	}
	return out
}

// weightsOf returns what is recorded of a module's parameters: their total 2-norm in float64, and
// their hash.
func weightsOf(module any) trace.Object {
	params, sum := nn.Params(module), 0.0
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, p := range recorded.ByName(params) {
				sum += p.Tensor.Detach().ToDType(torch.Float64).PowScalar(2).Sum(torch.DefaultDType).Item()
			}
		})
	})
	return trace.Of("weights_norm", trace.Hex(math.Sqrt(sum)), "weights_sha256", recorded.Hash(params...))
}

// gradNorm returns the total 2-norm of the gradients, computed like torch.nn.utils.clip_grad_norm_;
// nil if there are no gradients.
func gradNorm(module any) (norm any) {
	torch.NoGrad(func() {
		torch.Scope(func() {
			var norms []torch.Tensor
			for _, p := range nn.Params(module) {
				if g := p.Tensor.Grad(); g.Defined() {
					norms = append(norms, g.Norm(2))
				}
			}
			if len(norms) > 0 {
				norm = trace.Hex(torch.Stack(norms, 0).Norm(2).Item())
			}
		})
	})
	return norm
}

// tensorStats returns what is recorded of tensors: shape, hash, sum of absolute values, 2-norm and
// the first elements.
func tensorStats(list ...torch.Named) trace.Object {
	const keep = 6
	o := trace.Object{}
	for _, t := range recorded.ByName(list) {
		torch.Scope(func() {
			wide := t.Tensor.ToDType(torch.Float64)
			first := torch.Values[float64](wide.View(-1))
			o[t.Name] = trace.Of("shape", t.Tensor.Shape(), "dtype", strings.ToLower(t.Tensor.DType().String()),
				"weights_sha256", recorded.Hash(t), "abs_sum", trace.Hex(wide.Abs().Sum(torch.DefaultDType).Item()),
				"l2", trace.Hex(wide.Norm(2).Item()), "first", hexes(first[:min(keep, len(first))]...))
		})
	}
	return o
}

// finalTensors returns the weights and buffers of a model and the states of its optimizer.
func finalTensors(m *model, o optim.Optimizer) (all []torch.Named) {
	if m != nil {
		all = nn.StateDict(m.module)
	}
	if o != nil {
		for _, t := range o.State() {
			all = append(all, torch.Named{Name: "optim." + t.Name, Tensor: t.Tensor})
		}
	}
	return all
}
