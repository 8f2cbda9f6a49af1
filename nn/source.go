package nn

import (
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Source is where [LoadStateDict] gets tensors from. Ready-made are [Tensors], [FileSource] and
// [PickleSource].
type Source interface {
	// Contents lists what the source holds.
	Contents() []TensorInfo
	// Read returns one tensor of these. Whoever reads does not change it, and frees it only if Read
	// made it.
	Read(name string) (torch.Tensor, error)
}

// TensorInfo describes a tensor of a [Source].
type TensorInfo struct {
	Name  string
	Shape []int64
}

// Tensors is a Source of tensors in memory, such as what [StateDict] returns.
func Tensors(ts []torch.Named) Source { return memory(ts) }

type memory []torch.Named

func (m memory) Contents() []TensorInfo {
	infos := make([]TensorInfo, len(m))
	for i, t := range m {
		infos[i] = TensorInfo{t.Name, t.Tensor.Shape()}
	}
	return infos
}

func (m memory) Read(name string) (torch.Tensor, error) {
	for _, t := range m {
		if t.Name == name {
			return t.Tensor, nil
		}
	}
	return torch.Tensor{}, torch.Errorf("nn.LoadStateDict", torch.ErrValue, "no tensor %q", name)
}

// FileSource is a Source of the tensors of a safetensors file, which are read straight into the
// memory of CPU tensors of their dtype; else one at a time is in memory besides.
func FileSource(r *safetensors.Reader) Source { return file{r} }

type file struct{ r *safetensors.Reader }

func (f file) Contents() []TensorInfo {
	var infos []TensorInfo
	for _, t := range f.r.Tensors() {
		infos = append(infos, TensorInfo{t.Name, t.Shape})
	}
	return infos
}

func (f file) Read(name string) (torch.Tensor, error) { return tensorio.Read(f.r, name) }

// readInto is what a Source has that can read a tensor without making another.
func (f file) readInto(t torch.Tensor, name string) error { return tensorio.ReadInto(t, f.r, name) }
