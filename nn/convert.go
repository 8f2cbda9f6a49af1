package nn

import (
	"fmt"
	"path"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// To converts the parameters and buffers of a module to a dtype and a device, in place: Module.to.
// Optimizers and other holders of the parameters stay valid, and gradients move along. The dtype
// applies to floating-point tensors only. Zero fields leave things as they are; use [ToDevice] to
// move a module from a GPU to the CPU.
func To(m any, o torch.TensorOptions) {
	fixed := fixedDTypes(m)
	convert(m, func(t torch.Tensor) torch.Tensor {
		o := o
		if d := t.DType(); !d.IsFloatingPoint() && !d.IsComplex() || fixed[t] {
			o.DType = torch.DefaultDType
		}
		return t.To(o)
	})
}

// Numbers returns the floating-point parameters and buffers that [To] converts.
func Numbers(m any) (list []torch.Named) {
	fixed := fixedDTypes(m)
	for _, t := range append(Params(m), Buffers(m)...) {
		if t.Tensor.DType().IsFloatingPoint() && !fixed[t.Tensor] {
			list = append(list, t)
		}
	}
	return list
}

// fixedDTypes returns the buffers of modules that are [FixedDType].
func fixedDTypes(m any) map[torch.Tensor]bool {
	fixed := map[torch.Tensor]bool{}
	each(m, func(n node) {
		if _, ok := n.module.(FixedDType); ok {
			for _, b := range n.buffers() {
				fixed[b.Tensor] = true
			}
		}
	})
	return fixed
}

// ToDevice moves a module to a device, as [To] does.
func ToDevice(m any, d torch.Device) {
	convert(m, func(t torch.Tensor) torch.Tensor { return t.ToDevice(d) })
}

// ToMemoryFormat changes the memory format of a module's four-dimensional parameters and buffers,
// in place: Module.to(memory_format=torch.channels_last). Convolutions of images are faster in
// [torch.ChannelsLast], on the CPU and on tensor cores; values and names do not change.
// [torch.ChannelsLast3d] is for five dimensions.
func ToMemoryFormat(m any, f torch.MemoryFormat) {
	dims := map[torch.MemoryFormat][]int{torch.ContiguousFormat: {4, 5}, torch.ChannelsLast: {4},
		torch.ChannelsLast3d: {5}}[f]
	convert(m, func(t torch.Tensor) torch.Tensor {
		if !slices.Contains(dims, t.Dim()) {
			return t
		}
		return t.InMemoryFormat(f)
	})
}

func convert(m any, f func(torch.Tensor) torch.Tensor) {
	torch.NoGrad(func() {
		torch.Scope(func() {
			for _, t := range append(Params(m), Buffers(m)...) {
				value := f(t.Tensor)
				if value.Is(t.Tensor) {
					continue // nothing changes
				}
				grad := t.Tensor.Grad()
				t.Tensor.SetGrad(torch.Tensor{}) // the gradient would not match its tensor between the two calls
				t.Tensor.SetData_(value)
				if grad.Defined() {
					t.Tensor.SetGrad(f(grad))
				}
			}
		})
	})
	flatten(m)
}

// Freeze excludes the parameters whose names match a pattern from training: they no longer get
// gradients. Patterns are those of [path.Match], except that * also matches dots: "encoder.*"
// matches everything in encoder. Without patterns, all parameters are frozen. A pattern that is
// malformed or matches no parameter is an error, and nothing is changed.
func Freeze(m any, patterns ...string) error { return setTrained(m, false, patterns) }

// Unfreeze makes parameters that [Freeze] excluded trainable again. Without patterns, it applies
// to all floating-point parameters, and skips others such as packed weights.
func Unfreeze(m any, patterns ...string) error { return setTrained(m, true, patterns) }

func setTrained(m any, on bool, patterns []string) error {
	params := Params(m)
	var matched []torch.Tensor
	if len(patterns) == 0 {
		for _, p := range params {
			if !on || p.Tensor.DType().IsFloatingPoint() || p.Tensor.DType().IsComplex() {
				matched = append(matched, p.Tensor)
			}
		}
	}
	for _, pattern := range patterns {
		before := len(matched)
		for _, p := range params {
			ok, err := path.Match(pattern, p.Name)
			if err != nil {
				return fmt.Errorf("nn: pattern %q of parameter names: %w", pattern, err)
			}
			if ok {
				matched = append(matched, p.Tensor)
			}
		}
		if len(matched) == before {
			known := "there are none"
			if len(params) > 0 {
				known = fmt.Sprintf("there are %d, the first is %q", len(params), params[0].Name)
			}
			return fmt.Errorf("nn: no parameter's name matches the pattern %q; %s", pattern, known)
		}
	}
	for _, t := range matched {
		t.SetRequiresGrad(on)
	}
	return nil
}
