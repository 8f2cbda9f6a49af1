package shard

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// units returns all units of the model, including the root.
func (m *Model) units() (all []*Unit) {
	for _, u := range m.options.Units {
		if u != nil {
			all = append(all, u)
		}
	}
	if m.root != nil {
		all = append(all, m.root)
	}
	return all
}

// unshardRoot sets the fields of the root to whole parameters, whose gradients go to the parts.
func (m *Model) unshardRoot(ctx context.Context) error {
	if m.root == nil {
		return ctx.Err()
	}
	m.root.ctx = ctx
	return torch.Try(func() {
		torch.Scope(func() {
			m.root.unshard()
			for _, r := range m.root.rows {
				for _, fields := range r.fields {
					t := fields[0].Keep()
					for _, f := range fields {
						*f = t
					}
					r.kept = append(r.kept, t)
				}
			}
		})
	})
}

// reshardRoot reverses unshardRoot.
func (m *Model) reshardRoot() {
	m.prefetcher.expect(nil)
	if m.root == nil || !m.root.unsharded {
		return
	}
	m.root.reshard()
	m.root.free()
}

func (u *Unit) free() {
	for _, r := range u.rows {
		for _, t := range r.kept {
			t.Free()
		}
		r.kept = nil
	}
}

// Summon puts whole parameters into the fields of all units, on all processes, until
// [Model.Release] or the next BeforeForward: summon_full_params of FullyShardedDataParallel. Use
// it to evaluate, to save the whole model, or to inspect it. Units then run without gathering, so
// processes may run different things. Without units there is nothing to do. All processes must
// call it.
func (m *Model) Summon(ctx context.Context) error {
	m.reshardRoot()
	for _, u := range m.units() {
		if u.summoned {
			continue
		}
		var err error
		failed := torch.Try(func() {
			torch.NoGrad(func() { torch.Scope(func() { err = u.summon(ctx) }) })
		})
		if failed != nil {
			return m.group.Fail("Summon", failed)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (u *Unit) summon(ctx context.Context) error {
	for _, r := range u.rows {
		row := r.mine.Detach().Clone() // for one process
		if r.group.World() > 1 {
			var err error
			if row, err = r.gather(ctx, r.mine); err != nil {
				return err
			}
		}
		r.all = row.Keep()
	}
	u.summoned = true
	for _, r := range u.rows {
		for i, t := range r.split(r.all) {
			p := r.params[i]
			t = t.Reshape(p.shape...).Detach().Keep()
			t.SetRequiresGrad(p.piece.Defined())
			r.kept = append(r.kept, t)
			for _, f := range r.fields[i] {
				*f = t
			}
		}
	}
	return nil
}

// Release reverses [Model.Summon]. Changes that the program made to the parameters in the
// meantime, the same on all processes, are kept.
func (m *Model) Release() error {
	return torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() {
				for _, u := range m.units() {
					u.release()
				}
			})
		})
	})
}

func (u *Unit) release() {
	if !u.summoned {
		return
	}
	for _, r := range u.rows {
		r.mine.Detach().Copy_(r.all.Narrow(0, r.part*int64(r.group.Rank()), r.part))
		r.all.Free()
		r.all = torch.Tensor{}
	}
	u.reshard()
	u.free()
	u.summoned = false
}

// Summoned reports whether the parameters of all units are currently whole.
func (m *Model) Summoned() bool {
	for _, u := range m.units() {
		if !u.summoned {
			return false
		}
	}
	return true
}

// makeRoot creates a unit of the parameters outside all other units.
func (m *Model) makeRoot(ctx context.Context) error {
	u, err := fullyShard(ctx, &Unit{group: m.replica, ctx: context.Background(), root: true}, m.model)
	if err != nil {
		return fmt.Errorf("%w (outside the layers that are units)", err)
	}
	if len(u.rows) > 0 {
		m.root = u
	}
	return nil
}
