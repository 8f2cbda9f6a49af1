package ddp

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [New]. The zero value has the defaults of DistributedDataParallel.
type Options struct {
	// FindUnusedParameters allows passes in which some parameters take no part, on some processes
	// or on all: find_unused_parameters. The graph of the loss is searched for them before each
	// backward pass. A parameter without a gradient on this process counts as zeros if it has one
	// on another, and remains without one if it has none on any. Without this option, such a pass
	// is an error.
	//
	// The search does not see parameters inside a [torch.Checkpoint]: all of them must take part.
	FindUnusedParameters bool

	// StaticGraph promises that every pass uses the same parameters in the same order, and that the
	// gradients of every pass are averaged, so that there is no accumulation: static_graph.
	StaticGraph bool

	// GradientAsBucketView makes gradients views of the buffers that are sent, which takes less
	// memory and no copy (gradient_as_bucket_view).
	GradientAsBucketView bool

	// BucketCapMB is roughly how much is sent at a time, in MiB; zero means 25, and 1 for the
	// first bucket (bucket_cap_mb).
	BucketCapMB float64

	// Compress sends gradients as torch.Float16 or torch.BFloat16: half the bytes, and sums of
	// that precision (fp16_compress_hook, bf16_compress_hook). Zero sends them as they are.
	Compress torch.DType

	KeepBuffers bool // every process keeps its own buffers (broadcast_buffers=False)
}

// Model is a model that several processes train together.
type Model struct {
	group   *dist.Group
	options Options
	model   any           // for its batch normalisation, which knows the process group; nil with one process
	params  []torch.Named // the trainable parameters
	buffers []torch.Tensor
	reducer *torch.Reducer // nil with one process, or without trainable parameters
	sync    bool           // average the gradients of the coming backward pass
	synced  bool           // the value of sync for the previous pass
	passed  bool           // a backward pass has averaged gradients
	rebuilt bool           // the reducer has rebuilt its buckets after it
}

// New copies the parameters and buffers of rank 0 to all processes. If their models differ, it
// fails on all of them. Parameters that are frozen at the time of the call are not averaged later.
func New(ctx context.Context, g *dist.Group, model any, o Options) (*Model, error) {
	if o.BucketCapMB < 0 {
		return nil, fmt.Errorf("ddp: Options.BucketCapMB is %v; want a positive number of MiB, or 0 for 25",
			o.BucketCapMB)
	}
	if c := o.Compress; c != 0 && c != torch.Float16 && c != torch.BFloat16 {
		return nil, fmt.Errorf("ddp: Options.Compress is %s; want torch.Float16, torch.BFloat16 or nothing", c)
	}
	m := &Model{group: g, options: o, sync: true, synced: true}
	var all []torch.Tensor
	var about strings.Builder
	failed := torch.Try(func() {
		for _, p := range nn.Params(model) {
			fmt.Fprintf(&about, "parameter %s of %s%v, trained: %v\n", p.Name, p.Tensor.DType(), p.Tensor.Shape(),
				p.Tensor.NeedsGrad())
			all = append(all, p.Tensor)
			if p.Tensor.NeedsGrad() {
				m.params = append(m.params, p)
			}
		}
		for _, b := range nn.Buffers(model) {
			fmt.Fprintf(&about, "buffer %s of %s%v\n", b.Name, b.Tensor.DType(), b.Tensor.Shape())
			m.buffers = append(m.buffers, b.Tensor)
		}
		for _, part := range nn.LinearParts(model) {
			fmt.Fprintf(&about, "layer %s\n", part)
		}
	})
	if failed != nil {
		return nil, fmt.Errorf("ddp: %w", failed)
	}
	if err := SameModel(ctx, g, about.String()); err != nil {
		return nil, err
	}
	sparse := sparseGradients(model, m.params)
	if i := slices.Index(sparse, true); i >= 0 && o.Compress != 0 {
		return nil, fmt.Errorf("ddp: Options.Compress is %s, and the gradient of %q is sparse; those are sent as they are "+
			"only: leave Compress out, or Sparse of the embedding", o.Compress, m.params[i].Name)
	}
	if err := Broadcast(ctx, g, 0, append(all, m.buffers...)...); err != nil {
		return nil, err
	}
	if g.World() == 1 {
		return m, nil
	}
	p, err := processGroup(ctx, g)
	if err != nil {
		return nil, err
	}
	nn.SetProcessGroup(model, p.ProcessGroup)
	m.model = model
	if len(m.params) == 0 {
		return m, nil
	}
	bucket := int64(o.BucketCapMB * (1 << 20))
	err = Collective(ctx, g, "New", func(p *torch.ProcessGroup) {
		m.reducer = p.NewReducer(m.params, torch.ReducerOptions{FirstBucketBytes: bucket, BucketBytes: bucket,
			FindUnused: o.FindUnusedParameters, BucketView: o.GradientAsBucketView, StaticGraph: o.StaticGraph,
			Compress: o.Compress, Sparse: sparse})
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// sparseGradients reports, for each parameter, whether its gradient is sparse: embedding weights
// with the option Sparse.
func sparseGradients(model any, params []torch.Named) []bool {
	weightOf := func(module string) string { return strings.TrimPrefix(module+".weight", ".") }
	sparse := map[string]bool{}
	for _, m := range nn.Modules(model) {
		switch e := m.Module.(type) {
		case *nn.Embedding:
			sparse[weightOf(m.Name)] = e.Sparse
		case *nn.EmbeddingBag:
			sparse[weightOf(m.Name)] = e.Options.Sparse
		}
	}
	is := make([]bool, len(params))
	for i, p := range params {
		is[i] = sparse[p.Name]
	}
	return is
}

// Close stops averaging the model's gradients and sharing the statistics of its batch
// normalisation layers. It does not close the group.
func (m *Model) Close() {
	if m.model != nil {
		nn.SetProcessGroup(m.model, nil)
		m.model = nil
	}
	if m.reducer != nil {
		m.reducer.Close()
		m.reducer = nil
	}
}

// SameModel returns an error, on all processes, if their models differ. about describes the model,
// one line for each tensor.
func SameModel(ctx context.Context, g *dist.Group, about string) error {
	all, err := g.AllGather(ctx, []byte(about))
	if err != nil {
		return err
	}
	first := strings.Split(string(all[0]), "\n")
	for rank, text := range all {
		for i, line := range strings.Split(string(text), "\n") {
			if i >= len(first) || i == len(first)-1 && line != "" {
				return fmt.Errorf("ddp: the models differ: rank %d has %s, which rank 0 has not", rank, line)
			}
			if line != first[i] {
				return fmt.Errorf("ddp: the models differ: rank %d has %q where rank 0 has %q", rank, line, first[i])
			}
		}
	}
	return nil
}

// BeforeForward must be called before a forward pass in training. sync says whether its gradients
// will be averaged, as in the last batch of an accumulation window; under no_sync it is false. The
// buffers are broadcast, unless the gradients of the previous pass were not averaged.
func (m *Model) BeforeForward(ctx context.Context, sync bool) error {
	if !sync && m.options.StaticGraph && m.reducer != nil {
		return errors.New("ddp: Options.StaticGraph is set, and the gradients of a pass are not to be averaged " +
			"(no_sync, accumulation), after which PyTorch's reducer averages those of others wrongly or fails: leave it out, " +
			"or Accumulate")
	}
	broadcast := m.synced
	m.sync, m.synced = sync, sync
	if sync && m.reducer != nil {
		if err := m.prepare(ctx); err != nil {
			return err
		}
	}
	if !broadcast || m.options.KeepBuffers || len(m.buffers) == 0 {
		return nil
	}
	return Broadcast(ctx, m.group, 0, m.buffers...)
}

// prepare prepares the reducer for a pass. Before the second one the reducer rebuilds its buckets,
// in an order that rank 0 broadcasts.
func (m *Model) prepare(ctx context.Context) error {
	agreed := func() error { return nil }
	if m.passed && !m.rebuilt {
		m.rebuilt = true
		var err error
		if agreed, err = m.group.StartAgree(ctx, "BeforeForward()", nil); err != nil {
			return err
		}
	}
	if err := torch.Try(m.reducer.BeforeForward); err != nil {
		return m.failed("the forward pass", err)
	}
	return agreed()
}

// Backward runs a backward pass from losses. If sync was true in BeforeForward, gradients are
// averaged over the processes during the pass, and when Backward returns, every gradient is the
// mean. Several backward passes may follow one BeforeForward.
func (m *Model) Backward(ctx context.Context, backward func(), losses ...torch.Tensor) error {
	return Backward(ctx, []*Model{m}, backward, losses...)
}

// Backward is [Model.Backward] for several models, any of which the losses may depend on.
func Backward(ctx context.Context, models []*Model, backward func(), losses ...torch.Tensor) error {
	var reducers []*torch.Reducer
	var m *Model // any of those whose gradients are averaged
	for _, next := range models {
		if next.sync && next.reducer != nil {
			m, reducers = next, append(reducers, next.reducer)
		}
	}
	if m == nil {
		return twice(torch.Try(backward))
	}
	// On a CPU the pass cannot succeed unless all processes run it: if some do something else, they
	// wait for this one there, so a quiet call is enough. Work that has begun on a GPU cannot be
	// aborted, so the processes do not compare it.
	call := &dist.Quiet{}
	if !m.params[0].Tensor.Device().IsCUDA() {
		var err error
		if call, err = m.group.StartQuiet(ctx, "Backward()", nil); err != nil {
			return err
		}
	}
	defer time.AfterFunc(announceBackwardAfter, call.Tell).Stop()
	stop := context.AfterFunc(ctx, func() {
		m.group.Fail("Backward", context.Cause(ctx)) //nolint:errcheck // it ends the pass
	})
	defer stop()
	if err := torch.Try(func() { torch.ReduceBackward(reducers, backward, losses...) }); err != nil {
		return m.failed("Backward", err)
	}
	call.Done()
	for _, next := range models {
		next.passed = next.passed || next.sync
	}
	return nil
}

// announceBackwardAfter is how long a backward pass may take before it is announced to the others.
const announceBackwardAfter = time.Second

// unfinished matches the reducer's error if parameters took no part in the previous pass.
var unfinished = regexp.MustCompile(`(?s)^.*Expected to have finished reduction` +
	`.*did not receive grad for rank \d+:([ \d]*)`)

// readyTwice begins the reducer's error if a gradient comes more than once in a backward pass, or
// comes although that of an earlier pass is still awaited.
const readyTwice = "Expected to mark a variable ready only once"

// twice says what readyTwice means, and returns other errors as they are.
func twice(err error) error {
	if err == nil || !strings.Contains(err.Error(), readyTwice) {
		return err
	}
	return fmt.Errorf("a parameter has its gradient twice: it is used in several checkpointed layers or passes, or the "+
		"pass before did not use all parameters; where layers are checkpointed, set ddp.Options.StaticGraph (without "+
		"accumulation), freeze parameters that have no part in the loss, or leave checkpointing out: %w", err)
}

// failed returns the error of a pass, or that of the group if another process is at fault.
func (m *Model) failed(call string, err error) error {
	found := unfinished.FindStringSubmatch(err.Error())
	if found == nil {
		return m.group.Fail(call, twice(err))
	}
	names := []string{}
	for _, text := range strings.Fields(found[1]) {
		if i, convErr := strconv.Atoi(text); convErr == nil && i < len(m.params) {
			names = append(names, m.params[i].Name)
		}
	}
	return m.group.Fail(call, fmt.Errorf("in the pass before, %s had no part in the loss, so gradients were not "+
		"averaged; "+
		"set ddp.Options.FindUnusedParameters (StaticGraph where layers are checkpointed), or freeze them",
		strings.Join(names, ", ")))
}
