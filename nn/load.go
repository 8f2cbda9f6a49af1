package nn

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// LoadOptions configures [Load] and [LoadStateDict]. The zero value requires source and module to
// match exactly: strict=True.
type LoadOptions struct {
	IgnoreMissing    bool // tensors of the module that are missing in the source keep their values
	IgnoreUnexpected bool // tensors of the source that are not in the module are skipped
	IgnoreMismatched bool // tensors whose shapes differ keep their values: Hugging Face's ignore_mismatched_sizes

	// Rename returns the module's name for a name of the source, or the empty string to skip the
	// tensor. Nil keeps all names.
	Rename func(name string) string

	// Take may load a tensor of the module itself, from what read returns, and reports whether it
	// did. It is called from one goroutine. An error ends the load. Nil means that it takes none.
	Take func(name string, read func() (torch.Tensor, error)) (taken bool, err error)
}

// Load loads a module's weights from a file written by PyTorch, Hugging Face or [Save]. A file
// whose name ends in .bin, .pt, .pth or .ckpt is read as one of torch.save, any other as
// safetensors. The tensors must have the module's names; see [LoadOptions].Rename and
// [LoadStateDict].
func Load(path string, m any, o LoadOptions) (*Report, error) {
	source, closer, err := openWeights(path)
	if err != nil {
		return nil, fmt.Errorf("nn: load: %w", err)
	}
	defer func() { _ = closer.Close() }()
	report, err := LoadStateDict(m, source, o)
	if err != nil {
		return report, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

// LoadTensors is like [Load] but loads into tensors given by their names in the file. They need
// not belong to a module.
func LoadTensors(path string, tensors []torch.Named, o LoadOptions) (*Report, error) {
	return Load(path, &tensorList{tensors}, o)
}

// tensorList is a module that consists of tensors.
type tensorList struct{ tensors []torch.Named }

func (l *tensorList) OwnParams() []torch.Named { return l.tensors }

// openWeights chooses the format by the file's extension. A safetensors file has no magic number:
// it begins with the length of its header.
func openWeights(path string) (Source, io.Closer, error) {
	switch filepath.Ext(path) {
	case ".bin", ".pt", ".pth", ".ckpt":
		f, err := pickle.Open(path)
		if err != nil {
			return nil, nil, err
		}
		return PickleSource(f.Reader), f, nil
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return FileSource(f.Reader), f, nil
}

// LoadStateDict copies the tensors of a source into the parameters and persistent buffers of the
// same names, converting dtype and device: Module.load_state_dict. The source of a [FileForm] may
// have the form of files or that of memory. Names and shapes are checked
// first. If they do not match and the options do not allow it, no tensor is changed and the error
// is a [*LoadError]. The report says what was loaded and what was not. If reading the source
// fails, the error says so; in that case some of the other tensors may have been loaded, and the
// one being read may be loaded in part.
func LoadStateDict(m any, source Source, o LoadOptions) (*Report, error) {
	var report *Report
	var load []pair
	if err := torch.Try(func() { report, load = match(stateFor(m, source, o), source, o) }); err != nil {
		return nil, err
	}
	if err := report.reject(o); err != nil {
		return report, err
	}
	goroutines := 1
	if o.Take == nil {
		goroutines = readers(source, load)
	}
	err := tensorio.Each(goroutines, len(load), func(i int) (err error) {
		p, taken := load[i], false
		if o.Take != nil {
			taken, err = o.Take(p.own, func() (torch.Tensor, error) { return source.Read(p.name) })
		}
		if err == nil && !taken {
			err = p.copy(source)
		}
		if err != nil {
			return fmt.Errorf("nn: tensor %q could not be read, and others may not be loaded either: %w", p.name, err)
		}
		return nil
	})
	if err != nil {
		return report, err
	}
	for _, n := range Modules(m) {
		if l, ok := n.Module.(StateLoader); ok {
			if err := l.StateLoaded(); err != nil {
				return report, fmt.Errorf("nn: %s: %w", n.Name, err)
			}
		}
	}
	return report, nil
}

// StateLoader is a module that needs to know when tensors of its state have been loaded.
type StateLoader interface{ StateLoaded() error }

// readers returns how many goroutines read from a source: only one if concurrent reading is not
// known to be safe, or if tensors have to be converted, because the copies would then be in memory
// at the same time.
func readers(source Source, load []pair) int {
	f, ok := source.(file)
	if !ok {
		return 1
	}
	size := int64(0)
	taken := map[torch.Tensor]bool{} // a file may contain a tied tensor under both names
	for _, p := range load {
		info, _ := f.r.Tensor(p.name)
		if taken[p.to] || !tensorio.InPlace(p.to, info) {
			return 1
		}
		taken[p.to] = true
		size += info.Size
	}
	return tensorio.Readers(size)
}

// pair is a tensor to load: its name in the source, its name in the module, and its destination.
type pair struct {
	name, own string
	to        torch.Tensor
}

func (p pair) copy(source Source) error {
	var err error
	failed := torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func() { // frees the tensors that Read makes, but no others
				if s, ok := source.(interface {
					readInto(t torch.Tensor, name string) error
				}); ok {
					err = s.readInto(p.to, p.name)
					return
				}
				var t torch.Tensor
				if t, err = source.Read(p.name); err == nil {
					p.to.Copy_(t)
				}
			})
		})
	})
	if err != nil {
		return err
	}
	return failed
}

// stateFor returns the state of a module in the form that the source has: that of files, unless the
// source has tensors under names that the state has in memory only.
func stateFor(m any, source Source, o LoadOptions) []entry {
	own := state(m)
	f, ok := m.(FileForm)
	if !ok {
		return own
	}
	inMemory := map[string]entry{}
	named := make([]torch.Named, len(own))
	for i, e := range own {
		named[i], inMemory[e.Name] = e.Named, e
	}
	var inFiles []entry
	for _, t := range f.InFiles(named) {
		e := inMemory[t.Name]
		delete(inMemory, t.Name)
		inFiles = append(inFiles, entry{t, false, e.optional})
	}
	for _, info := range source.Contents() {
		name := info.Name
		if o.Rename != nil {
			name = o.Rename(name)
		}
		if _, only := inMemory[name]; only {
			return own
		}
	}
	return inFiles
}

// match compares a module's state with the contents of a source. The report is in the module's
// order. The pairs are in the source's order, which is the fastest to read a file in.
func match(entries []entry, source Source, o LoadOptions) (*Report, []pair) {
	report := &Report{}
	var pairs []pair
	known := map[string]entry{}
	for _, e := range entries {
		known[e.Name] = e
	}
	found := map[string]TensorInfo{} // by name in the module
	satisfied := map[torch.Tensor]bool{}
	for _, info := range source.Contents() {
		name := info.Name
		if o.Rename != nil {
			if name = o.Rename(info.Name); name == "" {
				continue
			}
		}
		if other, twice := found[name]; twice {
			panic(torch.Errorf("nn.LoadStateDict", torch.ErrValue, "the source's tensors %q and %q both have the "+
				"name %q in "+
				"the module; check Rename", other.Name, info.Name, name))
		}
		found[name] = info
		e, ok := known[name]
		if !ok {
			report.Unexpected = append(report.Unexpected, info)
			continue
		}
		satisfied[e.Tensor] = true
		if slices.Equal(e.Tensor.Shape(), info.Shape) {
			pairs = append(pairs, pair{info.Name, name, e.Tensor})
		}
	}
	for _, e := range entries {
		info, ok := found[e.Name]
		want := e.Tensor.Shape()
		switch {
		case ok && slices.Equal(want, info.Shape):
			report.Loaded = append(report.Loaded, e.Name)
		case ok:
			report.Mismatched = append(report.Mismatched, Mismatch{e.Name, want, info.Shape})
		case !e.optional && !satisfied[e.Tensor]: // one name of a tied tensor suffices
			report.Missing = append(report.Missing, TensorInfo{e.Name, want})
		}
	}
	return report, pairs
}
