package pretrained

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

func openPickle(path string) (shard, error) {
	f, err := pickle.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pretrained: %w", err)
	}
	return file{nn.PickleSource(f.Reader), f}, nil
}
