package sharded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/safetensors"
)

// ModelPrefix is the prefix of the names of parameters and buffers, which [Convert] copies. Other
// tensors, such as the states of an optimizer, have other prefixes.
const ModelPrefix = "model."

// Convert turns a sharded checkpoint into a folder that transformers and other programs load: the
// parameters and buffers in a single model.safetensors, which is either complete or not there, and
// the other files of the checkpoint's folder, such as config.json. out is created if necessary; it
// must not be the checkpoint's own folder.
func Convert(folder, out string) error {
	r, err := Open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	var entries []safetensors.Entry
	for _, t := range r.Tensors {
		name, ok := strings.CutPrefix(t.Name, ModelPrefix)
		if !ok {
			continue
		}
		d, _ := safetensors.ParseDType(t.DType)
		entries = append(entries, safetensors.Entry{Name: name, DType: d, Shape: t.Shape, Data: func(w io.Writer) error {
			n, _, err := t.elements()
			if err != nil {
				return err
			}
			return r.ReadRange(t.Name, 0, n, w)
		}})
	}
	if len(entries) == 0 {
		return fmt.Errorf("sharded: %s has no parameters", folder)
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	if same, err := sameFolder(folder, out); err != nil {
		return fmt.Errorf("sharded: %w", err)
	} else if same {
		return fmt.Errorf("sharded: %s is the checkpoint itself; name another folder for the model", out)
	}
	if err := r.copyOthers(out); err != nil {
		return err
	}
	return safetensors.WriteFile(filepath.Join(out, "model.safetensors"), entries, map[string]string{"format": "pt"})
}

// sameFolder reports whether two paths lead to the same folder, perhaps through a link.
func sameFolder(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second), err
}

// manifestName is checkpoint.ManifestName. That file is not copied: it lists the files of the
// checkpoint, so the converted folder would seem damaged.
const manifestName = "MANIFEST.json"

// copyOthers copies the files that are not the checkpoint's own.
func (r *Reader) copyOthers(out string) error {
	own := map[string]bool{IndexName: true, manifestName: true}
	for _, f := range r.Files {
		own[f.Name] = true
	}
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	for _, e := range entries {
		if own[e.Name()] || !e.Type().IsRegular() {
			continue
		}
		if err := copyFile(filepath.Join(r.folder, e.Name()), filepath.Join(out, e.Name())); err != nil {
			return fmt.Errorf("sharded: %w", err)
		}
	}
	return nil
}

// copyFile replaces a file with a copy of another, completely or not at all.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	temp := hidden(to)
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, to)
	}
	if err != nil {
		_ = os.Remove(temp) // the first error counts
	}
	return err
}
