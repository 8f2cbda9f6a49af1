package pymarlin_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestCheckpointsAreWrittenByThePeriod(t *testing.T) {
	for _, c := range []struct {
		claim string
		args  pymarlin.CheckpointerArguments
		want  []string
	}{
		{"each epoch and the model", pymarlin.CheckpointerArguments{}, []string{"model_0.pt", "model_1.pt",
			"model_2.pt", "model_3.pt", "model_model_3.pt"}},
		{"every second epoch and the last", pymarlin.CheckpointerArguments{Period: 2}, []string{"model_0.pt",
			"model_2.pt", "model_3.pt", "model_model_3.pt"}},
		{"other names, no model", pymarlin.CheckpointerArguments{Period: 9, FilePrefix: "net", FileExt: ".ckpt",
			NoModelState: true}, []string{"net_0.ckpt", "net_3.ckpt"}},
		{"safetensors", pymarlin.CheckpointerArguments{Period: 9, FileExt: "safetensors"},
			[]string{"model_0.safetensors", "model_3.safetensors", "model_model_3.safetensors"}},
		{"nothing", pymarlin.CheckpointerArguments{NoCheckpoint: true}, nil},
	} {
		dir := t.TempDir()
		c.args.SaveDir, c.args.ModelStateSaveDir = filepath.Join(dir, "out"), filepath.Join(dir, "out")
		n := newNet(2)
		n.plain = true
		train(t, n, pymarlin.TrainerArguments{Epochs: 4, CheckpointerArgs: c.args}, nil)
		if got := files(t, c.args.SaveDir); !slices.Equal(got, c.want) {
			t.Errorf("%s: the files are %v, want %v", c.claim, got, c.want)
		}
	}
}

func TestOldCheckpointsAreDeletedWhereTheArgumentsSay(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"model_7.pt", "notes.txt", "script.xpt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub.pt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := pymarlin.NewDefaultCheckpointer(pymarlin.CheckpointerArguments{SaveDir: dir,
		DeleteExistingCheckpoints: true}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"notes.txt", "script.xpt", "sub.pt"}) {
		t.Errorf("left are %v", got)
	}
}

func TestLatestFileIsTheHighestNumberOfItsName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"model_2.pt", "run99/model_10.pt", "model_model_50.pt", "model_11.txt", "other_12.pt",
		"model_x.pt"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := pymarlin.LatestFile(dir, "model", "pt")
	if want := filepath.Join(dir, "run99", "model_10.pt"); got != want || err != nil {
		t.Errorf("LatestFile = %s, %v, want %s", got, err, want)
	}
	if got, err := pymarlin.LatestFile(filepath.Join(dir, "none"), "model", "pt"); got != "" || err != nil {
		t.Errorf("LatestFile without a folder = %q, %v", got, err)
	}
}

func TestDamagedCheckpointIsPassedOver(t *testing.T) {
	testenv.RequireTorch(t)
	for _, ext := range []string{"pt", "safetensors"} {
		dir := t.TempDir()
		args := pymarlin.TrainerArguments{Epochs: 2, CheckpointerArgs: pymarlin.CheckpointerArguments{SaveDir: dir,
			NoModelState: true, FileExt: ext}}
		train(t, newNet(2), args, nil)
		newest := filepath.Join(dir, "model_1."+ext)
		whole, err := os.ReadFile(newest)
		if err != nil {
			t.Fatal(err)
		}
		load := func() (int, error) {
			c, err := pymarlin.NewDefaultCheckpointer(pymarlin.CheckpointerArguments{LoadDir: dir, FileExt: ext},
				slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := c.Load()
			last, _ := loaded.TrainerState["last_epoch"].(int)
			return last, err
		}
		if last, err := load(); last != 1 || err != nil {
			t.Errorf("%s: whole: epoch %d, %v", ext, last, err)
		}
		if err := os.WriteFile(newest, whole[:len(whole)/2], 0o600); err != nil {
			t.Fatal(err)
		}
		if last, err := load(); last != 0 || err != nil {
			t.Errorf("%s: cut in half: epoch %d, %v; want that before, 0", ext, last, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "model_0."+ext), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(); err == nil || !strings.Contains(err.Error(), "none of the 2 checkpoints") {
			t.Errorf("%s: all damaged: %v", ext, err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	args := pymarlin.TrainerArguments{CheckpointerArgs: pymarlin.CheckpointerArguments{SaveDir: dir,
		ModelStateSaveDir: dir}}
	train(t, newNet(2), args, nil)
	for _, c := range []struct {
		claim, file string
		plain       bool
		want        string
	}{
		{"a file that is named and missing", "model_7.pt", false, "no such file"},
		{"the file of the model alone", "model_model_0.pt", false, "is no checkpoint"},
		{"a checkpoint of other optimizers", "model_0.pt", true, "2 optimizers, and the module has 1"},
	} {
		n := newNet(2)
		n.plain = c.plain
		_, err := pymarlin.New(pymarlin.ModuleInterface[batch](n),
			quiet(pymarlin.TrainerArguments{CheckpointerArgs: pymarlin.CheckpointerArguments{LoadDir: dir,
				LoadFilename: c.file, NoCheckpoint: true}}), options())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %q in it", c.claim, err, c.want)
		}
	}
	other := newNet(2)
	_, err := pymarlin.New(pymarlin.ModuleInterface[batch](other),
		quiet(pymarlin.TrainerArguments{CheckpointerArgs: pymarlin.CheckpointerArguments{LoadDir: filepath.Join(dir,
			"none"), NoCheckpoint: true}}), options())
	if err != nil {
		t.Errorf("a folder without checkpoints: %v, want a fresh start", err)
	}
}

// extra counts saves and loads.
type extra struct{ number int }

func (e *extra) GetState() (pymarlin.State, error) { return pymarlin.State{"my_number": e.number}, nil }
func (e *extra) UpdateState(s pymarlin.State) error {
	e.number, _ = s["my_number"].(int)
	return nil
}

func TestExtraStateGoesWithTheCheckpoint(t *testing.T) {
	dir := t.TempDir()
	args := pymarlin.TrainerArguments{CheckpointerArgs: pymarlin.CheckpointerArguments{SaveDir: dir,
		NoModelState: true}}
	o := options()
	o.Extra = &extra{42}
	train(t, newNet(2), args, o)
	read := &extra{}
	o.Extra, args.CheckpointerArgs.LoadDir = read, dir
	train(t, newNet(2), args, o)
	if read.number != 42 {
		t.Errorf("the number came back as %d, want 42", read.number)
	}
}

// state generates states without tensors that contain only comparable values.
func state(depth int) *rapid.Generator[any] {
	leaf := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.IntRange(-1<<53, 1<<53).AsAny(),
		rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) }).AsAny(), rapid.String().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(leaf...)
	}
	inner := state(depth - 1)
	lists := rapid.Map(rapid.SliceOfN(inner, 0, 3), func(l []any) any { return append([]any{}, l...) })
	dicts := rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z_]{1,8}`), inner, 0, 3), func(m map[string]any) any {
		return pymarlin.State(m)
	})
	numbered := rapid.Map(rapid.MapOfN(rapid.IntRange(0, 99), inner, 1, 3), func(m map[int]any) any { return m })
	return rapid.OneOf(append(leaf, lists, dicts, numbered)...)
}

func TestStatesSurviveFiles(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		want := pymarlin.State{"all": state(3).Draw(rt, "state"), "tensor": torch.From([]int64{1, 2, 3}, 3)}
		for _, ext := range []string{"pt", "safetensors"} {
			path := filepath.Join(dir, "s."+ext)
			if err := pymarlin.WriteState(path, want); err != nil {
				rt.Fatal(err)
			}
			got, err := pymarlin.ReadState(path)
			if err != nil {
				rt.Fatal(err)
			}
			tensor, ok := got["tensor"].(torch.Tensor)
			if !ok || !slices.Equal(torch.Values[int64](tensor), []int64{1, 2, 3}) {
				rt.Fatalf("%s: the tensor is %v", ext, got["tensor"])
			}
			if !same(got["all"], want["all"]) {
				rt.Fatalf("%s: read %#v, wrote %#v", ext, got["all"], want["all"])
			}
		}
	})
}

func same(a, b any) bool {
	switch b := b.(type) {
	case pymarlin.State:
		x, ok := a.(pymarlin.State)
		for k := range b {
			ok = ok && same(x[k], b[k])
		}
		return ok && len(x) == len(b)
	case map[int]any:
		x, ok := a.(map[int]any)
		for k := range b {
			ok = ok && same(x[k], b[k])
		}
		return ok && len(x) == len(b)
	case []any:
		x, ok := a.([]any)
		return ok && slices.EqualFunc(x, b, same)
	}
	return a == b
}

func TestStatesOfOtherThingsAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for _, ext := range []string{"pt", "safetensors"} {
		err := pymarlin.WriteState(filepath.Join(t.TempDir(), "s."+ext),
			pymarlin.State{"a": pymarlin.State{"b": struct{}{}}})
		if err == nil || !strings.Contains(err.Error(), "a.b is a struct {}") {
			t.Errorf("%s: %v", ext, err)
		}
	}
}

func FuzzReadState(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // also of its workers, which may be killed
	dir := f.TempDir()
	for _, ext := range []string{"pt", "safetensors"} {
		path := filepath.Join(dir, "seed."+ext)
		if err := pymarlin.WriteState(path, pymarlin.State{"a": 1, "b": []any{1.5, "x", nil},
			"c": map[int]any{3: true}}); err != nil {
			f.Skip(err)
		}
		seed, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed, ext == "pt")
	}
	f.Fuzz(func(t *testing.T, raw []byte, zip bool) {
		ext := "safetensors"
		if zip {
			ext = "pt"
		}
		path := filepath.Join(t.TempDir(), "x."+ext)
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := pymarlin.ReadState(path)
		if err != nil {
			return
		}
		if err := pymarlin.WriteState(filepath.Join(t.TempDir(), "y."+ext), s); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
	})
}
