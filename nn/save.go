package nn

import (
	"fmt"
	"io"
	"maps"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Save writes the parameters and persistent buffers of a module to a safetensors file that PyTorch
// and Hugging Face read: safetensors.torch.save_model. The file is whole or not there at any
// instant. A tensor with several names is written once, under the alphabetically first; the
// metadata say so for the others. Metadata format: pt is added, without which transformers refuses
// a file.
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

// Write writes what [Save] writes to w, and does no more than that: for the file of a folder that
// is flushed to the disk as a whole, as a checkpoint is, and for an upload.
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

// contents are the entries and metadata of a module's file.
func contents(op string, m any, metadata map[string]string) ([]safetensors.Entry, map[string]string, error) {
	meta := map[string]string{"format": "pt"}
	var entries []safetensors.Entry
	err := torch.Try(func() {
		kept, aliases := untie(StateDict(m))
		maps.Copy(meta, aliases)
		var err error
		if entries, err = tensorio.Entries(kept); err != nil {
			panic(torch.Errorf("nn."+op, torch.ErrType, "%v", err))
		}
	})
	maps.Copy(meta, metadata)
	return entries, meta, err
}

// untie keeps each tensor under the first of its names; aliases gives that name for the others.
func untie(ts []torch.Named) (kept []torch.Named, aliases map[string]string) {
	first := map[torch.Tensor]string{}
	for _, t := range ts {
		if name, ok := first[t.Tensor]; !ok || t.Name < name {
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
