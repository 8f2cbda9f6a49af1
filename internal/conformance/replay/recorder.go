package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// errKilled stands for the process dying between two updates.
var errKilled = errors.New("the case ends the process here")

// recorder gathers what a run does, in the words of the trace.
type recorder struct {
	phases, batches, microLosses, groups, updates, events, evaluations []any

	initial any
	window  []any
	order   []int // rows seen by the evaluation at hand
	written []string
	where   string // what is being done, for error
}

// start records the initial weights, at its first call.
func (r *recorder) start(m model) {
	if r.initial == nil {
		r.initial = trace.Object{{Name: "weights_norm", Value: weightsNorm(m)}, {Name: "weights_sha256",
			Value: weightsSHA(nn.Params(m.module()))}}
	}
}

// micro records a micro-batch and the loss that was handed to backward.
func (r *recorder) micro(index []int, loss float64) {
	r.batches = append(r.batches, slices.Clone(index))
	r.microLosses = append(r.microLosses, trace.Hex(loss))
	r.window = append(r.window, trace.Hex(loss))
}

// paramGroups records the optimizer's groups, at its first call.
func (r *recorder) paramGroups(o optim.Optimizer) {
	if len(r.groups) > 0 {
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
		r.groups = append(r.groups, trace.Object{{Name: "weight_decay", Value: decay}, {Name: "params", Value: names}})
	}
}

// update records an update after the weights have moved. norm is nil where none was computed.
func (r *recorder) update(number int, epoch any, norm *float64, rates []float64, m model, skipped bool,
	more ...trace.Pair) {
	o := trace.Object{{Name: "update", Value: number}, {Name: "epoch", Value: epoch},
		{Name: "loss_window", Value: append([]any{}, r.window...)},
		{Name: "grad_norm", Value: hexOrNil(norm)}, {Name: "lr", Value: hexes(rates)},
		{Name: "skipped", Value: skipped}}
	o = append(o, more...)
	o = append(o, trace.Pair{Name: "weights_norm", Value: weightsNorm(m)}, trace.Pair{Name: "weights_sha256",
		Value: weightsSHA(nn.Params(m.module()))})
	r.updates = append(r.updates, o)
	r.window = nil
}

// evaluation records an evaluation and which rows it saw; their order only where it is not 0, 1, 2,
// ...
func (r *recorder) evaluation(fields trace.Object) {
	fields = append(fields, trace.Pair{Name: "seen", Value: len(r.order)})
	for i, at := range r.order {
		if i != at {
			fields = append(fields, trace.Pair{Name: "order", Value: slices.Clone(r.order)})
			break
		}
	}
	r.order = nil
	r.evaluations = append(r.evaluations, fields)
}

// mark is how much has been recorded.
type mark struct{ batches, updates, events, evaluations int }

func (r *recorder) mark() mark {
	return mark{len(r.batches), len(r.updates), len(r.events), len(r.evaluations)}
}

// phase records the end of a phase that began at a mark.
func (r *recorder) phase(do string, from mark) {
	now := r.mark()
	r.phases = append(r.phases, trace.Object{{Name: "do", Value: do},
		{Name: "batches", Value: now.batches - from.batches}, {Name: "updates", Value: now.updates - from.updates},
		{Name: "events", Value: now.events - from.events},
		{Name: "evaluations", Value: now.evaluations - from.evaluations}})
}

// trace puts the record together; fields replace those of the same name, and follow where there are
// none.
func (r *recorder) trace(err error, fields ...trace.Pair) trace.Object {
	refused := any(nil)
	if err != nil {
		refused = trace.Object{{Name: "where", Value: r.where}, {Name: "type", Value: fmt.Sprintf("%T", root(err))},
			{Name: "text", Value: err.Error()}}
	}
	o := trace.Object{{Name: "env", Value: environment()}, {Name: "phases", Value: r.phases},
		{Name: "initial", Value: r.initial}, {Name: "batches", Value: r.batches},
		{Name: "micro_losses", Value: r.microLosses}, {Name: "param_groups", Value: r.groups},
		{Name: "updates", Value: r.updates}, {Name: "log_history", Value: []any{}},
		{Name: "events", Value: r.events}, {Name: "evaluations", Value: r.evaluations},
		{Name: "checkpoints", Value: trace.Object{{Name: "written", Value: r.written},
			{Name: "after", Value: []string{}}}},
		{Name: "best", Value: nil}, {Name: "train_output", Value: nil}, {Name: "error", Value: refused}}
	for _, f := range fields {
		if i := slices.IndexFunc(o, func(p trace.Pair) bool { return p.Name == f.Name }); i >= 0 {
			o[i].Value = f.Value
		} else {
			o = append(o, f)
		}
	}
	for i, p := range o { // a list without entries is a list
		if list, ok := p.Value.([]any); ok && list == nil {
			o[i].Value = []any{}
		}
	}
	return o
}

func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func environment() trace.Object {
	o := trace.Object{{Name: "peer", Value: "gotrainer"}}
	if build, err := torch.BuildInfo(); err == nil {
		o = append(o, trace.Pair{Name: "torch", Value: strings.Split(build.Version, "+")[0]},
			trace.Pair{Name: "cpu_capability", Value: build.CPUCapability},
			trace.Pair{Name: "threads", Value: torch.Threads()})
	}
	return o
}

func hexOrNil(v *float64) any {
	if v == nil {
		return nil
	}
	return trace.Hex(*v)
}

func hexes(values []float64) []trace.Hex {
	out := make([]trace.Hex, len(values))
	for i, v := range values {
		out[i] = trace.Hex(v)
	}
	return out
}

// sorted returns tensors in the order of their names.
func sorted(list []torch.Named) []torch.Named {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// weightsNorm is the 2-norm over all parameters in float64.
func weightsNorm(m model) trace.Hex {
	sum := 0.0
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, p := range sorted(nn.Params(m.module())) {
				sum += p.Tensor.Detach().ToDType(torch.Float64).PowScalar(2).Sum(torch.DefaultDType).Item()
			}
		})
	})
	return trace.Hex(math.Sqrt(sum))
}

// weightsSHA is the sha256 over tensors in the order of their names, each as little-endian
// contiguous bytes.
func weightsSHA(list []torch.Named) string {
	var raws [][]byte
	for _, p := range sorted(list) {
		raws = append(raws, p.Tensor.Bytes())
	}
	return hashOf(raws)
}

// finalTensors are the weights and buffers of a model and the states of its optimizer, as copies.
func finalTensors(m model, o optim.Optimizer) []tensorBytes {
	var out []tensorBytes
	add := func(name string, t torch.Tensor) {
		out = append(out, tensorBytes{name, t.DType(), t.Shape(), bytes.Clone(t.Bytes())})
	}
	if m != nil {
		for _, t := range nn.StateDict(m.module()) {
			add(t.Name, t.Tensor)
		}
	}
	if o != nil {
		for _, t := range o.State() {
			add("optim."+t.Name, t.Tensor)
		}
	}
	return out
}

// tensorBytes is a tensor that no longer belongs to libtorch.
type tensorBytes struct {
	name  string
	dtype torch.DType
	shape []int64
	raw   []byte
}

// hashOf is the sha256 of some bytes, one after the other.
func hashOf(raws [][]byte) string {
	h := sha256.New()
	for _, raw := range raws {
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil))
}
