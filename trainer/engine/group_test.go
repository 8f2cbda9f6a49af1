package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// groupRun is a run in testdata/hf_ddp.json, with the batches of each process.
type groupRun struct {
	hfRun
	Batches  [][][]int
	MaxSteps int `json:"max_steps"`
}

// groupCase is the corresponding run here.
type groupCase struct {
	model       func(dropout float64) *tagger
	task        func(m *tagger) engine.Task[tokens, tokenBatch]
	dropout     float64
	accumulate  int
	distributed *ddp.Options
}

var groupCases = map[string]groupCase{
	"plain":                    {newTagger, tag, 0, 1, nil},
	"accumulation and dropout": {newTagger, tag, 0.3, 2, nil},
	"counted items":            {newTagger, count, 0.2, 2, nil},

	"three processes":                    {newTagger, tag, 0.3, 1, nil},
	"three processes, many buckets":      {newTagger, tag, 0.3, 1, &ddp.Options{BucketCapMB: 0.0002}},
	"three processes, unused parameters": {newBranching, tag, 0, 1, nil},
	"four processes":                     {newTagger, count, 0.2, 2, nil},
}

// groupOutcome is what a process reports about its run.
type groupOutcome struct {
	Batches  [][]int
	History  []trainer.Logs
	Eval     trainer.Metrics
	Steps    int
	Stopped  bool // it was interrupted
	Failure  string
	StopStep int
}

// oneOfGroup is the main function of a started process. A role is the name of a run and, after a
// bar, what happens during it.
func oneOfGroup(role string) int {
	name, event, _ := strings.Cut(role, "|")
	if name == "evaluations" {
		if err := evaluationsMember(event); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	out, err := groupMember(name, event)
	if err != nil {
		out.Failure = err.Error()
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
	return 0
}

// cancelAt cancels a run after an update.
type cancelAt struct {
	step   int
	cancel func()
}

func (c cancelAt) AfterUpdate(r *trainer.Run) error {
	if r.GlobalStep == c.step-1 { // a step counts once it has ended
		c.cancel()
	}
	return nil
}

// diesInEvaluation ends the process after the first batch of an evaluation.
type diesInEvaluation struct{}

func (diesInEvaluation) EvalStep(*trainer.Run) error {
	os.Exit(0)
	return nil
}

// fullDisk makes the second save of the main process fail, which alone writes.
type fullDisk struct{ saves int }

func (d *fullDisk) BeforeSeal(_ *trainer.Run, folder string) error {
	if d.saves++; d.saves == 2 {
		return &os.PathError{Op: "write", Path: folder, Err: syscall.ENOSPC}
	}
	return nil
}

func groupMember(name, event string) (out groupOutcome, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: time.Minute})
	if err != nil {
		return out, err
	}
	defer func() { _ = g.Close() }()
	torch.SetThreads(1)
	var t testing.T
	file := golden.Load(&t, "testdata/hf.safetensors")
	train, valid := hfData(file)
	valid = valid[:8]
	c := groupCases[name]
	m := c.model(c.dropout)
	if g.Main() { // the others get the main process's weights
		initial := golden.Load(&t, "testdata/hf_ddp.safetensors")
		var weights []torch.Named
		for _, p := range nn.Params(m) {
			weights = append(weights, torch.Named{Name: p.Name, Tensor: initial.Tensor(name + "/init/" + p.Name)})
		}
		if _, err := nn.LoadStateDict(m, nn.Tensors(weights), nn.LoadOptions{}); err != nil {
			return out, err
		}
	}
	inner, err := engine.New(c.task(m), engine.Options{Optimizer: named("adamw_torch_fused",
		optim.Arguments{LearningRate: 0.02}), ComputeMetrics: right, Distributed: c.distributed})
	if err != nil {
		return out, err
	}
	s := &seen{tagStep: inner}
	dir := os.Getenv("ENGINE_TEST_DIR")
	o := quiet(trainer.Options{
		Group: g, Epochs: 2, BatchSize: 4, EvalBatchSize: 4, Accumulate: c.accumulate,
		Log: trainer.Every(1, trainer.Update), Semantics: semantics.HuggingFace,
	})
	if event, async := strings.CutPrefix(event, "async "); async || event == "interrupt" || event == "resume" ||
		event == "whole" {
		o.Semantics = semantics.Default // exact when resumed within an epoch, unlike transformers
		o.OutputDir, o.Save = filepath.Join(dir, "run"), trainer.Every(100, trainer.Update)
		if async {
			o.Save, o.AsyncSave = trainer.Every(1, trainer.Update), true
			o.Logger = slog.New(slog.DiscardHandler) // only the outcome is printed
		}
	}
	switch {
	case event == "interrupt" && g.Rank() == 1:
		o.Callbacks = []any{cancelAt{1, cancel}}
	case event == "die" && g.Rank() == 1:
		o.Callbacks = []any{cancelAt{2, func() { os.Exit(0) }}}
	case event == "die in an evaluation" && g.Rank() == 1:
		o.Callbacks = []any{diesInEvaluation{}}
	case event == "resume", event == "async resume":
		o.ResumeFrom = trainer.Latest
	case event == "async die" && g.Rank() == 0:
		o.Callbacks = []any{cancelAt{3, func() { os.Exit(0) }}}
	case event == "async disk" && g.Rank() == 0:
		o.Callbacks = []any{&fullDisk{}}
	}
	fit, err := trainer.New(s, o)
	if err != nil {
		return out, err
	}
	result, err := fit.Fit(ctx, train, nil)
	out.Batches = s.batches
	if stop, ok := errors.AsType[*trainer.InterruptedError](err); ok {
		out.Stopped, out.StopStep = true, stop.GlobalStep
		return out, g.Barrier(context.Background())
	}
	if err != nil {
		return out, err
	}
	out.History, out.Steps = result.History, result.GlobalStep
	if out.Eval, err = fit.Evaluate(ctx, valid); err != nil {
		return out, err
	}
	tensors := append(nn.StateDict(m), torch.Named{Name: "next", Tensor: torch.Rand(4)})
	entries, err := tensorio.Entries(tensors)
	if err != nil {
		return out, err
	}
	if err := safetensors.WriteFile(filepath.Join(dir, strconv.Itoa(g.Rank())), entries, nil); err != nil {
		return out, err
	}
	return out, g.Barrier(ctx)
}

// startGroup starts processes and returns their outcomes; that of a process that has died is empty.
func startGroup(t *testing.T, world int, role, dir string) []groupOutcome {
	t.Helper()
	testenv.RequireTorch(t)
	out := make([]groupOutcome, world)
	for rank, p := range ranktest.Run(t, world, 2*time.Minute, "ENGINE_TEST_ROLE="+role, "ENGINE_TEST_DIR="+dir) {
		if !strings.Contains(p.Output, "{") && p.Code == 0 {
			continue
		}
		if err := p.Decode(&out[rank]); err != nil || p.Code != 0 {
			t.Fatalf("rank %d: exit code %d, %v: %s", rank, p.Code, err, p.Output)
		}
	}
	return out
}

func groupRuns(t *testing.T) (runs []groupRun) {
	t.Helper()
	text, err := os.ReadFile("testdata/hf_ddp.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &runs); err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestProcessesEqualTransformersWithGloo(t *testing.T) {
	for _, r := range groupRuns(t) {
		t.Run(r.Name, func(t *testing.T) {
			dir := t.TempDir()
			out := startGroup(t, len(r.Batches), r.Name, dir)
			want := golden.Load(t, "testdata/hf_ddp.safetensors")
			for rank, o := range out {
				if o.Failure != "" {
					t.Fatalf("rank %d: %s", rank, o.Failure)
				}
				if !reflect.DeepEqual(o.Batches, r.Batches[rank][:len(o.Batches)]) {
					t.Fatalf("rank %d trained on the rows %v, want %v", rank, o.Batches, r.Batches[rank])
				}
				if o.Steps != r.MaxSteps {
					t.Errorf("rank %d made %d updates, want %d", rank, o.Steps, r.MaxSteps)
				}
				compareLog(t, o.History, r.hfRun)
				golden.RecordedNumbers(t, fmt.Sprintf("the loss of rank %d's evaluation", rank),
					[]float64{o.Eval["loss"]}, []float64{parseHex(t, r.EvalLoss)})
				if o.Eval["right"] != r.Right {
					t.Errorf("rank %d: the evaluation gives %v, want %v right", rank, o.Eval, r.Right)
				}
				got := golden.Load(t, filepath.Join(dir, strconv.Itoa(rank)))
				for _, p := range nn.Params(groupCases[r.Name].model(0)) {
					golden.Recorded(t, fmt.Sprintf("%s of rank %d", p.Name, rank), got.Tensor(p.Name),
						want.Tensor(r.Name+"/final/"+p.Name))
				}
				golden.Bits(t, fmt.Sprintf("the next random numbers of rank %d", rank), got.Tensor("next"),
					want.Tensor(fmt.Sprintf("%s/%d/next", r.Name, rank)))
			}
		})
	}
}

func TestAnInterruptionOfOneProcessStopsAllAndTheRunGoesOnBitForBit(t *testing.T) {
	whole, dir := t.TempDir(), t.TempDir()
	startGroup(t, 2, "accumulation and dropout|whole", whole)
	for rank, o := range startGroup(t, 2, "accumulation and dropout|interrupt", dir) {
		if !o.Stopped || o.StopStep != 1 || o.Failure != "" {
			t.Fatalf("rank %d: %+v; want an interruption after update 1, in the middle of the first epoch", rank, o)
		}
	}
	alone, err := engine.New(tag(newTagger(0.3)), engine.Options{Optimizer: named("adamw_torch_fused",
		optim.Arguments{LearningRate: 0.02})})
	if err != nil {
		t.Fatal(err)
	}
	train, _ := hfData(golden.Load(t, "testdata/hf.safetensors"))
	for _, size := range []int{4, 5} {
		fit, err := trainer.New(alone, quiet(trainer.Options{Epochs: 2, BatchSize: size, Accumulate: 2,
			OutputDir: filepath.Join(dir, "run"), ResumeFrom: trainer.Latest}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fit.Fit(t.Context(), train, nil); !errors.Is(err, trainer.ErrOtherRun) ||
			!strings.Contains(err.Error(), "by 2 processes") {
			t.Errorf("one process resumes a run of two: %v", err)
		}
	}
	for rank, o := range startGroup(t, 2, "accumulation and dropout|resume", dir) {
		if o.Failure != "" || o.Steps != 4 {
			t.Fatalf("rank %d: %+v; want 4 updates", rank, o)
		}
		got, want := golden.Load(t, filepath.Join(dir, strconv.Itoa(rank))),
			golden.Load(t, filepath.Join(whole, strconv.Itoa(rank)))
		for _, name := range []string{"embed.weight", "hidden.weight", "hidden.bias", "out.weight", "out.bias",
			"next"} {
			golden.Bits(t, fmt.Sprintf("%s of rank %d", name, rank), got.Tensor(name), want.Tensor(name))
		}
	}
}

// Asynchronous saves with two processes: the main one writes while both train. The run has the bits
// of one that saves synchronously. It also continues with these bits from what the death of the
// main process has left, and survives a full disk, of which both processes learn.
func TestAsyncSavesOfTwoProcesses(t *testing.T) {
	const role = "accumulation and dropout|"
	whole, dir := t.TempDir(), t.TempDir()
	startGroup(t, 2, role+"whole", whole)
	same := func(claim, dir string) {
		for rank := range 2 {
			got, want := golden.Load(t, filepath.Join(dir, strconv.Itoa(rank))),
				golden.Load(t, filepath.Join(whole, strconv.Itoa(rank)))
			for _, name := range []string{"embed.weight", "hidden.weight", "hidden.bias", "out.weight", "out.bias",
				"next"} {
				golden.Bits(t, fmt.Sprintf("%s: %s of rank %d", claim, name, rank), got.Tensor(name), want.Tensor(name))
			}
		}
	}
	out := startGroup(t, 2, role+"async die", dir)
	require.NotEmpty(t, out[1].Failure, "the other process learns that the main one has died")
	left, err := filepath.Glob(filepath.Join(dir, "run", "checkpoint-*"))
	require.NoError(t, err)
	require.NotEmpty(t, left)
	for rank, o := range startGroup(t, 2, role+"async resume", dir) {
		require.Empty(t, o.Failure, "rank %d", rank)
		assert.Equal(t, 4, o.Steps)
	}
	same("continued", dir)

	disk := t.TempDir()
	for rank, o := range startGroup(t, 2, role+"async disk", disk) {
		require.Empty(t, o.Failure, "rank %d", rank)
		assert.Equal(t, 4, o.Steps)
	}
	same("after a full disk", disk)
	assert.NoDirExists(t, filepath.Join(disk, "run", "checkpoint-2"))
	for _, n := range []int{1, 3, 4} {
		assert.NoError(t, checkpoint.Verify(filepath.Join(disk, "run", fmt.Sprint("checkpoint-", n))))
	}
}

func TestTheDeathOfAProcessEndsTheRunOfTheOther(t *testing.T) {
	for event, where := range map[string]string{"die": "trainer: ", "die in an evaluation": "trainer: evaluate after"} {
		out := startGroup(t, 2, "plain|"+event, t.TempDir())
		if !strings.Contains(out[0].Failure, "rank 1: the connection is gone") || !strings.Contains(out[0].Failure,
			where) {
			t.Errorf("%s: rank 0 ended with %q", event, out[0].Failure)
		}
	}
}

func TestWhatIsForOneProcessIsRefusedForSeveral(t *testing.T) {
	testenv.RequireTorch(t)
	s, err := engine.New(tag(newTagger(0)), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WORLD_SIZE", "2")
	if _, err := trainer.New(s, quiet(trainer.Options{})); err == nil || !strings.Contains(err.Error(), "dist.Init") {
		t.Errorf("no Options.Group in one of two processes: %v", err)
	}
	t.Setenv("WORLD_SIZE", "")
	alone, err := dist.Init(t.Context(), dist.Options{World: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.New(s, quiet(trainer.Options{Group: alone, AutoFindBatchSize: true})); err != nil {
		t.Errorf("a group of one has everything that one process has: %v", err)
	}
	if _, err := trainer.New(s, quiet(trainer.Options{Group: alone, Process: trainer.Process{World: 1}})); err == nil {
		t.Error("Group and Process were accepted together")
	}
}

// masking is a task with its own generator.
type masking struct {
	towerTask
	masks *torch.Generator
}

func (m masking) Generators() map[string]*torch.Generator {
	return map[string]*torch.Generator{"masks": m.masks}
}

func TestTheRandomStateOfAProcessHasTheGeneratorsOfTheTask(t *testing.T) {
	testenv.RequireTorch(t)
	masks := torch.NewGenerator(1)
	s, err := engine.New(masking{towerTask{&towerRun{}, newTower()}, masks}, engine.Options{})
	require.NoError(t, err)
	own := masks.State()
	state, err := s.RandomState()
	require.NoError(t, err)

	masks.SetState(torch.NewGenerator(2).State()) // as Load does, with the state of the main process
	require.NoError(t, s.SetRandomState(state))
	assert.Equal(t, own, masks.State())

	var older map[string]any
	require.NoError(t, json.Unmarshal(state, &older))
	delete(older, "task")
	state, err = json.Marshal(older)
	require.NoError(t, err)
	require.NoError(t, s.SetRandomState(state), "of a checkpoint that was made before")
	assert.Equal(t, own, masks.State())
}
