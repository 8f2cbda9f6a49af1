package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The runs in this file are separate processes, which are killed. Such a process is this test
// binary; these variables tell it which run it is and in which folder. It reports on its standard
// output that training has begun and, at the end, the outcome.
const (
	killRun = "ENGINE_TEST_KILL"
	killDir = "ENGINE_TEST_DIR"
	begun   = "begun"
)

// killRuns are the ways to keep checkpoints.
var killRuns = map[string]trainer.Options{
	"all":   {Save: trainer.Every(1, trainer.Update)},
	"async": {Save: trainer.Every(1, trainer.Update), AsyncSave: true},
	"two":   {Save: trainer.Every(1, trainer.Update), KeepCheckpoints: 2},
	"best": {Save: trainer.Every(2, trainer.Update), Eval: trainer.Every(2, trainer.Update), KeepCheckpoints: 1,
		LoadBestAtEnd: true},
}

// sayBegun reports that training has begun.
type sayBegun struct{}

func (sayBegun) TrainBegin(*trainer.Run) error {
	fmt.Println(begun)
	return nil
}

// runToBeKilled is the main function of a started process: it begins the run or continues it.
func runToBeKilled(name string) int {
	torch.SetThreads(1)
	s, err := engine.New(engine.Classify(newNet()), engine.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	o := quiet(killRuns[name])
	o.OutputDir, o.ResumeFrom, o.Callbacks = os.Getenv(killDir), trainer.Latest, []any{sayBegun{}}
	o.MaxSteps, o.BatchSize, o.Accumulate, o.Log = 16, 4, 2, trainer.Every(1, trainer.Update)
	fit, err := trainer.New(s, o)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	result, err := fit.Fit(context.Background(), ring(30), ring(10))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(result.GlobalStep, fingerprint(s))
	return 0
}

// errKilled means that a run was killed before it ended.
var errKilled = errors.New("killed")

// runUntil runs a process, kills it at the given time after training has begun, and returns what it
// reports at its end.
func runUntil(t *testing.T, name, dir string, kill time.Duration) (outcome string, took time.Duration, err error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killRun+"="+name, killDir+"="+dir)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	var from time.Time
	for lines := bufio.NewScanner(out); lines.Scan(); outcome = lines.Text() {
		if lines.Text() == begun {
			from = time.Now()
			timer = time.AfterFunc(kill, func() { _ = c.Process.Kill() })
		}
	}
	err = c.Wait()
	if timer != nil {
		timer.Stop()
	}
	switch {
	case err == nil:
		return outcome, time.Since(from), nil
	case c.ProcessState.ExitCode() < 0:
		return "", 0, errKilled
	}
	t.Fatalf("the run fails: %v\n%s\n%s", err, outcome, &stderr)
	return "", 0, nil
}

// recorded returns the files that a run has left, without times.
func recorded(t *testing.T, dir string) map[string]string {
	t.Helper()
	times := regexp.MustCompile(`"[a-z_]*(runtime|per_second)": ?[0-9.e+-]+`)
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		// the manifest has checksums of files that contain times
		if err != nil || e.IsDir() || e.Name() == ".lock" || e.Name() == "MANIFEST.json" {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, ".json") || strings.HasSuffix(path, ".jsonl") {
			text = times.ReplaceAll(text, nil)
		}
		text = bytes.ReplaceAll(text, []byte(dir), []byte("DIR"))
		if strings.HasSuffix(path, ".csv") {
			text = nil // it has the same columns as metrics.jsonl
		}
		name, _ := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestARunThatIsKilledAtAnyInstantEndsWithTheSameBits compares weights, optimizer and generator,
// and every file that the run leaves.
func TestARunThatIsKilledAtAnyInstantEndsWithTheSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each kill; not with -short")
	}
	newStep(t, engine.Options{}) // skips without libtorch
	for name := range killRuns {
		t.Run(name, func(t *testing.T) {
			whole, dir := t.TempDir(), t.TempDir()
			want, took, err := runUntil(t, name, whole, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			var kills []time.Duration
			for {
				after := time.Duration(rand.Float64() * float64(took) / 2)
				if len(kills) == 4 {
					after = time.Hour
				}
				got, _, err := runUntil(t, name, dir, after)
				if err != nil {
					kills = append(kills, after)
					continue
				}
				if got != want {
					t.Errorf("killed after %v: it ends with %q; undisturbed with %q", kills, got, want)
				}
				break
			}
			if diff := cmp.Diff(recorded(t, whole), recorded(t, dir)); diff != "" {
				t.Errorf("killed after %v, the files of the run differ (-undisturbed +killed):\n%s", kills, diff)
			}
			t.Logf("killed %d times", len(kills))
		})
	}
}
