package hub_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// By default the repository is named after the output folder, is in the namespace of the token's
// user, and has a card.
func TestPusherWithoutANameTakesThatOfTheOutputFolder(t *testing.T) {
	w := newWorld(t)
	run, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{
		OutputDir: filepath.Join(t.TempDir(), "bert-mrpc"), MaxSteps: 2, BatchSize: 4, Progress: io.Discard,
		Pusher: &hub.Pusher{Client: w.client}})
	require.NoError(t, err)
	result, err := run.Fit(w.ctx, trainertest.Samples(8), nil)
	require.NoError(t, err)
	assert.Empty(t, result.Warnings)
	card := string(w.Files(hubtest.Model, "me/bert-mrpc", "main")["README.md"])
	assert.Contains(t, card, "# bert-mrpc\n")
	assert.Contains(t, card, "- learning_rate: 5e-05\n- train_batch_size: 4\n- eval_batch_size: 8\n- seed: 42\n"+
		"- lr_scheduler_type: Linear\n- training_steps: 2\n")
}

// A folder is uploaded to the repository of its own run, not of the run that started last.
func TestAPusherServesTwoRuns(t *testing.T) {
	w := newWorld(t)
	p := &hub.Pusher{Client: w.client}
	runs := map[string]*trainer.Trainer[int, []int]{}
	for i, name := range []string{"a", "b"} {
		run, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{
			OutputDir: filepath.Join(t.TempDir(), name), MaxSteps: 2, BatchSize: 4 - i, Progress: io.Discard, Pusher: p})
		require.NoError(t, err)
		_, err = run.Fit(w.ctx, trainertest.Samples(8), nil)
		require.NoError(t, err)
		runs[name] = run
	}
	before := w.Log(hubtest.Model, "me/b", "main")
	require.NoError(t, runs["a"].Push(w.ctx, "again"))
	assert.Equal(t, before, w.Log(hubtest.Model, "me/b", "main"))
	assert.Contains(t, string(w.Files(hubtest.Model, "me/a", "main")["README.md"]), "- train_batch_size: 4\n")
	assert.Contains(t, string(w.Files(hubtest.Model, "me/b", "main")["README.md"]), "- train_batch_size: 3\n")

	dir := write(t, t.TempDir(), map[string][]byte{"config.json": []byte("{}")})
	assert.ErrorContains(t, p.Push(w.ctx, checkpoint.Upload{Folder: dir, ModelOnly: true}), "2 runs have started")
}

func TestPusherKeepsTheCardOfTheFolder(t *testing.T) {
	for _, none := range []bool{false, true} {
		w := newWorld(t)
		dir := write(t, filepath.Join(t.TempDir(), "checkpoint-2"), map[string][]byte{"config.json": []byte("{}")})
		want := map[string][]byte{"config.json": []byte("{}")}
		if !none {
			want["README.md"] = []byte("# mine\n")
			write(t, dir, want)
		}
		p := &hub.Pusher{Client: w.client, Repo: "me/run", NoCard: none}
		require.NoError(t, p.Start(w.ctx, checkpoint.UploadRun{OutputDir: filepath.Dir(dir)}))
		require.NoError(t, p.Push(w.ctx, checkpoint.Upload{Folder: dir, ModelOnly: true}))
		remote(t, w, "me/run", "main", want)
	}
}

func TestPusherRefusesAtTheStart(t *testing.T) {
	for claim, c := range map[string]struct {
		change func(w *world, p *hub.Pusher)
		dir    string
		want   error
		text   string
	}{
		"no token": {func(w *world, _ *hub.Pusher) { w.client.Token, w.client.Anonymous = hub.Secret{}, true },
			"run", hub.ErrUnauthorized, "set HF_TOKEN or call Login"},
		"a wrong token": {func(w *world, _ *hub.Pusher) { w.client.Token = hub.NewSecret("hf_wrong") },
			"run", hub.ErrUnauthorized, "the token is missing or not valid"},
		"a token that may only read": {func(w *world, _ *hub.Pusher) { w.client.Token = hub.NewSecret("hf_guest") },
			"run", hub.ErrForbidden, "the token has no right"},
		"a folder whose name is none": {func(*world, *hub.Pusher) {}, "bert--mrpc", hub.ErrName, "set Pusher.Repo"},
		"a name that is none": {func(_ *world, p *hub.Pusher) { p.Repo = "a/b/c" }, "run", hub.ErrName,
			`"a/b/c" is not the name`},
		"no network allowed": {func(w *world, _ *hub.Pusher) { w.client.Offline = true }, "run", hub.ErrOffline,
			"offline mode is on"},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(t)
			p := &hub.Pusher{Client: w.client}
			c.change(w, p)
			err := p.Start(w.ctx, checkpoint.UploadRun{OutputDir: filepath.Join(t.TempDir(), c.dir)})
			require.ErrorIs(t, err, c.want)
			assert.ErrorContains(t, err, c.text)
		})
	}
	err := new(hub.Pusher).Push(t.Context(), checkpoint.Upload{})
	assert.ErrorContains(t, err, "Pusher.Repo is empty")
}
