package pretrained

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// The names of files with weights, in the order in which transformers looks for them.
const (
	SafetensorsName      = "model.safetensors"
	SafetensorsIndexName = "model.safetensors.index.json"
	PickleName           = "pytorch_model.bin"
	PickleIndexName      = "pytorch_model.bin.index.json"
	HezarName            = "model.pt" // Hezar's, a pickle
)

// Weights are the tensors of a model on disk: an [nn.Source]. Only one tensor at a time is in
// memory.
type Weights struct {
	path   string
	shards []shard
	where  map[string]shard
}

// shard is one of the files.
type shard interface {
	nn.Source
	io.Closer
}

var _ nn.Source = (*Weights)(nil)

// Open opens the weights in dir: model.safetensors or its shards with their index, or the same for
// pytorch_model.bin, or Hezar's model.pt, whichever is found first.
func Open(dir string) (*Weights, error) {
	for _, name := range []string{SafetensorsName, SafetensorsIndexName, PickleName, PickleIndexName, HezarName} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("pretrained: %w", err)
		}
		if strings.HasSuffix(name, ".index.json") {
			return OpenIndex(path)
		}
		return OpenFile(path)
	}
	return nil, fmt.Errorf("pretrained: there are no weights in %s: want %s or %s, or an index of shards of one of "+
		"these: %w", dir, SafetensorsName, PickleName, fs.ErrNotExist)
}

// OpenFile opens one file. If its name ends in .bin, .pt or .pth, it is one written by torch.save;
// otherwise it is safetensors.
func OpenFile(path string) (*Weights, error) {
	w := &Weights{path: path, where: map[string]shard{}}
	s, err := openShard(path)
	if err != nil {
		return nil, err
	}
	w.shards = []shard{s}
	for _, t := range s.Contents() {
		w.where[t.Name] = s
	}
	return w, nil
}

func openShard(path string) (shard, error) {
	switch filepath.Ext(path) {
	case ".bin", ".pt", ".pth":
		return openPickle(path)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("pretrained: %w", err)
	}
	return file{nn.FileSource(f.Reader), f}, nil
}

// file is a safetensors file.
type file struct {
	nn.Source
	io.Closer
}

// index is the content of model.safetensors.index.json or pytorch_model.bin.index.json.
type index struct {
	WeightMap map[string]string `json:"weight_map"` // the file of each tensor
}

// maxIndex is a size limit far above that of any index; an index of 100,000 tensors has 10 MB.
const maxIndex = 16 << 20

// OpenIndex opens the shards listed in an index. They must be in the same folder.
func OpenIndex(path string) (*Weights, error) {
	text, err := regularfile.ReadFile(path, maxIndex)
	if err != nil {
		return nil, fmt.Errorf("pretrained: %w", err)
	}
	var x index
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, fmt.Errorf("pretrained: %s: %w", path, err)
	}
	if len(x.WeightMap) == 0 {
		return nil, fmt.Errorf("pretrained: %s: weight_map names no tensor", path)
	}
	w := &Weights{path: path, where: map[string]shard{}}
	if err := w.openShards(filepath.Dir(path), x.WeightMap); err != nil {
		return nil, errors.Join(fmt.Errorf("pretrained: %s: %w", path, err), w.Close())
	}
	return w, nil
}

// openShards opens each file once and checks that it agrees with the index.
func (w *Weights) openShards(dir string, weightMap map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		file := weightMap[name]
		if file != filepath.Base(file) || file == "." || file == ".." {
			return fmt.Errorf("weight_map puts %s into %q; want the name of a file beside the index", name, file)
		}
	}
	opened := map[string]shard{}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(weightMap))) {
		s, err := openShard(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		w.shards = append(w.shards, s)
		opened[name] = s
		for _, t := range s.Contents() {
			if want, ok := weightMap[t.Name]; !ok || want != name {
				return fmt.Errorf("%s has the tensor %s, which weight_map puts into %q", name, t.Name, want)
			}
			w.where[t.Name] = s
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weightMap)) {
		if w.where[name] == nil {
			return fmt.Errorf("%s does not have the tensor %s, which weight_map puts there", weightMap[name], name)
		}
	}
	return nil
}

// Path returns the path of the file, or index, that was opened.
func (w *Weights) Path() string { return w.path }

// Contents lists the tensors of all files.
func (w *Weights) Contents() []nn.TensorInfo {
	var list []nn.TensorInfo
	for _, s := range w.shards {
		list = append(list, s.Contents()...)
	}
	return list
}

// Read reads a tensor.
func (w *Weights) Read(name string) (torch.Tensor, error) {
	s, ok := w.where[name]
	if !ok {
		return torch.Tensor{}, fmt.Errorf("pretrained: %s has no tensor %q", w.path, name)
	}
	return s.Read(name)
}

// Differ reports whether the weights in dir contain both tensors and they differ.
func Differ(dir, a, b string) (bool, error) {
	w, err := Open(dir)
	if err != nil {
		return false, err
	}
	defer w.Close() //nolint:errcheck // it was only read
	return w.Differ(a, b)
}

// Differ reports whether both tensors exist and differ.
func (w *Weights) Differ(a, b string) (bool, error) {
	if w.where[a] == nil || w.where[b] == nil {
		return false, nil
	}
	same, err := w.equal(a, b)
	return !same, err
}

// equal reports whether two tensors are the same.
func (w *Weights) equal(a, b string) (same bool, err error) {
	x, err := w.Read(a)
	if err != nil {
		return false, err
	}
	defer x.Free()
	y, err := w.Read(b)
	if err != nil {
		return false, err
	}
	defer y.Free()
	err = torch.Try(func() { same = x.Equal(y) })
	return same, err
}

// Close closes the files.
func (w *Weights) Close() error {
	var errs []error
	for _, s := range w.shards {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
