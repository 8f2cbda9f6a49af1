package pymarlin_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

func TestStatsAreWrittenWhenTheyAreDue(t *testing.T) {
	testenv.RequireTorch(t)
	var out bytes.Buffer
	w, err := pymarlin.NewStdout(&out, pymarlin.WriterInitArguments{})
	if err != nil {
		t.Fatal(err)
	}
	s := pymarlin.NewStats(pymarlin.StatInitArguments{})
	if err := s.Rebuild(pymarlin.StatInitArguments{LogSteps: 2}, []pymarlin.Writer{w}); err != nil {
		t.Fatal(err)
	}
	s.Update("z", 1, true)
	s.Update("a", 2, true)
	s.UpdateTensor("z", torch.Full(0.25), true) // keeps its position
	s.Update("slow", 3, false)
	s.UpdateMulti("both", map[string]float64{"y": 2, "x": 1}, true)
	for step := 1; step <= 4; step++ {
		if err := s.LogStats(step, step == 3); err != nil {
			t.Fatal(err)
		}
		if step == 2 {
			s.Update("again", 4, true)
		}
	}
	if err := s.LogLongStats(4); err != nil {
		t.Fatal(err)
	}
	if err := s.LogLongStats(5); err != nil {
		t.Fatal(err)
	}
	want := `step = 2, z : 0.25
step = 2, a : 2
step = 2, both : {'x': 1, 'y': 2}
step = 3, again : 4
step = 4, slow : 3
`
	if out.String() != want {
		t.Errorf("written was\n%swant\n%s", &out, want)
	}
}

func TestFilesOfStats(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	t.Setenv("PARENT_OF_LOGS", dir)
	args := pymarlin.WriterInitArguments{TBLogDir: "tb", TBLogPathParentEnv: "PARENT_OF_LOGS", HistogramSteps: 3}
	var writers []pymarlin.Writer
	for _, name := range []string{"tensorboard", "jsonl"} {
		w, err := pymarlin.BuildWriter(name, args)
		if err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	s := pymarlin.NewStats(pymarlin.StatInitArguments{})
	if err := s.Rebuild(pymarlin.StatInitArguments{}, writers); err != nil {
		t.Fatal(err)
	}
	n := newNet(2)
	s.Update("val/f1", 0.5, false)
	s.UpdateMulti("sizes", map[string]float64{"a": 1, "b": 2}, false)
	s.UpdateHistogram("h", []float64{1}, false)
	s.UpdateHistogram("h", []float64{3}, true)
	err := errors.Join(s.LogArgs(map[string]string{"lr": "0.1"}), s.LogLongStats(3), s.LogModel(3, n, true, 1),
		s.LogModel(3, n, false, 1), s.Finish())
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "tb", "stats.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`{"step":0,"key":"args","value":{"lr":"0.1"}}`, `{"step":3,"key":"val/f1","value":0.5}`,
		`{"step":3,"key":"sizes","value":{"a":1,"b":2}}`,
		`{"step":3,"key":"h","value":{"max":3,"mean":2,"min":1,"num":2,"std":1}}`,
		`{"step":3,"key":"weight_norm/in.weight","value":`, `{"step":3,"key":"weight_norm/out.weight","value":`,
	} {
		if got := strings.Split(string(lines), "\n")[i]; !strings.HasPrefix(got, want) {
			t.Errorf("line %d is %s, want %s", i, got, want)
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "tb", "events.out.tfevents.*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the files of events are %v, %v", found, err)
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	events, err := callback.ReadEvents(f)
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, e := range events {
		tags = append(tags, fmt.Sprintf("%s@%d", e.Tag, e.Step))
		if e.Tag == "h" {
			assert.Equal(t, []float64{1, 3, 2}, []float64{e.Histogram.Min, e.Histogram.Max, e.Histogram.Num})
		}
	}
	assert.Equal(t, strings.Fields("lr/text_summary@0 val/f1@3 sizes/a@3 sizes/b@3 h@3 weights/in.weight@3 "+
		"weight_norm/in.weight@3 weights/out.weight@3 weight_norm/out.weight@3"), tags)
}

func TestHistogramsOfTensorboard(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	w, err := pymarlin.NewTensorboard(pymarlin.WriterInitArguments{TBLogDir: dir, HistogramSteps: 2})
	require.NoError(t, err)
	values, bad := torch.From([]float32{1, 2}, 2), torch.From([]float32{1, float32(math.NaN())}, 2)
	require.NoError(t, w.LogModel("one", values, values, 1), "no multiple of HistogramSteps")
	require.NoError(t, w.LogModel("two", values, values, 2))
	require.NoError(t, w.LogModel("bad", values, bad, 4))
	require.NoError(t, w.Close())
	found, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	f, err := os.Open(found[0])
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	events, err := callback.ReadEvents(f)
	require.NoError(t, err)
	var tags []string
	for _, e := range events {
		if e.Histogram != nil {
			tags = append(tags, e.Tag)
		}
	}
	assert.Equal(t, []string{"weights/two", "grads/two", "weights/bad"}, tags)
}

// broken is a writer that fails.
type broken struct{ pymarlin.Writer }

var errDisk = errors.New("the disk is full")

func (broken) LogScalar(string, float64, int) error { return errDisk }
func (broken) Flush() error                         { return nil }
func (broken) Close() error                         { return errDisk }

func TestWriterThatFailsEndsTheRun(t *testing.T) {
	testenv.RequireTorch(t)
	n := newNet(4)
	trainer, err := pymarlin.New(pymarlin.ModuleInterface[batch](n),
		quiet(pymarlin.TrainerArguments{CustomWriters: []pymarlin.Writer{broken{}}}), options())
	if err != nil {
		t.Fatal(err)
	}
	if err := trainer.Train(t.Context()); !errors.Is(err, errDisk) || trainer.GlobalStepsFinished() != 1 {
		t.Errorf("after %d updates: %v", trainer.GlobalStepsFinished(), err)
	}
	if err := trainer.Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close: %v", err)
	}
}

func TestSystemStatsAreAmongTheFrequentOnes(t *testing.T) {
	if _, err := os.Stat("/proc/meminfo"); err != nil {
		t.Skip("this system has no /proc")
	}
	var out bytes.Buffer
	w, err := pymarlin.NewStdout(&out, pymarlin.WriterInitArguments{})
	if err != nil {
		t.Fatal(err)
	}
	s := pymarlin.NewStats(pymarlin.StatInitArguments{})
	if err := errors.Join(s.Rebuild(pymarlin.StatInitArguments{UpdateSystemStats: true}, []pymarlin.Writer{w}),
		s.LogStats(1, false)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"system/RAM/memory_used_pct", "system/RAM/memory_elr_pct", "system/CPU/pct"} {
		if !strings.Contains(out.String(), key) {
			t.Errorf("there is no %s in\n%s", key, &out)
		}
	}
}
