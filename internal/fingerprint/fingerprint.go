// Package fingerprint identifies the numerical results of a machine by a short hash. It computes
// roots, exponentials, products, sums and the like with libtorch, and hashes their bits: two
// machines with the same fingerprint take the same code paths, whatever their CPUs are called.
//
//	here, recorded := fingerprint.Here(), fingerprint.Read("testdata")
//	here.Equal(recorded) // bits can be compared
//	here.Differs(recorded) // "exp lstm sqrt"
//
// scripts/golden/pins.py does the same in Python, and writes the fingerprint next to the golden
// files.
package fingerprint

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FileName is the name of the file with the fingerprint of the machine that wrote a folder of
// golden files.
const FileName = "fingerprint.json"

// Fingerprint maps operations to hashes of their results.
type Fingerprint map[string]string

// Read returns the fingerprint in a folder of golden files. The error is [os.ErrNotExist] if there
// is none.
func Read(dir string) (Fingerprint, error) {
	path := filepath.Join(dir, FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Fingerprint string
		Operations  Fingerprint
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w; make golden writes it", path, err)
	}
	if len(file.Operations) == 0 || file.Fingerprint != file.Operations.String() {
		return nil, fmt.Errorf("%s: the fingerprint %q is not that of its %d operations, %s; make golden writes it",
			path, file.Fingerprint, len(file.Operations), file.Operations)
	}
	return file.Operations, nil
}

// String returns a hash of everything, for humans to compare.
func (f Fingerprint) String() string {
	var text strings.Builder
	for _, name := range f.names() {
		fmt.Fprintf(&text, "%s %s\n", name, f[name])
	}
	return short([]byte(text.String()))
}

// Equal reports whether all operations have the same results.
func (f Fingerprint) Equal(other Fingerprint) bool { return f.String() == other.String() }

// Differs returns the names of the operations with different results.
func (f Fingerprint) Differs(other Fingerprint) string {
	var names []string
	for _, name := range f.names() {
		if f[name] != other[name] {
			names = append(names, name)
		}
	}
	for _, name := range other.names() {
		if _, ok := f[name]; !ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func (f Fingerprint) names() []string {
	var names []string
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func short(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b))[:12] }
