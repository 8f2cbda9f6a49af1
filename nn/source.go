package nn

import (
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Source is where [LoadStateDict] reads tensors from. [Tensors], [FileSource] and [PickleSource]
// return ready-made ones.
type Source interface {
	// Contents lists the tensors in the source.
	Contents() []TensorInfo
	// Read returns one of these tensors. The caller must not change it, and frees it only if Read
	// made it.
	Read(name string) (torch.Tensor, error)
}

// TensorInfo describes a tensor of a [Source].
type TensorInfo struct {
	Name  string
	Shape []int64
}

// Tensors returns a Source of tensors in memory, such as those [StateDict] returns.
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

// FileSource returns a Source of the tensors in a safetensors file. Tensors are read directly into
// the memory of CPU tensors of the same dtype; otherwise one tensor at a time takes additional
// memory.
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

// readInto is an optional method of a Source that reads a tensor into an existing one.
func (f file) readInto(t torch.Tensor, name string) error { return tensorio.ReadInto(t, f.r, name) }
