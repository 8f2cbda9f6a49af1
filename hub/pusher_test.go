package hub_test

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// checkpointFiles returns the files that a run writes at a save.
func checkpointFiles(t *testing.T, seed uint64) (all, model map[string][]byte) {
	model = map[string][]byte{"config.json": []byte("{}"), "model.safetensors": weights(t, seed, 10_000)}
	all = map[string][]byte{
		"optimizer.safetensors": weights(t, seed+100, 20_000), "trainer_state.json": []byte("{}"),
		"gotrainer_state.json":  []byte("{}"),
		"rng_state.safetensors": weights(t, seed+200, 100), "MANIFEST.json": []byte("{}"), "scaler.json": []byte("{}"),
	}
	for name, content := range model {
		all[name] = content
	}
	return all, model
}

func below(folder string, files map[string][]byte, into map[string][]byte) map[string][]byte {
	for name, content := range files {
		into[folder+name] = content
	}
	return into
}

func TestPusherSendsTheModelOrTheWholeCheckpoint(t *testing.T) {
	w := newWorld(t)
	p := &hub.Pusher{Client: w.client, Repo: "me/run"}
	want := map[string][]byte{}
	for i, name := range []string{"checkpoint-100", "checkpoint-200"} {
		all, model := checkpointFiles(t, uint64(i))
		if i == 0 {
			all["first.txt"], model["first.txt"] = []byte("x"), []byte("x")
		}
		dir := write(t, filepath.Join(t.TempDir(), name), all)
		for _, u := range []checkpoint.Upload{
			{Folder: dir, ModelOnly: true, Message: name},
			{Folder: dir, Path: "last-checkpoint", Message: name + ", checkpoint"},
		} {
			if err := p.Push(w.ctx, u); err != nil {
				t.Fatal(err)
			}
		}
		below("", model, want)
		if i == 1 {
			below("last-checkpoint/", all, want) // first.txt is gone there, and stays in the root
		}
	}
	remote(t, w, "me/run", "main", want)
	commits := w.Log(hubtest.Model, "me/run", "main")
	if len(commits) != 5 || commits[0] != "checkpoint-200, checkpoint" || commits[1] != "checkpoint-200" {
		t.Errorf("commits %q, want one for each upload after the first", commits)
	}
}

func TestPusherRefusesADamagedState(t *testing.T) {
	w := newWorld(t)
	dir := write(t, t.TempDir(), map[string][]byte{"config.json": []byte("{}"), "trainer_state.json": []byte("[")})
	p := &hub.Pusher{Client: w.client, Repo: "me/run", Card: &hub.ModelCard{ModelName: "run"}}
	if err := p.Push(w.ctx, checkpoint.Upload{Folder: dir, ModelOnly: true}); err == nil ||
		!strings.Contains(err.Error(),
			"trainer_state.json") {
		t.Errorf("error %v, want one that names trainer_state.json", err)
	}
	if commits := w.Log(hubtest.Model, "me/run", "main"); commits != nil {
		t.Errorf("commits %q, want none", commits)
	}
}

// TestRunUploadsWhileItTrains is an end-to-end test of the trainer's strategies, this client and a
// Hub.
func TestRunUploadsWhileItTrains(t *testing.T) {
	for strategy, folders := range map[trainer.PushStrategy][]string{
		trainer.PushEverySave:      {""},
		trainer.PushAtEnd:          {""},
		trainer.PushLastCheckpoint: {"", "last-checkpoint/"},
		trainer.PushAllCheckpoints: {"", "checkpoint-2/", "checkpoint-4/"},
	} {
		w := newWorld(t)
		pusher := &hub.Pusher{Client: w.client, Repo: "me/run", Card: &hub.ModelCard{ModelName: "run"}}
		run, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{
			OutputDir: t.TempDir(), MaxSteps: 4, BatchSize: 1, Save: trainer.Every(2, trainer.Update),
			Eval: trainer.Every(2, trainer.Update), KeepCheckpoints: 1,
			Pusher: pusher, PushStrategy: strategy, PushAlways: true, Progress: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
		result, err := run.Fit(w.ctx, trainertest.Samples(4), trainertest.Samples(2))
		if err != nil || len(result.Warnings) > 0 {
			t.Fatal(err, result.Warnings)
		}
		files := w.Files(hubtest.Model, "me/run", "main")
		var found []string
		for name := range files {
			folder := name[:strings.LastIndex(name, "/")+1]
			if !slices.Contains(found, folder) {
				found = append(found, folder)
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, folders) {
			t.Errorf("strategy %d: folders %q, want %q", strategy, found, folders)
		}
		if card := string(files["README.md"]); !strings.Contains(card, "| No log        | 1.0   | 4    |") {
			t.Errorf("strategy %d: the card has no row of the last evaluation:\n%s", strategy, card)
		}
	}
}

func TestRunGoesOnWithoutTheHub(t *testing.T) {
	w := newWorld(t)
	w.Inject(hubtest.Fault{Status: 500, Times: -1})
	run, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{
		OutputDir: t.TempDir(), MaxSteps: 2, Pusher: &hub.Pusher{Client: w.client, Repo: "me/run"},
		Progress: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	result, err := run.Fit(w.ctx, trainertest.Samples(16), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(result.Warnings, "\n"); !strings.Contains(text, "could not be uploaded") ||
		strings.Contains(text, "CANARY") {
		t.Errorf("warnings %q, want one about the upload", text)
	}
}
