package torchsave

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/internal/mt19937"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// Random holds the states of Python's random and numpy.random, as stored in a file. Nothing here
// draws from them: a checkpoint written by Python keeps them for the Python program that resumes
// it.
type Random struct {
	seed   uint64       // the seed, if there are no states
	python pickle.Tuple // random.getstate()
	numpy  pickle.Tuple // numpy.random.get_state(), with its array as a list
}

// SeedRandom is random.seed(seed) and numpy.random.seed(seed), whose seeds have 32 bits.
func SeedRandom(seed uint64) Random { return Random{seed: seed} }

// seeded returns the states for a seed.
func seeded(seed uint64) Random {
	key := []uint32{uint32(seed)}
	if seed>>32 > 0 {
		key = append(key, uint32(seed>>32))
	}
	words, next := mt19937.NewFromKey(key).State()
	python := make(pickle.Tuple, 0, len(words)+1)
	for _, w := range words {
		python = append(python, int64(w))
	}
	words, index := mt19937.New(uint32(seed)).State()
	numpy := &pickle.List{}
	for _, w := range words {
		numpy.Items = append(numpy.Items, int64(w))
	}
	return Random{python: pickle.Tuple{int64(3), append(python, int64(next)), nil},
		numpy: pickle.Tuple{"MT19937", numpy, int64(index), int64(0), 0.0}}
}

// RandomNames are the keys in a file of random states.
type RandomNames struct{ Python, NumPy, CPU, CUDA string }

// The keys of transformers' rng_state.pth and of accelerate's random_states_0.pkl.
var (
	TransformersRandom = RandomNames{"python", "numpy", "cpu", "cuda"}
	AccelerateRandom   = RandomNames{"random_state", "numpy_random_seed", "torch_manual_seed", "torch_cuda_manual_seed"}
)

// Write writes a file of random states, including those of libtorch's generators on the devices,
// and additional items. Accelerate stores the states of the GPUs as a list.
func (r Random) Write(path string, names RandomNames, devices []torch.Device, items ...any) error {
	if r.python == nil {
		r = seeded(r.seed)
	}
	d := Dict(append(items, names.Python, r.python, names.NumPy, r.numpy)...)
	err := torch.Try(func() {
		for _, device := range devices {
			state := torch.DefaultGenerator(device).State()
			entry := bytesEntry(state)
			switch {
			case device == torch.CPU:
				Set(d, names.CPU, &entry)
			case names == AccelerateRandom:
				Set(d, names.CUDA, &pickle.List{Items: []any{&entry}})
			default:
				Set(d, names.CUDA, &entry)
			}
		}
	})
	if err != nil {
		return err
	}
	return pickle.WriteFile(path, d)
}

// bytesEntry returns an entry for a tensor of bytes.
func bytesEntry(b []byte) safetensors.Entry {
	return safetensors.Entry{DType: safetensors.U8, Shape: []int64{int64(len(b))}, Data: func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}}
}

// ReadRandom reads a file of random states: Python's, and those of libtorch's generators. rest is
// the value without them.
func ReadRandom(path string, names RandomNames) (r Random, generators map[torch.Device][]byte, rest *pickle.Dict,
	err error) {
	f, err := pickle.Open(path)
	if err != nil {
		return r, nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d, ok := f.Value().(*pickle.Dict)
	if !ok {
		return r, nil, nil, fmt.Errorf("it holds a %T, want a dictionary of random states", f.Value())
	}
	if r, err = randomOf(d, names); err != nil {
		return r, nil, nil, err
	}
	generators = map[torch.Device][]byte{}
	for device, name := range map[torch.Device]string{torch.CPU: names.CPU, torch.CUDA(0): names.CUDA} {
		info, ok := f.Tensor(name)
		if !ok { // a list with the states of all GPUs
			info, ok = f.Tensor(Below(name, 0))
			name = Below(name, 0)
		}
		if !ok {
			continue
		}
		if generators[device], err = f.Read(info.Name); err != nil {
			return r, nil, nil, fmt.Errorf("the state %s: %w", name, err)
		}
	}
	if generators[torch.CPU] == nil {
		return r, nil, nil, fmt.Errorf("it has no tensor %q, the state of PyTorch's generator", names.CPU)
	}
	return r, generators, d, nil
}

// GeneratorState returns the state for a device from those of [ReadRandom], or nil if there is none
// for its kind. A state that libtorch does not accept is an error.
func GeneratorState(generators map[torch.Device][]byte, d torch.Device) ([]byte, error) {
	kind := d
	if d != torch.CPU {
		kind = torch.CUDA(0) // a process's single GPU, whatever its index
	}
	state := generators[kind]
	if state == nil {
		return nil, nil
	}
	if err := torch.Try(func() { torch.NewGeneratorOn(d, 0).SetState(state) }); err != nil {
		return nil, fmt.Errorf("it holds no state of a generator of %s: %w", d, err)
	}
	return state, nil
}

// randomOf extracts the states of Python's and NumPy's generators from a file.
func randomOf(d *pickle.Dict, names RandomNames) (r Random, err error) {
	python, _ := d.Get(names.Python)
	numpy, _ := d.Get(names.NumPy)
	var ok1, ok2 bool
	r.python, ok1 = python.(pickle.Tuple)
	state, ok2 := numpy.(pickle.Tuple)
	if !ok1 || !ok2 || len(r.python) != 3 || len(state) != 5 {
		return r, fmt.Errorf("its %s and %s are %T and %T, want random.getstate() and numpy.random.get_state()",
			names.Python, names.NumPy, python, numpy)
	}
	r.numpy = append(pickle.Tuple{}, state...)
	if a, ok := state[1].(*pickle.Array); ok {
		if a.DType != "u4" {
			return r, fmt.Errorf("its %s has words of NumPy's dtype %s, want u4", names.NumPy, a.DType)
		}
		list := &pickle.List{}
		for word := 0; word+4 <= len(a.Data); word += 4 {
			list.Items = append(list.Items, int64(binary.LittleEndian.Uint32(a.Data[word:])))
		}
		r.numpy[1] = list
	}
	return r, nil
}
