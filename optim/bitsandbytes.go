package optim

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/internal/blockwise"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
	"github.com/gotrainer/gotrainer/torch"
)

// EightBit says which states an 8-bit optimizer keeps in 8 bits.
type EightBit struct {
	// MinSize is the number of elements from which a parameter's state is kept in 8 bits; smaller
	// parameters keep theirs in 32 bits: min_8bit_size. Zero means 4096.
	MinSize int64
	// Keep32Bit are the names of parameters whose state stays in 32 bits regardless of their size;
	// see [KeepIn32Bits].
	Keep32Bit []string
}

// KeepIn32Bits returns the settings b with names added to Keep32Bit, if b is one of the 8-bit
// optimizers of bitsandbytes. Hugging Face's Trainer does this for the weights of embeddings.
func KeepIn32Bits(b Builder, names ...string) Builder {
	extended := func(e EightBit) EightBit {
		e.Keep32Bit = append(slices.Clone(e.Keep32Bit), names...)
		return e
	}
	switch o := b.(type) {
	case AdamW8bit:
		o.EightBit = extended(o.EightBit)
		return o
	case AdEMAMix8bit:
		o.EightBit = extended(o.EightBit)
		return o
	case Lion8bit:
		o.EightBit = extended(o.EightBit)
		return o
	case RMSprop8bit:
		o.EightBit = extended(o.EightBit)
		return o
	}
	return b
}

// bitsandbytes is an optimizer of the package of that name, as its CPU kernels compute it: in
// float32, whatever the dtype of the parameters. To update a parameter with 8-bit state, the state
// is temporarily converted to float32.
type bitsandbytes struct {
	name                         string
	lr, beta1, beta2, eps, decay float64
	momentum                     *momentum
	options                      map[string]any
	eightBit                     *EightBit // nil if all states have 32 bits
	means                        int       // tensors in state1: 2 for AdEMAMix
	squares                      bool      // there is a state2
	low                          *LowRank  // for GaLore
	// formula makes one update; eight reports whether it is the kernel for 8-bit states
	formula func(b *batch, u *bitsandbytesUpdate, eight bool)
}

// bitsandbytesUpdate holds the operands of a formula, all in float32: parameters, gradients and
// states.
type bitsandbytesUpdate struct {
	p, g, mean, slow, square list
	t                        float64
	decay                    float64
}

// Indices of the states, after those of the projector.
const (
	bnbState1 = iota
	bnbState2
	bnbMap1
	bnbMap2
	bnbLargest1
	bnbLargest2
)

func (o *bitsandbytes) check() error {
	err := checkSettings(o.name, setting{name: "LR", value: o.lr}, setting{"Beta1", o.beta1, 1},
		setting{"Beta2", o.beta2, 1}, setting{name: "Eps", value: o.eps}, setting{name: "WeightDecay", value: o.decay})
	if err == nil && o.eightBit != nil && o.eightBit.MinSize < 0 {
		err = errorf(ErrOption, "%s.MinSize is %d; want a number of elements, or zero for 4096", o.name,
			o.eightBit.MinSize)
	}
	return err
}

func (o *bitsandbytes) build(groups []Group) (Optimizer, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := rule{name: o.name, lr: o.lr, weightDecay: o.decay, momentum: o.momentum, options: o.options,
		states: []state{stepCount}}
	if o.low != nil {
		r.lowRank, r.check, r.lowRankOptions = true, o.low.check, o.low.options()
		r.states = append(r.states, o.low.states(func(d torch.DType) torch.DType { return d })...)
	}
	base := len(r.states)
	r.states = append(r.states, o.states()...)
	r.step = func(b *batch) { o.step(b, base) }
	return build(r, DefaultImplementation, groups)
}

// shape returns the shape of a parameter's state before quantization.
func (o *bitsandbytes) shape(m *member) []int64 { return o.low.shapeOf(m) }

// eight reports whether a parameter's state is kept in 8 bits.
func (o *bitsandbytes) eight(m *member) bool {
	if o.eightBit == nil || slices.Contains(o.eightBit.Keep32Bit, m.Name) {
		return false
	}
	least := o.eightBit.MinSize
	if least == 0 {
		least = 4096
	}
	return elements(o.shape(m)) >= least
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, s := range shape {
		n *= s
	}
	return n
}

func (o *bitsandbytes) states() []state {
	tensor := func(name string, has bool, dtype func(eight bool) (torch.DType, bool),
		shape func(m *member) []int64) state {
		return state{name: name, make: func(m *member, _ float64) torch.Tensor {
			d, wanted := dtype(o.eight(m))
			if !has || !wanted {
				return torch.Tensor{}
			}
			return torch.TensorOptions{DType: d, Device: m.Tensor.Device()}.Zeros(shape(m)...)
		}}
	}
	numbers := func(eight bool) (torch.DType, bool) {
		if eight {
			return torch.Uint8, true
		}
		return torch.Float32, true
	}
	largest := func(eight bool) (torch.DType, bool) { return torch.Float32, eight }
	table := func(name string, has bool, m func() *blockwise.Map) state {
		return state{name: name, constant: true, make: func(member *member, _ float64) torch.Tensor {
			if !has || !o.eight(member) {
				return torch.Tensor{}
			}
			return m().Values(member.Tensor.Device()).Clone()
		}}
	}
	double := func(shape []int64) []int64 {
		if o.means == 2 {
			return append([]int64{2}, shape...)
		}
		return shape
	}
	first, second := blockwise.Signed, blockwise.Unsigned
	return []state{
		tensor("state1", true, numbers, func(m *member) []int64 { return double(o.shape(m)) }),
		tensor("state2", o.squares, numbers, o.shape),
		table("qmap1", true, first),
		table("qmap2", o.squares, second),
		tensor("absmax1", true, largest, func(m *member) []int64 {
			return double([]int64{blockwise.Count(elements(o.shape(m)))})
		}),
		tensor("absmax2", o.squares, largest, func(m *member) []int64 {
			return []int64{blockwise.Count(elements(o.shape(m)))}
		}),
	}
}

func (o *bitsandbytes) step(b *batch, base int) {
	t := b.count()
	if o.low == nil && !o.eight(b.members[0]) {
		u := &bitsandbytesUpdate{p: b.params.to(torch.Float32), g: b.grads.to(torch.Float32), t: t,
			decay: b.weightDecay}
		u.mean = b.states[base+bnbState1]
		if o.means == 2 {
			u.mean, u.slow = part(u.mean, 0), part(u.mean, 1)
		}
		if o.squares {
			u.square = b.states[base+bnbState2]
		}
		o.formula(b, u, false)
		u.back(b.params)
		return
	}
	for i, m := range b.members {
		torch.Scope(func() { o.one(b, i, m.states[base:], t) })
	}
}

func part(l list, i int64) list {
	return l.each(func(t torch.Tensor) torch.Tensor { return t.Select(0, i) })
}

// back copies the updated float32 parameters to the original ones.
func (u *bitsandbytesUpdate) back(params list) {
	for i, p := range params.ts {
		if !p.Is(u.p.ts[i]) && p.DType() != torch.Float32 {
			p.Copy_(u.p.ts[i])
		}
	}
}

// one updates a single parameter with 8-bit state or a projected gradient. Its float32 copies are
// freed before those of the next parameter are made.
func (o *bitsandbytes) one(b *batch, i int, states []torch.Tensor, t float64) {
	m, eight := b.members[i], o.eight(b.members[i])
	single := func(t torch.Tensor) list { return list{[]torch.Tensor{t}, b.params.operators} }
	u := &bitsandbytesUpdate{p: b.params.at(i).to(torch.Float32), g: b.grads.at(i), t: t, decay: b.weightDecay}
	if m.lowRank {
		u.g = single(o.low.project(m, u.g.ts[0], t-1))
		u.p = single(torch.TensorOptions{Device: m.Tensor.Device()}.Zeros(o.shape(m)...))
		u.decay = 0
	}
	u.g = u.g.to(torch.Float32)
	first, second := blockwise.Signed(), blockwise.Unsigned()
	load := func(q *blockwise.Map, state, largest torch.Tensor) list {
		if eight {
			state = q.Dequantize(state, largest)
		}
		return single(state)
	}
	rows := []torch.Tensor{states[bnbState1]}
	largest := []torch.Tensor{states[bnbLargest1]}
	if o.means == 2 {
		rows = []torch.Tensor{rows[0].Select(0, 0), rows[0].Select(0, 1)}
		if eight {
			largest = []torch.Tensor{largest[0].Select(0, 0), largest[0].Select(0, 1)}
		} else {
			largest = make([]torch.Tensor, 2)
		}
		u.slow = load(first, rows[1], largest[1])
	}
	u.mean = load(first, rows[0], largest[0])
	if o.squares {
		u.square = load(second, states[bnbState2], states[bnbLargest2])
	}
	o.formula(b, u, eight)
	if m.lowRank {
		moved := u.p.ts[0].ToDType(m.Tensor.DType())
		m.Tensor.Add_(o.low.projectBack(m, moved))
		if b.weightDecay > 0 {
			m.Tensor.AddScaled_(m.Tensor, -b.lr*b.weightDecay)
		}
	} else {
		u.back(b.params.at(i))
	}
	if !eight {
		return
	}
	first.Quantize(u.mean.ts[0], rows[0], largest[0])
	if o.means == 2 {
		first.Quantize(u.slow.ts[0], rows[1], largest[1])
	}
	if o.squares {
		second.Quantize(u.square.ts[0], states[bnbState2], states[bnbLargest2])
	}
}

// decayWeights applies decoupled weight decay.
func (u *bitsandbytesUpdate) decayWeights(lr float64) {
	if u.decay > 0 {
		u.p.mulScalar_(1 - lr*u.decay)
	}
}

// adam is the formula of AdamW.
func (o *bitsandbytes) adam(b *batch, u *bitsandbytesUpdate, eight bool) {
	u.mean.mulScalar_(b.momentum)
	u.mean.add_(u.g, 1-b.momentum)
	u.square.mulScalar_(o.beta2)
	u.square.addcmul_(u.g, u.g, 1-o.beta2)
	first := 1 - roundedmath.Pow(b.momentum, u.t)
	second := math.Sqrt(1 - roundedmath.Pow(o.beta2, u.t))
	u.decayWeights(b.lr)
	root := u.square.sqrt()
	if eight {
		root.divScalar_(second)
		root.addScalar_(o.eps)
		u.p.addcdiv_(u.mean, root, -b.lr/first)
		return
	}
	root.addScalar_(o.eps * second)
	u.p.add_(u.mean.div(root), -b.lr*second/first)
}

// lion is the formula of Lion.
func (o *bitsandbytes) lion(b *batch, u *bitsandbytesUpdate, eight bool) {
	u.decayWeights(b.lr)
	direction := u.mean.mulScalar(b.momentum)
	if eight {
		direction.add_(u.g.mulScalar(1-b.momentum), 1)
	} else {
		direction.add_(u.g, 1-b.momentum)
	}
	direction.sign_()
	u.p.add_(direction, -b.lr)
	u.mean.mulScalar_(o.beta2)
	u.mean.add_(u.g, 1-o.beta2)
}

// rmsprop is the formula of RMSprop; state1 is the mean of squares.
func (o *bitsandbytes) rmsprop(b *batch, u *bitsandbytesUpdate, eight bool) {
	g := u.g
	if u.decay > 0 || eight {
		g = g.add(u.p, u.decay)
	}
	u.mean.mulScalar_(o.beta1)
	u.mean.addcmul_(g, g, 1-o.beta1)
	root := u.mean.sqrt()
	root.addScalar_(o.eps)
	if eight {
		u.p.addcdiv_(g, root, -b.lr)
		return
	}
	u.p.add_(g.div(root), -b.lr)
}
