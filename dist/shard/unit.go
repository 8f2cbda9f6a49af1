package shard

import (
	"context"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Unit is a set of modules whose parameters are sharded together: each process holds a part of
// them, and all of them while the unit computes. A nil Unit stands for modules that are not
// sharded.
type Unit struct {
	group     *dist.Group
	ctx       context.Context // of the current pass
	rows      []*unitRow
	fields    []nn.ParamField
	unsharded bool // the fields hold whole parameters
	root      bool // and keep them for a whole pass
	track     bool // record which parameters take part

	prefetcher *prefetcher // of the model; nil: the unit is not in a model yet

	summoned bool // the fields hold whole parameters without a history: see Model.Summon
}

// unitRow is a flat tensor of a unit, with this process's part.
type unitRow struct {
	flat
	mine       torch.Tensor      // the part: a leaf, if the parameters are trainable
	fields     [][]*torch.Tensor // the model's fields for each parameter
	kept       []torch.Tensor    // the whole parameters in the fields of a root during a pass, or while summoned
	all        torch.Tensor      // the flat tensor while summoned
	prefetched torch.Tensor      // the flat tensor that is being prefetched
}

// FullyShard shards the parameters of modules: torch.distributed.fsdp.fully_shard. Each process
// keeps an equal part of those of rank 0, and the fields that held them are undefined until
// [Unit.Run]. A unit should be as large as one layer of a deep model. Make each unit as soon as
// its layer is made, or make the model in [nn.Defer]: then no process ever holds more than one
// whole layer. All processes must make the same calls.
//
// A parameter that is used in several modules must be in one unit with all of them. FullyShard
// refuses layers that change statistics in a forward pass (batch normalisation), since a unit
// computes it twice, and layers whose parameters are not fields (nn.LSTM). Parameters that are
// trained must be floating-point, and none may be quantized.
func FullyShard(ctx context.Context, g *dist.Group, modules ...any) (*Unit, error) {
	return fullyShard(ctx, &Unit{group: g, ctx: context.Background()}, modules...)
}

func fullyShard(ctx context.Context, u *Unit, modules ...any) (*Unit, error) {
	for _, m := range modules {
		if names := nn.QuantizedLayers(m); len(names) > 0 {
			return nil, fmt.Errorf("shard: FullyShard: the weight of %s is quantized, and such a layer is kept whole; "+
				"ZeroRedundancyOptimizer and ShardGradOp take the model", names[0])
		}
	}
	g := u.group
	about := ""
	var all []torch.Tensor
	failed := torch.Try(func() { about, all = u.collect(modules) })
	if failed != nil {
		return nil, fmt.Errorf("shard: FullyShard: %w", failed)
	}
	if len(all) == 0 && !u.root {
		return nil, fmt.Errorf("shard: FullyShard: the modules have no parameters")
	}
	if err := ddp.SameModel(ctx, g, about); err != nil {
		return nil, err
	}
	if err := ddp.Broadcast(ctx, g, 0, all...); err != nil {
		return nil, err
	}
	failed = torch.Try(func() {
		for _, r := range u.rows {
			r.cut()
		}
	})
	if failed != nil {
		return nil, fmt.Errorf("shard: FullyShard: %w", failed)
	}
	return u, nil
}

// collect finds the parameters and describes them. It panics if they cannot be sharded.
func (u *Unit) collect(modules []any) (about string, all []torch.Tensor) {
	var text strings.Builder
	known := map[torch.Tensor]*torch.Tensor{} // to its first field
	rowOf := map[string]*unitRow{}
	at := map[torch.Tensor]func(field *torch.Tensor){}
	if len(modules) > 0 {
		if err := nn.Materialize(modules); err != nil {
			panic(err)
		}
	}
	for i, m := range modules {
		for _, b := range nn.Buffers(m) {
			if strings.HasSuffix(b.Name, "running_mean") && !u.root {
				panic(torch.Errorf("shard.FullyShard", torch.ErrNotSupported, "module %d updates %s in a forward pass, "+
					"and a unit computes it twice; leave its layer out of the units and freeze its parameters, use "+
					"another normalisation, or the strategy ShardGradOp", i, b.Name))
			}
		}
		fields, err := nn.ParamFields(m)
		if err != nil {
			panic(torch.Errorf("shard.FullyShard", torch.ErrNotSupported, "%s, and so cannot be taken out of the model "+
				"between passes; use the strategy ShardGradOp, which leaves them there",
				strings.TrimPrefix(err.Error(), "torch: nn.ParamFields: ")))
		}
		for _, f := range fields {
			t := *f.Tensor
			if !t.Defined() {
				continue
			}
			u.fields = append(u.fields, f)
			if known[t] != nil {
				at[t](f.Tensor)
				continue
			}
			known[t] = f.Tensor
			if isFreed(t) {
				panic(torch.Errorf("shard.FullyShard", torch.ErrInvalid, "%s of module %d is in another unit already; put "+
					"all modules that use a parameter into one unit", f.Name, i))
			}
			trained := t.NeedsGrad()
			fmt.Fprintf(&text, "parameter %s of module %d, %s%v, trained: %v\n", f.Name, i, t.DType(), t.Shape(), trained)
			key := fmt.Sprint(t.DType(), t.Device(), trained)
			r := rowOf[key]
			if r == nil {
				r = &unitRow{flat: flat{group: u.group, name: "a unit", dtype: t.DType(), device: t.Device()}}
				rowOf[key] = r
				u.rows = append(u.rows, r)
			}
			p := &param{name: f.Name, shape: t.Shape(), numel: t.Numel()}
			r.add(p)
			r.fields = append(r.fields, []*torch.Tensor{f.Tensor})
			n := len(r.fields) - 1
			at[t] = func(field *torch.Tensor) { r.fields[n] = append(r.fields[n], field) }
			all = append(all, t)
		}
	}
	return text.String(), all
}

// isFreed reports whether a tensor was freed, as a parameter is that another unit has taken.
func isFreed(t torch.Tensor) bool { return torch.Try(func() { t.NeedsGrad() }) != nil }

// cut reduces the parameters to the part of this process.
func (r *unitRow) cut() {
	var whole []torch.Tensor
	trained := (*r.fields[0][0]).NeedsGrad()
	torch.NoGrad(func() {
		torch.Scope(func() {
			i := 0
			row := r.row(func(*param) torch.Tensor {
				whole = append(whole, *r.fields[i][0])
				i++
				return whole[i-1]
			})
			r.mine = row.Narrow(0, r.part*int64(r.group.Rank()), r.part).Clone().Keep()
		})
		for _, p := range r.params {
			if trained {
				_, n, place := r.flat.mine(p)
				p.piece = r.mine.Detach().Narrow(0, place, n).Keep()
				p.piece.SetRequiresGrad(true)
			}
		}
	})
	r.mine.SetRequiresGrad(trained)
	for i, fields := range r.fields {
		for _, f := range fields {
			*f = torch.Tensor{}
		}
		whole[i].Free()
	}
}

// Run computes f(inputs) with the parameters of the unit, which are gathered before and released
// afterwards. The backward pass gathers them again, computes f again and averages their gradients,
// of which each process keeps its part. A unit is thus a [torch.Checkpoint], with the same
// requirements on f: other tensors with a history must be passed as inputs. A pass may contain
// several runs, even of the same unit. Units must run in the same order on all processes.
//
// While a unit computes, the parameters of the next one are gathered: always in a backward pass,
// and in a forward pass if it runs the units in the same order as the previous one. Two units are
// therefore whole at a time.
func (u *Unit) Run(f func(inputs []torch.Tensor) []torch.Tensor, inputs ...torch.Tensor) []torch.Tensor {
	if u == nil || u.summoned {
		return f(inputs)
	}
	next := u.prefetcher.enter(u)
	return torch.Checkpoint(func(inputs []torch.Tensor) []torch.Tensor {
		if u.unsharded {
			panic(torch.Errorf("shard.Unit.Run", torch.ErrInvalid, "%s is run inside of itself", u.rows[0].name))
		}
		u.unshard()
		defer u.done()
		u.prefetcher.prefetch(next())
		u.prefetcher.traceEvent("compute", u)
		return f(inputs)
	}, inputs...)
}

// unshard sets the fields to whole parameters.
func (u *Unit) unshard() {
	u.prefetcher.expect(u)
	if u.prefetcher != nil && u.prefetcher.prefetched == nil {
		u.prefetcher.traceEvent("gather", u)
	}
	for _, r := range u.rows {
		for i, t := range r.split(r.whole(u)) {
			p := r.params[i]
			t = t.Reshape(p.shape...)
			if u.track && p.piece.Defined() {
				t = markUsed(t, &p.used)
			}
			for _, f := range r.fields[i] {
				*f = t
			}
		}
	}
	if u.prefetcher != nil {
		u.prefetcher.prefetched = nil
	}
	u.unsharded = true
}

// done reshards the unit after it has computed. In a backward pass the gradients are still to come.
func (u *Unit) done() {
	u.reshard()
	if u.prefetcher != nil && !u.prefetcher.backward {
		u.prefetcher.traceEvent("free", u)
	}
}

func (u *Unit) reshard() {
	u.unsharded = false
	for _, r := range u.rows {
		for _, fields := range r.fields {
			for _, f := range fields {
				*f = torch.Tensor{}
			}
		}
	}
}

// whole returns the flat tensor; its gradient is reduced to the parts.
func (r *unitRow) whole(u *Unit) torch.Tensor {
	ctx := u.ctx
	if r.group.World() == 1 {
		return r.mine
	}
	return torch.Function{
		Forward: func(in []torch.Tensor) []torch.Tensor {
			var row torch.Tensor
			var err error
			if r.prefetched.Defined() {
				row, err = r.awaitGather(ctx)
			} else {
				row, err = r.gather(ctx, in[0])
			}
			must("shard.Unit.Run", err)
			return []torch.Tensor{row}
		},
		Backward: func(_, _, grads []torch.Tensor) []torch.Tensor {
			u.prefetcher.traceEvent("reduce", u)
			mine, err := r.average(ctx, grads[0])
			must("shard.Unit.Run", err)
			return []torch.Tensor{mine}
		},
	}.Apply(r.mine)[0]
}

// markUsed returns a view of t that sets used when it gets a gradient.
func markUsed(t torch.Tensor, used *bool) torch.Tensor {
	return torch.Function{
		Forward: func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{in[0].View(in[0].Shape()...)} },
		Backward: func(_, _, grads []torch.Tensor) []torch.Tensor {
			*used = true
			return []torch.Tensor{grads[0]}
		},
	}.Apply(t)[0]
}

// must ends the pass by a panic if there is an error. The group has already failed with it.
func must(op string, err error) {
	if err != nil {
		panic(torch.Errorf(op, torch.ErrInternal, "%v", err))
	}
}
