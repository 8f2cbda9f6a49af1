package hub_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
)

// checkpointFiles is what a run leaves at a save.
func checkpointFiles(t *testing.T, seed uint64) (all, model map[string][]byte) {
	model = map[string][]byte{"config.json": []byte("{}"), "model.safetensors": weights(t, seed, 10_000)}
	all = map[string][]byte{
		"optimizer.safetensors": weights(t, seed+100, 20_000), "trainer_state.json": []byte("{}"), "gotrainer_state.json": []byte("{}"),
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

func TestStrategies(t *testing.T) {
	for _, s := range []hub.Strategy{"", hub.EverySave, hub.LastCheckpoint, hub.AllCheckpoints, hub.End} {
		t.Run(string(s), func(t *testing.T) {
			w := newWorld(t)
			p := hub.Pusher{Client: w.client, Repo: "me/run", Strategy: s}
			run := t.TempDir()
			want := map[string][]byte{}
			for i, name := range []string{"checkpoint-100", "checkpoint-200"} {
				all, model := checkpointFiles(t, uint64(i))
				if i == 0 {
					all["only-in-the-first.txt"] = []byte("x")
					model["only-in-the-first.txt"] = []byte("x")
				}
				dir := write(t, filepath.Join(run, name), all)
				if err := p.Push(w.ctx, dir, "Training in progress, step "+strings.TrimPrefix(name, "checkpoint-")); err != nil {
					t.Fatal(err)
				}
				switch s {
				case hub.LastCheckpoint:
					if i == 1 {
						below("", model, below("last-checkpoint/", all, want))
					} else {
						want["only-in-the-first.txt"] = []byte("x")
					}
				case hub.AllCheckpoints:
					below("", model, below(name+"/", all, want))
				case hub.EverySave, "":
					below("", model, want)
				}
			}
			commits := w.Log(hubtest.Model, "me/run", "main")
			if s == hub.End {
				if commits != nil {
					t.Errorf("commits %q before the end", commits)
				}
			} else if len(commits) != 3 || commits[0] != "Training in progress, step 200" {
				t.Errorf("commits %q, want one for each save", commits)
			}
			last, model := checkpointFiles(t, 7)
			if err := p.Finish(w.ctx, write(t, filepath.Join(run, "checkpoint-300"), last), "End of training"); err != nil {
				t.Fatal(err)
			}
			remote(t, w, "me/run", "main", below("", model, want))
		})
	}
}

func TestStrategiesThatAreNone(t *testing.T) {
	if _, err := hub.ParseStrategy("each"); !errors.Is(err, hub.ErrName) || !strings.Contains(err.Error(), "all_checkpoints") {
		t.Errorf("ParseStrategy(each) = %v, want ErrName and the names that there are", err)
	}
	if s, err := hub.ParseStrategy("checkpoint"); err != nil || s != hub.LastCheckpoint {
		t.Errorf("ParseStrategy(checkpoint) = %v, %v", s, err)
	}
	p := hub.Pusher{Repo: "me/run", Strategy: "each"}
	if err := p.Push(t.Context(), t.TempDir(), "x"); !errors.Is(err, hub.ErrName) {
		t.Errorf("Push with an unknown strategy = %v", err)
	}
}

func TestBackgroundPushesWhatWasRotatedAway(t *testing.T) {
	w := newWorld(t)
	run := t.TempDir()
	var log safeBuffer
	b := hub.NewBackground(w.ctx, &hub.Pusher{Client: w.client, Repo: "me/run", Strategy: hub.AllCheckpoints}, slog.New(slog.NewTextHandler(&log, nil)))
	defer b.Close()
	write(t, run, map[string][]byte{".hub-push/9/checkpoint-1/left.bin": []byte("by a killed process")})
	all, model := checkpointFiles(t, 1)
	dir := write(t, filepath.Join(run, "checkpoint-1"), all)
	if err := b.Push(w.ctx, dir, "step 1"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil { // the trainer rotates at once
		t.Fatal(err)
	}
	if err := b.Wait(w.ctx); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/run", "main", below("", model, below("checkpoint-1/", all, map[string][]byte{})))
	if left := tree(t, run); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(filepath.Join(run, ".hub-push")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf(".hub-push: %v, want it gone", err)
	}
}

func TestBackgroundKeepsTheNewestOfThoseThatWait(t *testing.T) {
	w := newWorld(t)
	run := t.TempDir()
	gate := make(chan struct{})
	w.Inject(hubtest.Fault{Method: "POST", Path: "/repos/create", Instead: func(out http.ResponseWriter, _ *http.Request) {
		<-gate
		out.WriteHeader(503)
	}})
	b := hub.NewBackground(w.ctx, &hub.Pusher{Client: w.client, Repo: "me/run"}, slog.New(slog.DiscardHandler))
	defer b.Close()
	var last map[string][]byte
	for i, name := range []string{"checkpoint-1", "checkpoint-2", "checkpoint-3"} {
		all, model := checkpointFiles(t, uint64(i))
		last = model
		if err := b.Push(w.ctx, write(t, filepath.Join(run, name), all), name); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	if err := b.Wait(w.ctx); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/run", "main", last)
	if commits := w.Log(hubtest.Model, "me/run", "main"); len(commits) != 3 || commits[0] != "checkpoint-3" || commits[1] != "checkpoint-1" {
		t.Errorf("commits %q; want those of 1 and 3: 2 never began", commits)
	}
}

func TestBackgroundNeverFailsARun(t *testing.T) {
	w := newWorld(t)
	w.Inject(hubtest.Fault{Status: 500, Times: -1})
	var log safeBuffer
	b := hub.NewBackground(w.ctx, &hub.Pusher{Client: w.client, Repo: "me/run"}, slog.New(slog.NewTextHandler(&log, nil)))
	defer b.Close()
	run := t.TempDir()
	all, model := checkpointFiles(t, 1)
	dir := write(t, filepath.Join(run, "checkpoint-1"), all)
	if err := b.Push(w.ctx, dir, "x"); err != nil {
		t.Errorf("Push = %v, want nil whatever happens", err)
	}
	if err := b.Wait(w.ctx); err == nil {
		t.Error("Wait = nil, want what went wrong")
	}
	if err := b.Push(w.ctx, filepath.Join(run, "none"), "x"); err != nil {
		t.Errorf("Push of a folder that is not there = %v, want nil", err)
	}
	if !strings.Contains(log.String(), "not pushed") || strings.Contains(log.String(), "CANARY") {
		t.Errorf("the log:\n%s", log.String())
	}
	w.ClearFaults()
	if err := b.Finish(w.ctx, dir, "End of training"); err != nil {
		t.Fatal(err)
	}
	remote(t, w, "me/run", "main", model)
}

func TestClosingABackgroundGivesUp(t *testing.T) {
	w := newWorld(t)
	w.Inject(hubtest.Fault{Method: "PUT", CDN: true, Delay: time.Hour, Times: -1})
	b := hub.NewBackground(w.ctx, &hub.Pusher{Client: w.client, Repo: "me/run"}, slog.New(slog.DiscardHandler))
	all, _ := checkpointFiles(t, 1)
	if err := b.Push(w.ctx, write(t, filepath.Join(t.TempDir(), "checkpoint-1"), all), "x"); err != nil {
		t.Fatal(err)
	}
	for w.count("PUT", "") == 0 {
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithCancel(w.ctx)
	cancel()
	if err := b.Wait(short); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait with an ended context = %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := b.Wait(w.ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait after Close = %v, want context.Canceled", err)
	}
	if err := b.Push(w.ctx, t.TempDir(), "x"); err != nil {
		t.Errorf("Push after Close = %v", err)
	}
}
