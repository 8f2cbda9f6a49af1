package nn

import (
	"fmt"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// PickleSource returns a Source of the tensors in a file written by torch.save. Only one tensor at
// a time is in memory, and no code in the file is run.
func PickleSource(r *pickle.Reader) Source { return pickled{r} }

type pickled struct{ r *pickle.Reader }

func (p pickled) Contents() []TensorInfo {
	var infos []TensorInfo
	for _, t := range p.r.Tensors() {
		infos = append(infos, TensorInfo{t.Name, t.Shape})
	}
	return infos
}

func (p pickled) Read(name string) (t torch.Tensor, err error) {
	info, _ := p.r.Tensor(name) // Read reports a missing tensor
	data, err := p.r.Read(name)
	if err != nil {
		return t, err
	}
	dtype, ok := tensorio.TorchDType(info.DType)
	if !ok {
		return t, fmt.Errorf("tensor %q has dtype %s, which tensors here cannot have", name, info.DType)
	}
	err = torch.Try(func() { t = torch.FromBytes(data, dtype, info.Shape...) })
	return t, err
}
