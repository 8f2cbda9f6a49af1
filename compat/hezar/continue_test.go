package hezar

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/callback"
)

// A run that is interrupted and resumed must leave the same files as an undisturbed one. Its epochs
// have 7 batches in windows of three, the last of which is short, and its model has dropout.
func continued(dir string) TrainerConfig {
	c := tinyConfig(dir)
	c.NumEpochs, c.GradientAccumulationSteps, c.SaveSteps, c.LogSteps = 3, 3, Count(2), Count(2)
	c.LRScheduler, c.LRSchedulerKwargs, c.LRSchedulingSteps = "exponential",
		omegaconf.Map{{Key: "gamma", Value: 0.9}}, 2
	c.MetricForBestModel = "accuracy"
	return c
}

func newContinued(c TrainerConfig, r Rules, o Overrides[point, points]) (*Trainer[point, points], error) {
	return New[point, points](c, newTiny(2), cloud(13), tinyOptions{EvalDataset: cloud(5), Output: io.Discard,
		RunName: "run", Overrides: o, Rules: r})
}

// outcome returns what a run has left: its files, and the state of the generator. Event files are
// left out, because they contain times and each session has its own; so is the configuration, which
// says what the run was resumed from.
func outcome(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), "events.") || e.Name() == filepath.Base(configFile) ||
			e.Name() == "MANIFEST.json" {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		text, err := os.ReadFile(path)
		files[name] = string(text)
		if filepath.Ext(path) == ".pt" {
			files[name] = entries(t, text)
		}
		return err
	}))
	return files
}

// entries returns checksums of the entries of a file of torch.save, except for the random number in
// each file.
func entries(t *testing.T, file []byte) (list string) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	for _, e := range z.File {
		if !strings.HasSuffix(e.Name, "serialization_id") {
			list += fmt.Sprintf("%s %08x\n", e.Name, e.CRC32)
		}
	}
	return list
}

// sameOutcome compares a run with an undisturbed one. It may have additional checkpoints from
// interruptions.
func sameOutcome(t *testing.T, want, got map[string]string, claim string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			assert.Equal(t, text, got[name], "%s: %s", claim, name)
		}
	}
}

func TestEverySaveContinuesWithTheSameBits(t *testing.T) {
	testenv.RequireTorch(t)
	for claim, r := range map[string]Rules{"mended": {}, "with Hezar's defects that no resume shows": {
		ConfiguredDivisor: true, SameOrder: true, MeanOfBatches: true, SaveTwice: true}} {
		t.Run(claim, func(t *testing.T) {
			t.Chdir(t.TempDir()) // files contain the name of the folder
			whole, err := newContinued(continued("out"), r, Overrides[point, points]{})
			require.NoError(t, err)
			require.NoError(t, whole.Train(t.Context()))
			want, generator := outcome(t, "out"), torch.DefaultGenerator(torch.Device{}).State()
			saves, err := filepath.Glob("out/checkpoints/*/" + modelFile)
			require.NoError(t, err)
			require.Len(t, saves, 9, "the ends of the windows, since those inside of one wait for it")
			for _, save := range saves {
				c := continued("out")
				c.ResumeFromCheckpoint = filepath.Dir(save)
				again, err := newContinued(c, r, Overrides[point, points]{})
				require.NoError(t, err)
				require.NoError(t, again.Train(t.Context()), save)
				sameOutcome(t, want, outcome(t, "out"), save)
				require.Equal(t, weightsOf(whole), weightsOf(again), save)
				require.Equal(t, generator, torch.DefaultGenerator(torch.Device{}).State(), "%s: generator", save)
				require.Equal(t, whole.State, again.State, save)
			}
		})
	}
}

// A resume that counts batches as windows changes only the running loss.
func TestLossCountFromStepsIsOfTheLossAlone(t *testing.T) {
	testenv.RequireTorch(t)
	c := continued(t.TempDir())
	r := Rules{LossCountFromSteps: true}
	whole, err := newContinued(c, r, Overrides[point, points]{})
	require.NoError(t, err)
	require.NoError(t, whole.Train(t.Context()))
	c.ResumeFromCheckpoint = filepath.Join(c.OutputDir, "checkpoints", "10")
	again, err := newContinued(c, r, Overrides[point, points]{})
	require.NoError(t, err)
	require.NoError(t, again.Train(t.Context()))
	require.Equal(t, weightsOf(whole), weightsOf(again))
	_, _, windows := whole.RunningLoss()
	_, _, resumed := again.RunningLoss()
	require.Equal(t, [2]int{9, 15}, [2]int{windows, resumed}, "9 windows; or 5 behind 10 batches")
}

func TestCancelledAnywhereTheRunContinuesWithTheSameBits(t *testing.T) {
	testenv.RequireTorch(t)
	t.Chdir(t.TempDir())
	whole, err := newContinued(continued("out"), Rules{}, Overrides[point, points]{})
	require.NoError(t, err)
	require.NoError(t, whole.Train(t.Context()))
	want := outcome(t, "out")
	type T = Trainer[point, points]
	for stop := range 21 + 9 { // batches of training and evaluation
		require.NoError(t, os.RemoveAll("out"))
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		first, err := newContinued(continued("out"), Rules{}, Overrides[point, points]{
			PrepareInputBatch: func(_ *T, b points) (points, error) {
				if seen++; seen > stop {
					cancel()
				}
				return b, nil
			}})
		require.NoError(t, err)
		err = first.Train(ctx)
		cancel()
		if first.State.GlobalStep < first.TotalSteps { // otherwise no batches were left
			require.ErrorIs(t, err, context.Canceled)
		}
		c := continued("out")
		c.ResumeFromCheckpoint = Newest
		second, err := newContinued(c, Rules{}, Overrides[point, points]{})
		require.NoError(t, err)
		require.NoError(t, second.Train(t.Context()), "cancelled in batch %d", stop)
		sameOutcome(t, want, outcome(t, "out"), fmt.Sprintf("cancelled in batch %d", stop))
		require.Equal(t, weightsOf(whole), weightsOf(second), "cancelled in batch %d", stop)
	}
}

func TestTrainContinuesWhereATrainerWasStopped(t *testing.T) {
	testenv.RequireTorch(t)
	ctx, cancel := context.WithCancel(t.Context())
	type T = Trainer[point, points]
	c := continued(t.TempDir())
	c.SaveEnabled = new(false)
	tr, err := newContinued(c, Rules{}, Overrides[point, points]{AfterUpdate: func(tr *T) error {
		if tr.State.GlobalStep == 9 { // counts the batch after the update
			cancel()
		}
		return nil
	}})
	require.NoError(t, err)
	require.ErrorContains(t, tr.Train(ctx), "batch 10 of 21; not saved: SaveEnabled is false")
	require.Equal(t, [2]int{2, 3}, [2]int{tr.State.Epoch, tr.State.EpochStep})
	require.NoError(t, tr.Train(t.Context()))
	require.Equal(t, 21, tr.State.GlobalStep)

	var steps []int // steps of the evaluations in the event files of both calls of Train
	files, err := filepath.Glob(filepath.Join(tr.State.LogsDir, "events.out.tfevents.*"))
	require.NoError(t, err)
	for _, path := range files {
		f, err := os.Open(path)
		require.NoError(t, err)
		defer f.Close()
		events, err := callback.ReadEvents(f)
		require.NoError(t, err)
		for _, e := range events {
			if e.Tag == "evaluation.accuracy" {
				steps = append(steps, e.Step)
			}
		}
	}
	require.ElementsMatch(t, []int{7, 14, 21}, steps)
}

func TestInnerTrainingLoopIsCalledInARunAndOnce(t *testing.T) {
	type T = Trainer[point, points]
	var inner func(tr *T, ctx context.Context, epoch int) (float64, error)
	tr := newTrainer(t, tinyConfig(t.TempDir()), tinyOptions{Overrides: Overrides[point, points]{
		InnerTrainingLoop: func(tr *T, ctx context.Context, epoch int) (float64, error) {
			return inner(tr, ctx, epoch)
		},
	}})
	_, err := tr.InnerTrainingLoop(t.Context(), 1)
	require.ErrorContains(t, err, "call Train")
	inner = func(*T, context.Context, int) (float64, error) { return 0, nil }
	require.ErrorContains(t, tr.Train(t.Context()), "has not called")
	inner = func(tr *T, ctx context.Context, epoch int) (float64, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, 0, errors.New("too late"))
		defer cancel()
		return tr.InnerTrainingLoop(ctx, epoch)
	}
	require.ErrorContains(t, tr.Train(t.Context()), "too late")
	inner = func(tr *T, ctx context.Context, epoch int) (float64, error) {
		_, err := tr.InnerTrainingLoop(ctx, epoch)
		return 7, err
	}
	require.NoError(t, tr.Train(t.Context()))
	logs, err := tr.LoadCSVLogs("")
	require.NoError(t, err)
	loss, _ := logs.Rows[0].Values.Get("train.loss")
	assert.Equal(t, 7.0, loss, "what the override returns is logged")
}

func TestALoaderOfAnotherLengthIsRefused(t *testing.T) {
	type T = Trainer[point, points]
	tr := newTrainer(t, tinyConfig(t.TempDir()), tinyOptions{Overrides: Overrides[point, points]{
		CreateTrainDataloader: func(tr *T) (*Dataloader[points], error) {
			d, err := tr.CreateTrainDataloader()
			d.Len--
			return d, err
		}}})
	require.ErrorContains(t, tr.Train(t.Context()), "the loader has 5 batches; want the 6 that are left")
}

// The runs that are killed are processes of this test binary; the variable holds the folder of the
// run. A process prints a line when training begins, and the outcome at the end.
const (
	killedRun = "HEZAR_TEST_KILL"
	begun     = "begun"
)

func runToBeKilled(dir string) int {
	c := continued("out")
	c.SaveSteps, c.ResumeFromCheckpoint = Count(1), Newest
	err := os.Chdir(dir)
	if err == nil {
		var tr *Trainer[point, points]
		if tr, err = newContinued(c, Rules{}, Overrides[point, points]{}); err == nil {
			fmt.Println(begun)
			if err = tr.Train(context.Background()); err == nil {
				fmt.Println(tr.State.GlobalStep, crc32.ChecksumIEEE(fmt.Append(nil, weightsOf(tr))))
				return 0
			}
		}
	}
	fmt.Println(err)
	return 1
}

// runUntil runs a process, kills it a given time after training has begun, and returns what it
// prints at its end; empty if it was killed.
func runUntil(t *testing.T, dir string, kill time.Duration) (said string, took time.Duration) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killedRun+"="+dir)
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var from time.Time
	for lines := bufio.NewScanner(out); lines.Scan(); said = lines.Text() {
		if lines.Text() == begun {
			from = time.Now()
			defer time.AfterFunc(kill, func() { _ = c.Process.Kill() }).Stop()
		}
	}
	if err := c.Wait(); err != nil {
		require.Negative(t, c.ProcessState.ExitCode(), "the run fails: %s\n%s", said, &problems)
		return "", 0
	}
	return said, time.Since(from)
}

func TestARunThatIsKilledAtAnyInstantEndsWithTheSameBits(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each kill; not with -short")
	}
	testenv.RequireTorch(t)
	whole, dir := t.TempDir(), t.TempDir()
	want, took := runUntil(t, whole, time.Hour)
	kills := 0
	for ; kills < 6; kills++ {
		if said, _ := runUntil(t, dir, time.Duration(rand.Float64()*float64(took)/3)); said != "" {
			break
		}
	}
	got, _ := runUntil(t, dir, time.Hour)
	require.Equal(t, want, got, "steps and weights, undisturbed and after %d kills", kills)
	if diff := cmp.Diff(outcome(t, whole), outcome(t, dir)); diff != "" {
		t.Errorf("what is left of the run after %d kills (-undisturbed +killed):\n%s", kills, diff)
	}
	t.Logf("killed %d times", kills)
}
