package torch

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Generator is a stream of random numbers: torch.Generator. Several goroutines may use the same
// Generator; their draws interleave.
type Generator struct{ c cgotorch.Generator }

func newGenerator(c cgotorch.Generator) *Generator {
	g := &Generator{c}
	runtime.AddCleanup(g, func(address uintptr) {
		cgotorch.FreeGenerator(cgotorch.Generator(tensorAt(address)))
	}, uintptr(c))
	return g
}

// NewGenerator returns a generator on the CPU, seeded with seed.
func NewGenerator(seed uint64) *Generator { return NewGeneratorOn(CPU, seed) }

// NewGeneratorOn returns a generator on a device, seeded with seed. It panics if there is no such
// device.
func NewGeneratorOn(d Device, seed uint64) *Generator {
	load("NewGenerator")
	var c cgotorch.Generator
	check("NewGenerator", cgotorch.NewGenerator(d.code(), seed, &c))
	return newGenerator(c)
}

// DefaultGenerator returns the generator that operators on a device use if none is given. It
// panics if there is no such device.
func DefaultGenerator(d Device) *Generator {
	load("DefaultGenerator")
	var c cgotorch.Generator
	check("DefaultGenerator", cgotorch.DefaultGenerator(d.code(), &c))
	return newGenerator(c)
}

// pointer returns the handle of a generator passed as an argument; nil means the default generator.
func (g *Generator) pointer() cgotorch.Generator {
	if g == nil {
		return nil
	}
	return g.c
}

// ptr returns the handle of a receiver, and panics if it is nil.
func (g *Generator) ptr(op string) cgotorch.Generator {
	if g == nil || g.c == nil {
		panic(&Error{Op: op, Code: ErrUndefined, Msg: "the generator is nil; make one with NewGenerator, or take " +
			"DefaultGenerator"})
	}
	return g.c
}

// Seed restarts the generator with a seed: Generator.manual_seed.
func (g *Generator) Seed(seed uint64) {
	check("Generator.Seed", cgotorch.GeneratorSeed(g.ptr("Generator.Seed"), seed))
	runtime.KeepAlive(g)
}

// State returns the state of the stream, as the bytes of Generator.get_state.
func (g *Generator) State() []byte {
	var out cgotorch.Tensor
	code := cgotorch.GeneratorState(g.ptr("Generator.State"), &out)
	check("Generator.State", code)
	runtime.KeepAlive(g)
	t := wrap(out, code)
	defer t.Free()
	return t.Bytes()
}

// SetState restores a state returned by State. It panics if the bytes are not a state of this kind
// of generator.
func (g *Generator) SetState(state []byte) {
	t := FromBytes(state, Uint8, int64(len(state)))
	defer t.Free()
	check("Generator.SetState", cgotorch.SetGeneratorState(g.ptr("Generator.SetState"), t.ptr("Generator.SetState")))
	runtime.KeepAlive(g)
	runtime.KeepAlive(t)
}

// ManualSeed seeds the default generators of all devices: torch.manual_seed.
func ManualSeed(seed uint64) {
	load("ManualSeed")
	check("ManualSeed", cgotorch.ManualSeed(seed))
}

// random calls an operator that fills t with random numbers.
func (t Tensor) random(op string, g *Generator, f func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code) Tensor {
	code := f(t.ptr(op), g.pointer())
	if code < 0 {
		fail(op, code, t)
	}
	runtime.KeepAlive(t.h)
	runtime.KeepAlive(g)
	return t
}

// Uniform_ fills t with numbers drawn uniformly from [low, high): Tensor.uniform_. A nil generator
// is the default one. It returns t.
func (t Tensor) Uniform_(low, high float64, g *Generator) Tensor {
	return t.random("Uniform_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.Uniform_(c, low, high, g)
	})
}

// Normal_ fills t with numbers drawn from a normal distribution: Tensor.normal_. A nil generator is
// the default one. It returns t.
func (t Tensor) Normal_(mean, std float64, g *Generator) Tensor {
	return t.random("Normal_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.Normal_(c, mean, std, g)
	})
}

// Bernoulli_ fills t with ones, each with probability p, and zeros: Tensor.bernoulli_. A nil
// generator is the default one. It returns t.
func (t Tensor) Bernoulli_(p float64, g *Generator) Tensor {
	return t.random("Bernoulli_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.Bernoulli_(c, p, g)
	})
}

// Random_ fills t with integers drawn from all those its dtype can hold: Tensor.random_. A nil
// generator is the default one. It returns t.
func (t Tensor) Random_(g *Generator) Tensor {
	return t.random("Random_", g, cgotorch.Random_)
}

// RandomFrom_ fills t with integers drawn uniformly from [low, high): Tensor.random_. A nil
// generator is the default one. It returns t.
func (t Tensor) RandomFrom_(low, high int64, g *Generator) Tensor {
	return t.random("RandomFrom_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.RandomFrom_(c, low, cgotorch.OptionalInt{Value: high, Present: true}, g)
	})
}

// Exponential_ fills t with numbers drawn from the exponential distribution with a given rate:
// Tensor.exponential_. A nil generator is the default one. It returns t.
func (t Tensor) Exponential_(rate float64, g *Generator) Tensor {
	return t.random("Exponential_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.Exponential_(c, rate, g)
	})
}

// LogNormal_ fills t with numbers whose logarithms are drawn from a normal distribution:
// Tensor.log_normal_. A nil generator is the default one. It returns t.
func (t Tensor) LogNormal_(mean, std float64, g *Generator) Tensor {
	return t.random("LogNormal_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.LogNormal_(c, mean, std, g)
	})
}

// Geometric_ fills t with the number of trials up to the first success, each succeeding with
// probability p: Tensor.geometric_. A nil generator is the default one. It returns t.
func (t Tensor) Geometric_(p float64, g *Generator) Tensor {
	return t.random("Geometric_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.Geometric_(c, p, g)
	})
}

// Cauchy_ fills t with numbers drawn from the Cauchy distribution: Tensor.cauchy_. A nil generator
// is the default one. It returns t.
func (t Tensor) Cauchy_(median, sigma float64, g *Generator) Tensor {
	return t.random("Cauchy_", g, func(c cgotorch.Tensor, g cgotorch.Generator) cgotorch.Code {
		return cgotorch.Cauchy_(c, median, sigma, g)
	})
}

// Bernoulli returns ones and zeros; the elements of t are the probabilities of a one:
// torch.bernoulli. A nil generator is the default one.
func (t Tensor) Bernoulli(g *Generator) Tensor {
	defer runtime.KeepAlive(g)
	return t.unary("Bernoulli", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Bernoulli(c, g.pointer(), out)
	})
}

// Poisson returns numbers drawn from Poisson distributions whose rates are the elements of t:
// torch.poisson. A nil generator is the default one.
func (t Tensor) Poisson(g *Generator) Tensor {
	defer runtime.KeepAlive(g)
	return t.unary("Poisson", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Poisson(c, g.pointer(), out)
	})
}

// RandIntLike returns integers drawn uniformly from [low, high), with the shape, dtype and device
// of t: torch.randint_like.
func (t Tensor) RandIntLike(low, high int64) Tensor {
	return t.unary("RandIntLike", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.RandIntLike(c, low, high, none, none, none, out)
	})
}

// Multinomial draws n indices, weighted by the last dimension of t: torch.multinomial. A nil
// generator is the default one.
func (t Tensor) Multinomial(n int64, replacement bool, g *Generator) Tensor {
	defer runtime.KeepAlive(g)
	return t.unary("Multinomial", func(c cgotorch.Tensor, out *cgotorch.Tensor) cgotorch.Code {
		return cgotorch.Multinomial(c, n, replacement, g.pointer(), out)
	})
}
