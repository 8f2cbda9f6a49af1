package modeltest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
)

// Saver is a model that can be saved to a folder.
type Saver interface{ Save(dir string) error }

// ConfigFolder returns a folder that contains only the given config.json.
func ConfigFolder(t *testing.T, config map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// SavedModelLoads saves a model, loads it and saves it again. All bits and both folders must be the
// same, and loading must not draw numbers.
func SavedModelLoads[M Saver](t *testing.T, m M, load func(dir string) (M, *pretrained.Report, error)) {
	t.Helper()
	first, second := t.TempDir(), t.TempDir()
	if err := m.Save(first); err != nil {
		t.Fatal(err)
	}
	before := Generator()
	again, report, err := load(first)
	if err != nil {
		t.Fatal(err)
	}
	if Generator() != before {
		t.Error("loading a whole model used random numbers up")
	}
	if len(report.Missing)+len(report.Unexpected)+len(report.Mismatched)+len(report.Initialized)+
		len(report.Renamed) > 0 {
		t.Errorf("the report is not empty:\n%s", report)
	}
	sameState(t, again, m)
	if err := again.Save(second); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"config.json", "model.safetensors"} {
		if diff := cmp.Diff(read(t, first, name), read(t, second, name)); diff != "" {
			t.Errorf("%s, saved, loaded and saved:\n%s", name, diff)
		}
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sameState compares the states of two models bit for bit.
func sameState(t *testing.T, got, want any) {
	t.Helper()
	a, b := nn.StateDict(got), nn.StateDict(want)
	if len(a) != len(b) {
		t.Fatalf("%d tensors, want %d", len(a), len(b))
	}
	for i := range a {
		golden.Bits(t, a[i].Name, a[i].Tensor, b[i].Tensor)
	}
}

// Refuses loads a folder for each setting, whose config.json contains only the model type and the
// setting. The error must contain the wanted words and name the file.
func Refuses(t *testing.T, modelType string, settings map[string]string, load func(dir string) error) {
	t.Helper()
	for setting, want := range settings {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "`+modelType+`", `+setting+
			`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := load(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(),
			"config.json") {
			t.Errorf("%s: error %v, want one with %q and the path", setting, err, want)
		}
	}
}
