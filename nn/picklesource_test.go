package nn_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

func TestWhatTorchSavedLoadsAsItsSafetensors(t *testing.T) {
	testenv.RequireTorch(t)
	pickled, want := newNet(), newNet()
	if _, err := nn.Load("testdata/pickled.safetensors", want, nn.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := nn.Load("testdata/pickled.pt", pickled, nn.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(snapshot(want), snapshot(pickled)); diff != "" {
		t.Errorf("testdata/pickled.pt (-safetensors +pickle):\n%s", diff)
	}
	if len(report.Loaded) != 9 {
		t.Errorf("%d tensors were loaded, want 9", len(report.Loaded))
	}
}

func TestPicklesThatDoNotFitTouchNothing(t *testing.T) {
	testenv.RequireTorch(t)
	saved, err := os.ReadFile("testdata/pickled.pt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for claim, c := range map[string]struct {
		path, want string
		model      any
	}{
		"a file that was cut short": {write("cut.bin", saved[:len(saved)/2]), "cut.bin", newNet()},
		"a file that is no zip": {write("old.pth", []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")),
			"old.pth", newNet()},
		"a file that is not there": {filepath.Join(dir, "none.ckpt"), "none.ckpt", newNet()},
		"weights of another model": {"testdata/pickled.pt", "testdata/pickled.pt",
			nn.Sequential{nn.NewLinear(2, 2, nil)}},
		"a pickle of another ending": {write("weights", saved), "weights", newNet()},
		"safetensors called a pickle": {write("weights.pt", []byte("\x02\x00\x00\x00\x00\x00\x00\x00{}")), "weights.pt",
			newNet()},
	} {
		before := snapshot(c.model)
		_, err := nn.Load(c.path, c.model, nn.LoadOptions{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one that names %s", claim, err, c.want)
		}
		if diff := cmp.Diff(before, snapshot(c.model)); diff != "" {
			t.Errorf("%s has changed the model:\n%s", claim, diff)
		}
	}
	var e *pickle.FormatError
	if _, err := nn.Load(filepath.Join(dir, "old.pth"), newNet(), nn.LoadOptions{}); !errors.As(err, &e) {
		t.Errorf("a file that is no zip: %T, want a *pickle.FormatError in it", err)
	}
}
