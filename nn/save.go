package nn

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Save writes the parameters and persistent buffers of a module to a safetensors file that PyTorch
// and Hugging Face can read: safetensors.torch.save_model. The file is written atomically. A
// tensor with several names is written once, under the alphabetically first one that is not among
// the [TiedWeights]; the metadata record the other names. The metadata entry format: pt is added,
// without which transformers refuses a file. Save refuses a model of which this process holds only
// parts ([LinearParts]).
func Save(path string, m any, metadata map[string]string) error {
	entries, meta, err := contents("Save", m, metadata)
	if err != nil {
		return err
	}
	if err := safetensors.WriteFile(path, entries, meta); err != nil {
		return fmt.Errorf("nn: save: %w", err)
	}
	return nil
}

// TiedWeights is a model that has tensors under several names and says under which of them they
// are not saved: _tied_weights_keys in transformers.
type TiedWeights interface {
	TiedWeights() []string
}

// FileForm is a model whose tensors have another form in files than in memory: the weight
// conversions of transformers 5, for which the files of a mixture of experts have the matrices of
// each expert by themselves. [Save] writes that form; [LoadStateDict] reads both.
type FileForm interface {
	// InFiles returns what a file has, given the tensors of [StateDict] or some of them. It may
	// rename them, or return parts of one in its place. Parts must be views: loading writes into
	// them.
	InFiles(state []torch.Named) []torch.Named
}

// FileState returns what a file has: [StateDict], or its [FileForm] if the model has one.
func FileState(m any) []torch.Named {
	ts := StateDict(m)
	if f, ok := m.(FileForm); ok {
		ts = f.InFiles(ts)
	}
	return ts
}

// Write writes what [Save] writes to w, and does nothing else. Use it for an upload, or for a file
// in a folder that is flushed to disk as a whole, such as a checkpoint.
func Write(w io.Writer, m any, metadata map[string]string) error {
	entries, meta, err := contents("Write", m, metadata)
	if err != nil {
		return err
	}
	if err := safetensors.Write(w, entries, meta); err != nil {
		return fmt.Errorf("nn: write: %w", err)
	}
	return nil
}

// SaveTensors is like [Save] but writes tensors given by name.
func SaveTensors(path string, tensors []torch.Named, metadata map[string]string) error {
	entries, err := entriesOf("SaveTensors", tensors)
	if err != nil {
		return err
	}
	if err := safetensors.WriteFile(path, entries, metadata); err != nil {
		return fmt.Errorf("nn: save: %w", err)
	}
	return nil
}

// Saved returns what [Save] writes: each tensor once, under the name it is saved under, and the
// metadata. It is for code that copies a state before writing it.
func Saved(m any) (tensors []torch.Named, metadata map[string]string, err error) {
	metadata = map[string]string{"format": "pt"}
	err = torch.Try(func() {
		if parts := LinearParts(m); len(parts) > 0 {
			panic(torch.Errorf("nn.Save", torch.ErrInvalid, "only parts of the model are here (%s), and a file is that of the "+
				"whole: Summon of package dist/tensor comes first", parts[0]))
		}
		var tied []string
		if t, ok := m.(TiedWeights); ok {
			tied = t.TiedWeights()
		}
		kept, aliases := untie(FileState(m), tied)
		tensors = kept
		maps.Copy(metadata, aliases)
	})
	return tensors, metadata, err
}

// contents returns the entries and the metadata of a module's file.
func contents(op string, m any, metadata map[string]string) ([]safetensors.Entry, map[string]string, error) {
	kept, meta, err := Saved(m)
	if err != nil {
		return nil, nil, err
	}
	entries, err := entriesOf(op, kept)
	maps.Copy(meta, metadata)
	return entries, meta, err
}

func entriesOf(op string, tensors []torch.Named) ([]safetensors.Entry, error) {
	entries, err := tensorio.Entries(tensors)
	if err != nil {
		return nil, torch.Errorf("nn."+op, torch.ErrType, "%v", err)
	}
	return entries, nil
}

// untie keeps each tensor under the first of its names; names in tied come after all others.
// aliases maps the other names to that one.
func untie(ts []torch.Named, tied []string) (kept []torch.Named, aliases map[string]string) {
	first := map[torch.Tensor]string{}
	before := func(a, b string) bool {
		if x, y := slices.Contains(tied, a), slices.Contains(tied, b); x != y {
			return y
		}
		return a < b
	}
	for _, t := range ts {
		if name, ok := first[t.Tensor]; !ok || before(t.Name, name) {
			first[t.Tensor] = t.Name
		}
	}
	aliases = map[string]string{}
	for _, t := range ts {
		if name := first[t.Tensor]; name == t.Name {
			kept = append(kept, t)
		} else {
			aliases[t.Name] = name
		}
	}
	return kept, aliases
}
