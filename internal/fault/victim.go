package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// victimVariable is the environment variable that makes this program a victim: the plan as JSON.
const victimVariable = "GOTRAINER_FAULT_VICTIM"

// The words that begin a victim's lines on standard output.
const (
	saidReady   = "ready"   // everything is loaded; it waits for a newline on its input before the run
	saidPhase   = "phase"   // it has entered its phase
	saidOutcome = "outcome" // the result of the run as JSON
	saidMemory  = "memory"  // a sample of its memory as JSON
)

// plan says what a victim trains, and how. The zero values of its numbers mean "never".
type plan struct {
	Model  string // crnn, bert or mlp
	Loop   semantics.Loop
	Dir    string // the run's folder
	Resume string // as in trainer.Options.ResumeFrom

	Samples, Batch, Accumulate int
	Epochs                     float64
	Updates                    int // instead of Epochs
	Save, Eval, Log, Keep      int // in updates
	FP32                       bool
	Async                      bool // write checkpoints while training continues
	EMA                        bool // keep an average of the weights
	EvaluateEMA                bool // and evaluate it
	OnThread                   bool // stay on the first thread, so that the order of system calls is fixed

	Sharding shard.Strategy // the victim is one of several, according to its environment, each with a part of the model

	Gate bool // wait before the run begins

	Phase string        // announced each time it is entered, and prolonged by Pause
	Pause time.Duration // how much longer Phase takes

	Hub string // endpoint to push every checkpoint to

	FullAt, EmptyAt int           // updates after which Dir's disk is filled, and emptied again
	Disk            int64         // size of a tmpfs to mount at Dir first
	MemoryEvery     int           // updates between samples of memory
	Trainers        int           // number of trainers in this process, each with its own seed
	Lone            int           // run only the trainer with this number, from 1
	Grace           time.Duration // of run.Program
}

// victim is the main function of a process to be disturbed: a program as the documentation tells
// users to write it.
func victim(text string) {
	run.Program{Name: "victim"}.Main(func(ctx context.Context) error {
		var p plan
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return run.Usage(err)
		}
		if !p.OnThread {
			runtime.UnlockOSThread()
		}
		if p.Disk > 0 {
			if err := mountDisk(p.Dir, p.Disk); err != nil {
				return err
			}
		}
		torch.SetThreads(1)
		if p.Trainers == 0 {
			return p.train(ctx, 1)
		}
		if p.Lone > 0 {
			return p.train(ctx, p.Lone)
		}
		errs := make([]error, p.Trainers)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = p.train(ctx, i+1) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// said guards standard output, which several trainers may use.
var said sync.Mutex

func say(word string, what ...any) {
	said.Lock()
	defer said.Unlock()
	fmt.Println(append([]any{word}, what...)...)
}

// train makes the model and trains it.
func (p plan) train(ctx context.Context, seed int) error {
	p.pause("start")
	switch p.Model {
	case "crnn":
		return trainTask(ctx, p, seed, crnnTask, crnnSample)
	case "bert":
		return trainTask(ctx, p, seed, bertTask, bertSample)
	case "mlp":
		return trainTask(ctx, p, seed, mlpTask, mlpSample)
	}
	return run.Usage(fmt.Errorf("the plan's model is %q; want crnn, bert or mlp", p.Model))
}

func trainTask[S, B any](ctx context.Context, p plan, seed int, task func() (engine.Task[S, B], error),
	sample func(i int) S) error {
	o := engine.Options{Optimizer: optim.AdamW{LR: 0.01}, Precision: amp.BF16, Sharding: p.Sharding}
	if p.FP32 {
		o.Precision = amp.FP32
	}
	if p.EMA {
		o.EMA = engine.EMA{Decay: 0.9, Evaluate: p.EvaluateEMA}
	}
	step, err := engine.NewFromInit(task, o)
	if err != nil {
		return err
	}
	runOptions := p.options(seed)
	if p.Sharding != 0 {
		if runOptions.Group, err = dist.Init(ctx, dist.Options{}); err != nil {
			return err
		}
		defer func() { _ = runOptions.Group.Close() }() // the run is over
	}
	t, err := trainer.New[S, B](step, runOptions)
	if err != nil {
		return err
	}
	if p.Gate {
		say(saidReady)
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return fmt.Errorf("waiting at the gate: %w", err)
		}
	}
	train := data.Func(p.Samples, func(i int) (S, error) {
		p.pause("load")
		return sample(i), nil
	})
	valid := data.Func(p.Samples/3+1, func(i int) (S, error) { return sample(1_000_000 + i), nil })
	result, err := t.Fit(ctx, train, valid)
	if result != nil && result.GlobalStep > 0 {
		p.sayOutcome(seed, step.Model(), step.Optimizer(), result)
	}
	return err
}

// options returns the options of the run.
func (p plan) options(seed int) trainer.Options {
	every := func(n int) trainer.Trigger {
		if n == 0 {
			return trainer.Never
		}
		return trainer.Every(n, trainer.Update)
	}
	o := trainer.Options{
		Semantics: semantics.Rules{Loop: p.Loop}, OutputDir: p.Dir, ResumeFrom: p.Resume, Epochs: p.Epochs,
		MaxSteps: p.Updates, BatchSize: p.Batch, EvalBatchSize: 3, Accumulate: p.Accumulate, Seed: uint64(41 + seed),
		Schedule: lr.Cosine{Warmup: 0.1}, Save: every(p.Save), Eval: every(p.Eval), Log: every(p.Log),
		KeepCheckpoints: p.Keep, AsyncSave: p.Async, Workers: 4, Progress: io.Discard,
		Callbacks: []any{&watcher{plan: p}},
	}
	if p.Trainers > 0 {
		o.OutputDir = filepath.Join(p.Dir, fmt.Sprint("trainer-", seed))
	}
	if p.Eval > 0 {
		o.MetricForBest = "loss"
		o.Callbacks = append(o.Callbacks, &callback.EarlyStopping{Patience: 1000})
	}
	if p.Phase == "backward" {
		o.Callbacks = append(o.Callbacks, betweenPasses{p})
	}
	if p.Hub != "" {
		o.PushAlways = true
		o.Pusher = &hub.Pusher{Repo: hubRepo, Client: &hub.Client{Endpoint: p.Hub, Token: hub.NewSecret(hubToken),
			Retries: -1}}
	}
	return o
}

// outcome is what two runs are compared by, in addition to their files.
type outcome struct {
	Trainer, Update               int
	Weights, Optimizer, Generator string // SHA-256
	History                       string // SHA-256 of the log without timings
	TrainLoss                     float64
	Warnings                      []string // of the process; not compared
}

func (p plan) sayOutcome(seed int, model any, optimizer optim.Optimizer, r *trainer.Result) {
	sum := func(tensors []torch.Named) string {
		h := sha256.New()
		for _, t := range tensors {
			_, _ = h.Write(t.Tensor.Bytes())
		}
		return digest(h.Sum(nil))
	}
	o := outcome{Trainer: seed, Update: r.GlobalStep, Weights: sum(nn.StateDict(model)),
		Optimizer: sum(optimizer.State()), TrainLoss: r.TrainLoss,
		History:  digest(fmt.Append(nil, withoutTimes(r.History))),
		Warnings: r.Warnings}
	if p.Trainers == 0 { // several trainers share the default generator in no fixed order
		o.Generator = digest(torch.DefaultGenerator(torch.CPU).State())
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and finite numbers; a loss that is not finite would be a bug
	}
	say(saidOutcome, string(text))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%x", sum[:8])
}

// withoutTimes removes the timings, which differ between equal runs.
func withoutTimes(rows []trainer.Logs) []trainer.Logs {
	var kept []trainer.Logs
	for _, row := range rows {
		row = maps.Clone(row)
		maps.DeleteFunc(row, func(name string, _ float64) bool {
			return strings.HasSuffix(name, "_runtime") || strings.HasSuffix(name, "_per_second")
		})
		kept = append(kept, row)
	}
	return kept
}
