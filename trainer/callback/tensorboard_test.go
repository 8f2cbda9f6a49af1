package callback

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// TestEventsHaveTheBytesOfPyTorchs compares events byte by byte, after the one with the file's
// version, which names the writer.
func TestEventsHaveTheBytesOfPyTorchs(t *testing.T) {
	want, err := os.ReadFile("testdata/events.tfevents") // written by testdata/events.py
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewEventWriter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds float64) {
		w.now = func() time.Time { return time.Unix(int64(seconds), int64((seconds-math.Floor(seconds))*1e9)) }
	}
	at(1700000000.25)
	_ = w.AddScalar("train.loss", 1.5, 3)
	at(1700000001.5)
	_ = w.AddScalar("evaluation.f1", 0.1, 40000)
	at(1700000002)
	_ = w.AddText("args", "hello", 7)
	at(1700000003)
	histogram := func(tag string, step int, values ...float64) {
		h, err := NewHistogram(values)
		require.NoError(t, err)
		require.NoError(t, w.AddHistogram(tag, h, step))
	}
	histogram("weights", 8, 0.5, -0.25, 0.5, 0, 3, 1e30)
	at(1700000004)
	histogram("small", 0, -1e-13, 0)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(w.Name())
	if err != nil {
		t.Fatal(err)
	}
	skip := func(file []byte) []byte { return file[int(file[0])+16:] } // the first event is shorter than 256 bytes
	const numbers = 2*16 + 32 + 37                                     // two frames with their contents
	if !bytes.Equal(skip(got)[:numbers], want[:numbers]) {
		t.Errorf("the events are\n%q, PyTorch writes\n%q", skip(got)[:numbers], want[:numbers])
	}
	behindText := numbers + 16 + int(binary.LittleEndian.Uint64(want[numbers:]))
	if !bytes.HasSuffix(got, want[behindText:]) {
		t.Errorf("the histograms differ from those of PyTorch")
	}
	ours, theirs := readEvents(t, got), readEvents(t, want)
	if diff := cmp.Diff(theirs, ours); diff != "" || len(ours) != 5 {
		t.Errorf("read back, the events differ from PyTorch's (-want +got):\n%s", diff)
	}
}

func readEvents(t *testing.T, file []byte) []Event {
	t.Helper()
	events, err := ReadEvents(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestReadEventsKeepsWhatIsWhole(t *testing.T) {
	file, err := os.ReadFile("testdata/events.tfevents")
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < len(file); cut++ {
		events, err := ReadEvents(bytes.NewReader(file[:cut]))
		if err == nil && cut != len(file) && len(events) == 5 {
			t.Fatalf("%d of %d bytes are taken for the whole file", cut, len(file))
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d bytes: %v", cut, err)
		}
	}
	for i := range file {
		broken := bytes.Clone(file)
		broken[i] ^= 1
		if _, err := ReadEvents(bytes.NewReader(broken)); err == nil {
			t.Fatalf("a flipped bit in byte %d goes unnoticed", i)
		}
	}
}

func TestHistograms(t *testing.T) {
	h, err := NewHistogram([]float64{1, -1, 1})
	require.NoError(t, err)
	assert.Equal(t, []float64{-1, 1, 3, 1, 3}, []float64{h.Min, h.Max, h.Num, h.Sum, h.SumSquares})
	require.Len(t, h.Counts, len(h.Limits))
	assert.EqualValues(t, 0, h.Counts[0], "the bucket that gives the lowest limit")
	assert.EqualValues(t, 1, h.Counts[1], "-1")
	assert.EqualValues(t, 2, h.Counts[len(h.Counts)-1], "1 and 1")
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e19, 1e19), 1, 50).Draw(t, "values")
		h, err := NewHistogram(values)
		require.NoError(t, err)
		total := 0.0
		for _, n := range h.Counts {
			total += n
		}
		require.EqualValues(t, len(values), total)
		require.True(t, slices.IsSorted(h.Limits))
		require.LessOrEqual(t, h.Limits[0], h.Min)
		require.GreaterOrEqual(t, h.Limits[len(h.Limits)-1], h.Max)
	})
	for text, values := range map[string][]float64{
		"want at least one value":               nil,
		"from -1e20 to 1e20":                    {1e21},
		"value 1 is NaN, want a finite number":  {0, math.NaN()},
		"value 0 is -Inf, want a finite number": {math.Inf(-1)},
	} {
		_, err := NewHistogram(values)
		require.ErrorContains(t, err, text)
	}
}

func TestEventWriterRepeatsItsError(t *testing.T) {
	w, err := NewEventWriter(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.file.Close()
	_ = w.AddScalar("a", 1, 1)
	if err := w.Flush(); err == nil {
		t.Error("writing to a closed file succeeds")
	}
	if err := w.AddScalar("a", 1, 2); err == nil {
		t.Error("the error is forgotten")
	}
	if _, err := NewEventWriter(filepath.Join(w.Name(), "below")); err == nil {
		t.Error("a folder in a file is made")
	}
}

func TestTensorBoardTellsTheLog(t *testing.T) {
	dir := t.TempDir()
	tb := &TensorBoard{Dir: dir}
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{Epochs: 1, BatchSize: 1, LearningRate: 0.1,
		Log: trainer.Every(1, trainer.Update), Progress: io.Discard, Callbacks: []any{tb}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(context.Background(), trainertest.Samples(2), trainertest.Samples(1)); err != nil {
		t.Fatal(err)
	}
	tags := tagsIn(t, dir)
	for _, want := range []string{"args/text_summary 0", "train/loss 1", "train/learning_rate 1", "train/loss 2",
		"eval/loss 2", "train/train_loss 2"} {
		if !strings.Contains(tags, want+"\n") {
			t.Errorf("there is no %q in\n%s", want, tags)
		}
	}
	if strings.Contains(tags, "/step ") {
		t.Errorf("the step is written as a number of its own:\n%s", tags)
	}
}

// breaksTheFile is a hook that closes the event file after an update.
type breaksTheFile struct {
	tensorBoard *TensorBoard
	step        int
}

func (b breaksTheFile) AfterUpdate(r *trainer.Run) error {
	if r.Updates == b.step {
		return b.tensorBoard.writer.file.Close()
	}
	return nil
}

func TestARunSurvivesAFileOfEventsThatCannotBeWritten(t *testing.T) {
	tb := &TensorBoard{Dir: t.TempDir()}
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{Epochs: 1, BatchSize: 1,
		Log: trainer.Every(1, trainer.Update), Progress: io.Discard, Callbacks: []any{tb, breaksTheFile{tb, 1}}})
	require.NoError(t, err)
	r, err := tr.Fit(t.Context(), trainertest.Samples(4), nil)
	require.NoError(t, err)
	require.Len(t, r.Warnings, 1)
	assert.Contains(t, r.Warnings[0], "nothing more is written for TensorBoard")
	assert.Contains(t, tagsIn(t, tb.Dir), "train/loss 1\n")
}

// files returns all event files in a folder, oldest first.
func files(t *testing.T, dir string) (list [][]Event) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		list = append(list, readEvents(t, text))
	}
	return list
}

func TestRowsAfterTheRunAreWritten(t *testing.T) {
	t.Setenv("TENSORBOARD_LOGGING_DIR", "")
	dir := t.TempDir()
	tb := &TensorBoard{}
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{Epochs: 1, BatchSize: 1, OutputDir: dir,
		Save: trainer.Never, Progress: io.Discard, Callbacks: []any{tb}})
	require.NoError(t, err)
	_, err = tr.Fit(t.Context(), trainertest.Samples(4), nil)
	require.NoError(t, err)
	folder := tb.folder
	_, err = tr.Evaluate(t.Context(), trainertest.Samples(2))
	require.NoError(t, err)
	assert.Nil(t, tb.writer, "the file is closed")
	found := files(t, folder)
	require.Len(t, found, 2)
	assert.Condition(t, func() bool {
		return slices.ContainsFunc(found[1], func(e Event) bool { return e.Tag == "eval/loss" && e.Step == 4 })
	})
}

// keepsWriters is a hook that keeps the writers of a TensorBoard.
type keepsWriters struct {
	tensorBoard *TensorBoard
	all         *[]*EventWriter
}

func (k keepsWriters) TrainBegin(*trainer.Run) error {
	*k.all = append(*k.all, k.tensorBoard.writer)
	return nil
}

func TestARunThatBeginsAgainClosesItsFile(t *testing.T) {
	tb := &TensorBoard{Dir: t.TempDir()}
	step := &trainertest.Step{Inject: func(op string, n int) error {
		if op == "train" && n == 1 {
			return trainertest.ErrOutOfMemory
		}
		return nil
	}}
	var all []*EventWriter
	tr, err := trainer.New(step, trainer.Options{Epochs: 1, BatchSize: 4, AutoFindBatchSize: true,
		Progress: io.Discard, Callbacks: []any{tb, keepsWriters{tb, &all}}})
	require.NoError(t, err)
	_, err = tr.Fit(t.Context(), trainertest.Samples(4), nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, w := range all {
		assert.ErrorIs(t, w.file.Close(), os.ErrClosed)
	}
}

func tagsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("there are %d files of events (%v), want 1", len(files), err)
	}
	file, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range readEvents(t, file) {
		fmt.Fprintf(&b, "%s %d\n", e.Tag, e.Step)
	}
	return b.String()
}

func TestTensorBoardNeedsAFolder(t *testing.T) {
	t.Setenv("TENSORBOARD_LOGGING_DIR", "")
	fit := func(o trainer.Options) error {
		o.Epochs, o.Progress, o.LearningRate = 1, io.Discard, 0.1
		tr, err := trainer.New(new(trainertest.Step), o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = tr.Fit(context.Background(), trainertest.Samples(1), nil)
		return err
	}
	if err := fit(trainer.Options{Callbacks: []any{&TensorBoard{}}}); err == nil || !strings.Contains(err.Error(),
		"OutputDir") {
		t.Errorf("a run without folder: %v", err)
	}
	dir := t.TempDir()
	if err := fit(trainer.Options{OutputDir: dir, Save: trainer.Never, Callbacks: []any{&TensorBoard{}}}); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "events.*")); len(found) != 1 {
		t.Errorf("the events are not in runs/: %v", found)
	}
}

func FuzzReadEvents(f *testing.F) {
	file, err := os.ReadFile("testdata/events.tfevents")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(file[40:])
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ReadEvents(bytes.NewReader(data))
		_, _ = parseEvent(data) // past the checksums, which a fuzzer does not find
	})
}
