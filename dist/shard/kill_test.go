package shard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

// The processes that this test starts are copies of its binary. These variables tell them to train
// in a folder, and tell one of them when to kill itself.
const (
	runFolder = "SHARD_TEST_FOLDER"
	runDeath  = "SHARD_TEST_DEATH"
	saves     = 6 // per run, one after each update
)

// death says when a rank sends itself SIGKILL, relative to the file that it writes in a save.
type death struct {
	Rank, Save int
	When       string        // before, inside or behind the file; or After it has begun to write
	After      time.Duration // others may still be writing, or the index, or the save may be over
}

func (d death) String() string {
	if d.When == "" {
		return fmt.Sprintf("rank %d, %v after it began to write save %d", d.Rank, d.After, d.Save)
	}
	return fmt.Sprintf("rank %d, %s its file of save %d", d.Rank, d.When, d.Save)
}

func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	fmt.Println("it is not killed:", err)
	select {}
}

// arm arranges for the process to die at that point.
func (d death) arm() {
	*shard.WriteFile = func(folder string, rank, world int, id string, e []sharded.Entry) (sharded.Written, error) {
		if rank != d.Rank || !strings.Contains(folder, fmt.Sprintf("step-%d.", d.Save)) {
			return sharded.WriteFile(folder, rank, world, id, e)
		}
		switch d.When {
		case "before":
			die()
		case "inside":
			for i, write := range e {
				e[i].Data = func(w io.Writer) error {
					_ = write.Data(w) // any incomplete file will do, not just a cut one
					die()
					return nil
				}
			}
		case "":
			go func() {
				time.Sleep(d.After)
				die()
			}()
		}
		w, err := sharded.WriteFile(folder, rank, world, id, e)
		if d.When == "behind" {
			die()
		}
		return w, err
	}
}

// trainIn resumes the run in a folder from its newest checkpoint, and returns the final weights.
func trainIn(ctx context.Context, g *dist.Group, folder string) (result, error) {
	m, err := newTrained(ctx, g, shard.FullShard)
	if err != nil {
		return nil, err
	}
	for step := saves; step > 0; step-- {
		path := filepath.Join(folder, fmt.Sprint("step-", step))
		if _, err := os.Stat(path); err == nil {
			if _, _, err := m.Load(ctx, path, m.opt); err != nil {
				return nil, err
			}
			break
		}
	}
	for m.opt.Updates() < saves {
		if err := m.train(ctx, 1); err != nil {
			return nil, err
		}
		step := m.opt.Updates()
		if err := m.Save(ctx, filepath.Join(folder, fmt.Sprint("step-", step)), step, m.opt, nil); err != nil {
			return nil, err
		}
	}
	return m.weights(ctx, g)
}

// process is the main function of a process that the test starts.
func process() error {
	ctx := context.Background()
	if text := os.Getenv(runDeath); text != "" {
		var d death
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			return err
		}
		d.arm()
	}
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: 30 * time.Second})
	if err != nil {
		return err
	}
	got, err := trainIn(ctx, g, os.Getenv(runFolder))
	if err == nil && g.Main() {
		err = json.NewEncoder(os.Stdout).Encode(got)
	}
	return errors.Join(err, g.Close())
}

// The processes of a run are killed one after the other, each at a different point of a save. After
// each death, the folder must hold the previous checkpoint or the new one, and the final weights
// must be bit-identical to those of an uninterrupted run. `make fault` (internal/fault, shards)
// does the same at the system calls of the Trainer's saves.
func TestARankThatIsKilledInASaveLeavesAWholeCheckpoint(t *testing.T) {
	testenv.RequireTorch(t)
	seed := uint64(time.Now().UnixNano())
	draw := rand.New(rand.NewPCG(seed, 0))
	for _, world := range []int{2, 3} {
		if world == 3 && testing.Short() {
			continue
		}
		var want result
		unharmed := t.TempDir()
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			got, err := trainIn(ctx, g, unharmed)
			if g.Main() {
				want = got
			}
			return err
		}))
		folder := t.TempDir()
		run := func(env ...string) []ranktest.Process {
			return ranktest.Run(t, world, time.Minute, append(env, runFolder+"="+folder)...)
		}
		for _, d := range []death{{Rank: world - 1, Save: 2, When: []string{"before", "inside"}[draw.IntN(2)]},
			{Rank: 0, Save: 3, When: []string{"inside", "behind"}[draw.IntN(2)]},
			{Rank: draw.IntN(world), Save: 4, After: time.Duration(draw.IntN(20_000)) * time.Microsecond}} {
			what := fmt.Sprintf("%d ranks, %v (seed %d)", world, d, seed)
			text, err := json.Marshal(d)
			require.NoError(t, err)
			for rank, p := range run(runDeath + "=" + string(text)) {
				if p.Code == 0 && d.When == "" {
					continue // the run ended before that point
				}
				require.NotZero(t, p.Code, "%s: rank %d", what, rank)
				if rank != d.Rank {
					require.Contains(t, p.Output, fmt.Sprint("rank ", d.Rank), "%s: rank %d", what, rank)
				}
			}
			found, err := filepath.Glob(filepath.Join(folder, "step-*"))
			require.NoError(t, err)
			if d.When != "" {
				require.Len(t, found, d.Save-1, what)
			}
			for _, path := range found {
				require.NoError(t, sharded.Convert(path, t.TempDir()), "%s: %s", what, path)
			}
		}
		for rank, p := range run() {
			require.Zero(t, p.Code, "%d ranks, rank %d: %s", world, rank, p.Output)
			if rank == 0 {
				var got result
				require.NoError(t, p.Decode(&got), p.Output)
				assert.NoError(t, compare(got, want, 0), "%d ranks (seed %d)", world, seed)
			}
		}
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		assert.Len(t, left, saves, "no half checkpoint is left: %v", left)
	}
}
