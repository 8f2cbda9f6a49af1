package pymarlin_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

func fromConfig(t *testing.T, section pymarlin.Config) pymarlin.TrainerArguments {
	t.Helper()
	a, err := pymarlin.TrainerArgumentsFromConfig(section)
	if err != nil {
		t.Fatal(err)
	}
	a.CheckpointerArgs.NoCheckpoint = true
	return quiet(a)
}

func TestValuesThatOnlyPyMarlinTakes(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim   string
		section pymarlin.Config
		refused string
		moves   bool // the weights change
	}{
		{"a norm of 0 makes the gradients 0", pymarlin.Config{"max_grad_norm": 0.0}, "max_grad_norm", false},
		{"a whole 0 too", pymarlin.Config{"max_grad_norm": 0}, "max_grad_norm", false},
		{"a negative norm turns them round", pymarlin.Config{"max_grad_norm": -1.0}, "max_grad_norm", true},
		{"no epoch trains nothing", pymarlin.Config{"epochs": 0}, "epochs is 0", false},
		{"less than none neither", pymarlin.Config{"epochs": -3}, "epochs is -3", false},
	} {
		_, err := pymarlin.New(pymarlin.ModuleInterface[batch](newNet(4)), fromConfig(t, c.section), options())
		if err == nil || !strings.Contains(err.Error(), c.refused) || !errors.Is(err, pymarlin.ErrArgument) {
			t.Errorf("%s: without Exact the error is %v, want ErrArgument and %q", c.claim, err, c.refused)
		}
		n := newNet(4)
		n.plain = true
		before := weights(n)
		o := options()
		o.Exact = true
		trained, err := pymarlin.New(pymarlin.ModuleInterface[batch](n), fromConfig(t, c.section), o)
		if err == nil {
			err = trained.Train(context.Background())
		}
		if err != nil {
			t.Errorf("%s: with Exact: %v", c.claim, err)
		} else if moved := !slices.Equal(before, weights(n)); moved != c.moves {
			t.Errorf("%s: the weights have moved: %v, want %v", c.claim, moved, c.moves)
		}
	}
}

func TestExactCheckpointerFindsFilesAsPyMarlinDoes(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	save := func(path string, s pymarlin.State) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), pymarlin.WriteState(path, s)); err != nil {
			t.Fatal(err)
		}
	}
	checkpoint := func(epoch int) pymarlin.State {
		return pymarlin.State{"module_interface_state": pymarlin.State{},
			"trainer_state": pymarlin.State{"last_epoch": epoch}, "trainer_backend_state": pymarlin.State{}}
	}
	save("one/model_3.pt", checkpoint(3))
	save("one/model_20.pt", checkpoint(20))
	save("one/other_90.pt", checkpoint(90))
	save("one/later/modelling-21.xpt", checkpoint(21))
	save("own/model_3.pt", checkpoint(3))
	save("own/model_model_4.pt", pymarlin.State{"weight": 1})
	save("none/7/model.pt", checkpoint(7))
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "damaged"), 0o700),
		os.WriteFile(filepath.Join(dir, "damaged", "model_1.pt"), []byte("PK"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		claim, dir, file string
		want             int // the epoch; -1: starts from the beginning
		refused          string
	}{
		{"the greatest number, whatever comes between", "one", "", 21, ""},
		{"a file that is named", "one", "model_3.pt", 3, ""},
		{"a number of the folder", "none", "", 7, ""},
		{"a missing file begins again", "one", "model_4.pt", -1, ""},
		{"a missing folder begins again", "nowhere", "", -1, ""},
		{"the file of the model alone", "own", "", 0, "is no checkpoint"},
		{"a damaged file", "damaged", "", 0, "model_1.pt"},
	} {
		keeper, err := pymarlin.NewDefaultCheckpointer(pymarlin.CheckpointerArguments{LoadDir: filepath.Join(dir,
			c.dir), LoadFilename: c.file, Exact: true}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := keeper.Load()
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: the error is %v, want %q in it", c.claim, err, c.refused)
			}
			continue
		}
		epoch, ok := loaded.TrainerState["last_epoch"].(int)
		if !ok {
			epoch = -1
		}
		if err != nil || epoch != c.want {
			t.Errorf("%s: epoch %d, %v; want %d", c.claim, epoch, err, c.want)
		}
	}
}

func TestExactCheckpointerDeletesByTheEndOfTheName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"model_7.pt", "notes.txt", "script.xpt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pymarlin.NewDefaultCheckpointer(pymarlin.CheckpointerArguments{SaveDir: dir,
		DeleteExistingCheckpoints: true, Exact: true}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"notes.txt"}) {
		t.Errorf("left are %v", got)
	}
}
