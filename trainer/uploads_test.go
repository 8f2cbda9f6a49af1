package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// hub is a Pusher that records what it was given and checks that it exists.
type hub struct {
	mu      sync.Mutex
	uploads []string
	hold    chan struct{} // if set, every upload waits for it
	fail    func(n int) error
}

func (h *hub) Push(ctx context.Context, u checkpoint.Upload) error {
	if h.hold != nil {
		select {
		case <-h.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, err := os.Stat(filepath.Join(u.Folder, "trainer_state.json")); err != nil {
		return fmt.Errorf("nothing to upload: %w", err)
	}
	h.uploads = append(h.uploads, strings.Join([]string{filepath.Base(u.Folder), u.Path, fmt.Sprint(u.ModelOnly),
		u.Message}, "|"))
	if h.fail != nil {
		return h.fail(len(h.uploads))
	}
	return nil
}

func pushing(t *testing.T, h *hub, o trainer.Options) (*trainer.Trainer[int, []int], *trainer.Result) {
	t.Helper()
	o.Pusher, o.OutputDir, o.Progress = h, memoryDir(t), io.Discard
	o.Epochs, o.Save, o.PushAlways = 1, trainer.Every(1, trainer.Update), true
	tr, err := trainer.New(new(trainertest.Step), o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Fit(t.Context(), trainertest.Samples(16), trainertest.Samples(2))
	if err != nil {
		t.Fatal(err)
	}
	return tr, r
}

func TestPushStrategies(t *testing.T) {
	for _, c := range []struct {
		strategy trainer.PushStrategy
		want     []string
	}{
		{trainer.PushEverySave, []string{"checkpoint-1||true|Training in progress, step 1",
			"checkpoint-2||true|Training in progress, step 2"}},
		{trainer.PushAtEnd, []string{"checkpoint-2||true|End of training"}},
		{trainer.PushLastCheckpoint, []string{
			"checkpoint-1||true|Training in progress, step 1", "checkpoint-1|last-checkpoint|false|Training in " +
				"progress, step 1, checkpoint",
			"checkpoint-2||true|Training in progress, step 2", "checkpoint-2|last-checkpoint|false|Training in " +
				"progress, step 2, checkpoint",
		}},
		{trainer.PushAllCheckpoints, []string{
			"checkpoint-1||true|Training in progress, step 1", "checkpoint-1|checkpoint-1|false|Training in " +
				"progress, step 1, checkpoint",
			"checkpoint-2||true|Training in progress, step 2", "checkpoint-2|checkpoint-2|false|Training in " +
				"progress, step 2, checkpoint",
		}},
	} {
		h := new(hub)
		if _, r := pushing(t, h, trainer.Options{PushStrategy: c.strategy}); len(r.Warnings) > 0 ||
			!slices.Equal(h.uploads, c.want) {
			t.Errorf("strategy %d: uploads\n%s\nwant\n%s\nwarnings %q", c.strategy, strings.Join(h.uploads, "\n"),
				strings.Join(c.want, "\n"), r.Warnings)
		}
	}
}

// While an upload is running, rotation does not delete its checkpoint, however long it takes.
func TestAnUploadKeepsItsCheckpoint(t *testing.T) {
	h := &hub{hold: make(chan struct{})}
	release := releaseAtEnd{h.hold}
	_, r := pushing(t, h, trainer.Options{KeepCheckpoints: 1, Callbacks: []any{release}})
	if len(h.uploads) != 2 || len(r.Warnings) != 0 {
		t.Errorf("uploads %q, warnings %q", h.uploads, r.Warnings)
	}
}

type releaseAtEnd struct{ hold chan struct{} }

func (e releaseAtEnd) TrainEnd(*trainer.Run) error { close(e.hold); return nil }

func TestFailedUploadsAreWarnings(t *testing.T) {
	for _, fail := range []func(int) error{func(int) error { return errors.New("no network") },
		func(int) error { panic("no network") }} {
		_, r := pushing(t, &hub{fail: fail}, trainer.Options{})
		if len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "checkpoint-1 could not be uploaded") ||
			!strings.Contains(r.Warnings[1], "no network") {
			t.Errorf("warnings %q", r.Warnings)
		}
	}
}

func TestTheBestModelIsUploadedLast(t *testing.T) {
	h := new(hub)
	losses := []float64{1, 2}
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": losses[n-1]}
	}}
	o := trainer.Options{Pusher: h, OutputDir: memoryDir(t), Epochs: 2, LoadBestAtEnd: true, PushAlways: true,
		Save: trainer.Every(1, trainer.Epoch)}
	if _, err := fitted(t, step, o, 8, trainertest.Samples(2)); err != nil {
		t.Fatal(err)
	}
	want := []string{"checkpoint-1||true|Training in progress, epoch 1", "checkpoint-2||true|Training in progress, " +
		"epoch 2", "checkpoint-1||true|End of training"}
	if !slices.Equal(h.uploads, want) {
		t.Errorf("uploads %q, want %q", h.uploads, want)
	}
}

func TestABusyUploadIsNotQueuedAgain(t *testing.T) {
	h := &hub{hold: make(chan struct{})}
	begins := new(pushBegins)
	o := trainer.Options{Pusher: h, OutputDir: memoryDir(t), Epochs: 1, BatchSize: 2, Save: trainer.Every(1,
		trainer.Update), Callbacks: []any{releaseAtEnd{h.hold}, begins}}
	if _, err := fitted(t, new(trainertest.Step), o, 8, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"checkpoint-1||true|Training in progress, step 1",
		"checkpoint-4||true|Training in progress, step 4"}
	assert.Equal(t, want, h.uploads, "those between are left out, the last one is made up for")
	assert.Equal(t, pushBegins(2), *begins)
}

// releaseAfter releases the uploads when the second checkpoint has been saved.
type releaseAfter struct{ hold chan struct{} }

func (e releaseAfter) AfterSave(_ *trainer.Run, path string) error {
	if filepath.Base(path) == "checkpoint-2" {
		close(e.hold)
	}
	return nil
}

// In Hugging Face's loop all checkpoints but the best are deleted at the end.
func TestAnUploadThatWasLeftOutIsMadeUpForBeforeItsCheckpointIsDeleted(t *testing.T) {
	h := &hub{hold: make(chan struct{})}
	step := &trainertest.Step{EvalMetrics: func(n int, _ []int) trainer.Metrics {
		return trainer.Metrics{"loss": float64(n)}
	}}
	o := trainer.Options{Pusher: h, OutputDir: memoryDir(t), Epochs: 2, LoadBestAtEnd: true, KeepCheckpoints: 1,
		Save: trainer.Every(1, trainer.Epoch), Semantics: semantics.HuggingFace, Callbacks: []any{releaseAfter{h.hold}}}
	r, err := fitted(t, step, o, 8, trainertest.Samples(2))
	require.NoError(t, err)
	assert.Empty(t, r.Warnings)
	assert.Equal(t, []string{"checkpoint-1||true|Training in progress, epoch 1",
		"checkpoint-2||true|Training in progress, epoch 2", "checkpoint-1||true|End of training"}, h.uploads)
	assert.NoDirExists(t, filepath.Join(o.OutputDir, "checkpoint-2"))
}

type pushBegins int

func (p *pushBegins) PushBegin(*trainer.Run) error { *p++; return nil }

func TestAnInterruptedRunDoesNotWaitForItsUploads(t *testing.T) {
	h := &hub{hold: make(chan struct{})} // never released
	ctx, cancel := context.WithCancel(t.Context())
	step := &trainertest.Step{Inject: func(op string, n int) error {
		if op == "train" && n == 3 {
			cancel()
		}
		return nil
	}}
	o := trainer.Options{Pusher: h, OutputDir: memoryDir(t), Epochs: 1, BatchSize: 2, Save: trainer.Every(1,
		trainer.Update), Progress: io.Discard}
	tr, err := trainer.New(step, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Fit(ctx, trainertest.Samples(20), nil); !errors.Is(err, context.Canceled) || len(h.uploads) != 0 {
		t.Errorf("%v, uploads %q", err, h.uploads)
	}
}

func TestPushByHand(t *testing.T) {
	h := new(hub)
	tr, _ := pushing(t, h, trainer.Options{PushStrategy: trainer.PushAtEnd})
	if err := tr.Push(t.Context(), "once more"); err != nil || h.uploads[1] != "checkpoint-2||true|once more" {
		t.Errorf("%v, uploads %q", err, h.uploads)
	}
	h.fail = func(int) error { return errors.New("no network") }
	if err := tr.Push(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no network") {
		t.Errorf("a failed upload by hand: %v", err)
	}
	for _, c := range []struct {
		want string
		o    trainer.Options
	}{
		{"Options.Pusher is nil", trainer.Options{PushStrategy: trainer.PushAtEnd}},
		{"Options.Pusher is *trainer_test.hub", trainer.Options{Pusher: h}},
		{"Options.PushStrategy is 9", trainer.Options{Pusher: h, PushStrategy: 9}},
	} {
		if _, err := trainer.New(new(trainertest.Step), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	bare, err := trainer.New(new(trainertest.Step), trainer.Options{Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Push(t.Context(), ""); err == nil {
		t.Error("Push without a Pusher: no error")
	}
}
