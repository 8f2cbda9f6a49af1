package nn

import (
	"github.com/gotrainer/gotrainer/nn/internal/later"
	"github.com/gotrainer/gotrainer/torch"
)

// Defer runs build, which makes a model, and leaves its parameters without memory: they are on
// torch.Meta until [Materialize]. Random numbers are drawn meanwhile, so that the generator moves as
// ever and all parameters get the values that they would have had. So a model that is too large for
// one process can be made and then shared out, one layer after the other: dist/shard, and the options
// Sharding of package trainer/engine and accelerate, materialise what they take.
//
//	var m *bert.Classifier
//	nn.Defer(func() { m, err = bert.NewClassifier(config) })
//
// Left for later is what package nn/initialize has filled, from 16 KiB on: the weights of linear,
// convolutional, attention and other layers, and embeddings without a padding row, also where a model
// initialises them again. All else, such as buffers, normalisations and what files are loaded into,
// is made at once. Each such parameter is drawn twice. Until it is there, its shape, dtype, name and
// whether it is trained may be asked and set, but not its values. build runs on one thread; on other
// systems than Linux no other goroutine may make a model meanwhile. torchdistX calls it deferred_init.
func Defer(build func()) { later.Defer(build) }

// Materialize draws the parameters of a model, or of a layer of it, that [Defer] has left for later.
// Fields that share a parameter get one. It fails if a parameter was changed otherwise than by
// package nn/initialize since then, or is in no field.
func Materialize(m any) error {
	return torch.Try(func() {
		fields, listed := ParamFields(m) // parameters that are in no field are left below
		drawn := map[torch.Tensor]torch.Tensor{}
		for _, f := range fields {
			t := *f.Tensor
			if !t.Defined() {
				continue
			}
			if _, ok := drawn[t]; !ok {
				if gone(t) || t.Device() != torch.Meta {
					continue
				}
				drawn[t] = later.Draw("nn.Materialize", f.Name, t)
			}
			*f.Tensor = drawn[t]
		}
		for t := range drawn {
			t.Free()
		}
		if listed == nil {
			return
		}
		for _, p := range Params(m) {
			if !gone(p.Tensor) && p.Tensor.Device() == torch.Meta {
				panic(listed)
			}
		}
	})
}

// gone reports whether a parameter was freed, as by a unit of dist/shard.
func gone(t torch.Tensor) bool { return torch.Try(func() { t.NeedsGrad() }) != nil }
