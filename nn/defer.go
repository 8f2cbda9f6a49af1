package nn

import (
	"github.com/gotrainer/gotrainer/nn/internal/later"
	"github.com/gotrainer/gotrainer/torch"
)

// Defer runs build, which makes a model, and leaves its parameters without memory: they are on
// torch.Meta until [Materialize]. Random numbers are still drawn, so the generator advances as
// usual and all parameters get the values they would otherwise have had. A model that is too large
// for one process can thus be made and then distributed, one layer after the other. dist/shard,
// and the options Sharding of package trainer/engine and accelerate, materialise the parts that
// they take.
//
//	var m *bert.Classifier
//	nn.Defer(func() { m, err = bert.NewClassifier(config) })
//
// Only parameters filled by package nn/initialize are deferred, from 16 KiB on: the weights of
// linear, convolutional, attention and other layers, and embeddings without a padding row, even if
// a model initialises them a second time. Everything else, such as buffers, normalisations and the
// targets of files that are loaded, is made at once. Each deferred parameter is drawn twice. Until
// it is materialised, its shape, dtype, name and whether it is trainable can be read and set, but
// not its values.
//
// build runs on one thread. On systems other than Linux, no other goroutine may make a model
// meanwhile. torchdistX calls this deferred_init.
func Defer(build func()) { later.Defer(build) }

// Materialize draws the parameters of a model, or of one of its layers, that [Defer] deferred.
// Fields that share a parameter share the result. It fails if a parameter has since been changed
// other than by package nn/initialize, or is not in a field.
func Materialize(m any) error {
	return torch.Try(func() {
		// Parameters that are not in a field are handled below.
		fields, listed := ParamFields(m)
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

// gone reports whether a parameter has been freed, for example by a unit of dist/shard.
func gone(t torch.Tensor) bool { return torch.Try(func() { t.NeedsGrad() }) != nil }
