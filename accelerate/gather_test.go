package accelerate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// gathering is what one process has recorded in testdata/gather.json.
type gathering struct {
	World  int
	Passes []struct {
		Split, Stream bool
		DropLast      bool `json:"drop_last"`
		OwnReader     bool `json:"own_reader"`
		Samples       int
		Own, Gathered [][]int64
	}
	Padded   [][][]int64
	Gathered [][]int64
	Sum      []string
	Mean     []string
}

// inGroup runs f as each of world processes, in goroutines of this process.
func inGroup(t *testing.T, world int, f func(g *dist.Group) error) {
	t.Helper()
	testenv.RequireTorch(t)
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	var ranks sync.WaitGroup
	for rank := range world {
		ranks.Go(func() {
			g, err := dist.Init(context.Background(), dist.Options{Rank: rank, World: world,
				Address: store.Addr().String(), Store: true, Timeout: time.Minute})
			if err == nil {
				if failed := torch.Try(func() { err = f(g) }); failed != nil {
					err = failed
				}
				_ = g.Close()
			}
			if err != nil {
				t.Errorf("rank %d of %d: %v", rank, world, err)
			}
		})
	}
	ranks.Wait()
}

func TestGatheredPassesPaddingAndSumsAreThoseOfAccelerate(t *testing.T) {
	text, err := os.ReadFile("testdata/gather.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs [][]gathering
	if err := json.Unmarshal(text, &runs); err != nil {
		t.Fatal(err)
	}
	for _, ranks := range runs {
		inGroup(t, len(ranks), func(g *dist.Group) error { return sameGathering(g, ranks[g.Rank()]) })
	}
}

func sameGathering(g *dist.Group, want gathering) error {
	for _, p := range want.Passes {
		acc, err := accelerate.New(accelerate.Options{Group: g, SplitBatches: p.Split,
			NoDispatchBatches: p.OwnReader})
		if err != nil {
			return err
		}
		o := accelerate.LoaderOptions{BatchSize: 4, DropLast: p.DropLast}
		if p.Split {
			o.BatchSize = 2 * g.World()
		}
		numbers := data.Func(p.Samples, func(i int) (int64, error) { return int64(i), nil })
		keep := func(s []int64) ([]int64, error) { return s, nil }
		loader, err := accelerate.PrepareLoader(acc, numbers, keep, o)
		if p.Stream {
			loader, err = accelerate.PrepareStream(acc, data.StreamOf(numbers, nil), keep, o)
		}
		if err != nil {
			return err
		}
		own, gathered := [][]int64{}, [][]int64{}
		for b, err := range loader.Batches(context.Background()) {
			if err != nil {
				if len(p.Own) == 0 { // in Accelerate, a stream without a batch is an error, too
					break
				}
				return err
			}
			own = append(own, b)
			gathered = append(gathered, torch.Values[int64](acc.GatherForMetrics(torch.From(b))[0]))
		}
		if diff := cmp.Diff(p.Own, own) + cmp.Diff(p.Gathered, gathered); diff != "" {
			return fmt.Errorf("%d samples, split %v, stream %v, own reader %v, drop last %v (-accelerate +here):\n%s", p.Samples,
				p.Split, p.Stream, p.OwnReader, p.DropLast, diff)
		}
	}
	acc, err := accelerate.New(accelerate.Options{Group: g})
	if err != nil {
		return err
	}
	n := int64(g.Rank() + 1)
	x := torch.TensorOptions{DType: torch.Int64}.Arange(0, 2*n, 1).Reshape(2, n)
	for i, p := range []accelerate.Pad{{}, {Dim: 1, Index: -100}, {Dim: -1, Index: 7, First: true},
		{Dim: 2, Index: 5}} {
		if diff := cmp.Diff(want.Padded[i], matrix(acc.PadAcrossProcesses(p, x)[0])); diff != "" {
			return fmt.Errorf("%+v (-accelerate +here):\n%s", p, diff)
		}
	}
	if diff := cmp.Diff(want.Gathered, matrix(acc.Gather(acc.PadAcrossProcesses(accelerate.Pad{Dim: 1, Index: -100},
		x)...)[0])); diff != "" {
		return fmt.Errorf("gathered (-accelerate +here):\n%s", diff)
	}
	y := torch.From([]float32{0.1, 1.0 / 3, 1e8}).MulScalar(float64(n))
	for i, op := range []dist.Op{dist.Sum, dist.Mean} { // in the same order on all processes
		got := torch.Values[float32](acc.Reduce(op, y)[0])
		for k, text := range [][]string{want.Sum, want.Mean}[i] {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return err
			}
			if float64(got[k]) != v && g.World() == 2 || float64(got[k])/v-1 > 1e-6 || float64(got[k])/v-1 < -1e-6 {
				return fmt.Errorf("%s: %v, want %v", op, got[k], v)
			}
		}
	}
	return nil
}

func matrix(t torch.Tensor) (rows [][]int64) {
	for i := range t.Size(0) {
		rows = append(rows, torch.Values[int64](t.Select(0, i)))
	}
	return rows
}
