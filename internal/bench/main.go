// Command bench runs one benchmark workload through the public API and prints one line of JSON, so
// that it can be compared with programs in other languages that do the same work:
//
//	go build -o bench ./internal/bench
//	./bench -workload mlp_tiny -data DIR
//	./bench -workload crnn -threads 1 -precision bf16 -init crnn.safetensors
//	./bench -workload bert_base -device cuda -batch 128 -steps 50
//	./bench -workload mlp -device cuda -graphs 8 -prefetch
//	./bench -workload checkpoint -fsync -dir DISK
//
// A workload fixes the weights, the samples and their order, the optimizer, and what is measured:
// the updates after the warm-up with everything that they need (loader, forward, loss, backward,
// update), with the device idle at the beginning and the end. Without -init the weights are drawn
// from the seed, bit for bit like PyTorch's. With -tiny there are only a few updates, to see that
// the workload runs. DIR holds mnist/ (IDX files), cn_plates/ (pictures and train.tsv),
// captcha_v2/, iiit5k/, mrpc/, sst2/, ag_news/ and models/bert_base_uncased_vocab/; each workload
// reads what it needs. lm and sft train a Llama to continue articles, dpo to prefer the right
// continuation, grpo to write what is rewarded; the "loss" of grpo is the mean reward.
//
// The line is the last one on standard output. A workload that cannot run on this machine prints a
// line with the reason under "skip", and exits with status 3.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// exitSkip is the exit status of a workload that cannot run on this machine.
const exitSkip = 3

type settings struct {
	workload, data, init string
	device               torch.Device
	threads              int
	steps, warmup, batch int
	precision, losses    string
	dropout              float64
	dir                  string
	fsync, tiny          bool
	paddingFree, fuseQKV bool
	sortByLength         bool
	graphs               int
	prefetch             bool
	datasetOnDevice      int64
}

// runners are the workloads by name. Each returns the line that its contract requires.
var runners = map[string]func(settings) (map[string]any, error){
	"eval":             evaluate,
	"images":           images,
	"tokenize":         tokenize,
	"checkpoint":       saveAndLoadRounds,
	"checkpoint_small": saveAndLoadRounds,
	"op_add":           operation,
	"op_add_inplace":   operation,
	"op_linear":        operation,
	"op_linear_train":  operation,
}

func init() {
	for name := range workloads {
		runners[name] = train
	}
}

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

func command(args []string, stdout, stderr io.Writer) int {
	var o settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := strings.Join(slices.Sorted(maps.Keys(runners)), ", ")
	flags.StringVar(&o.workload, "workload", "mlp_tiny", "one of "+names)
	flags.StringVar(&o.data, "data", "../shared/data", "folder of the data sets")
	flags.StringVar(&o.init, "init", "", "initial weights, a safetensors file; default: drawn from the workload's seed")
	device := flags.String("device", "cpu", "auto, cpu, cuda or cuda:N; GPUs have sizes of their own")
	flags.IntVar(&o.threads, "threads", 0, "threads within one operator; 0: libtorch's default, one in op_...")
	flags.IntVar(&o.steps, "steps", 0, "measured updates, passes, rounds or operations; 0: those of the workload")
	flags.IntVar(&o.warmup, "warmup", -1, "updates before them; negative: those of the workload")
	flags.IntVar(&o.batch, "batch", 0, "samples of a batch, texts of a call; 0: those of the workload")
	flags.StringVar(&o.precision, "precision", "", "fp32 or bf16 (autocast); default: that of the workload")
	flags.Float64Var(&o.dropout, "dropout", -1, "of the BERT workloads; negative: theirs")
	flags.StringVar(&o.losses, "losses", "", "write the loss of every update to this JSON file")
	flags.StringVar(&o.dir, "dir", "", "checkpoint: folder to write under; default: the system's temporary folder")
	flags.BoolVar(&o.fsync, "fsync", false, "checkpoint: the files are on the disk, read back and verified")
	flags.BoolVar(&o.paddingFree, "padding-free", false, "bert_..., eval: leave the padding out of the computation")
	flags.BoolVar(&o.fuseQKV, "fuse-qkv", false, "bert_..., eval: query, key and value as one product")
	flags.IntVar(&o.graphs, "graphs", 0, "training on a GPU: record so many kinds of batches as CUDA graphs")
	flags.BoolVar(&o.prefetch, "prefetch", false, "training on a GPU: send the next batch while this one computes")
	flags.Int64Var(&o.datasetOnDevice, "dataset-on-device", 0, "training: keep the data on the device if it takes no "+
		"more bytes")
	flags.BoolVar(&o.sortByLength, "sort-by-length", false, "eval: pairs of about the same length together")
	flags.BoolVar(&o.tiny, "tiny", false, "a few steps, to see that it runs")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var err error
	switch o.device, err = torch.ParseDevice(*device); {
	case err == nil:
		err = run(o, stdout)
	case errors.Is(err, torch.ErrNotSupported):
		fmt.Fprintln(stderr, "bench:", err)
		err = errors.Join(errSkip, printLine(stdout, map[string]any{"workload": o.workload, "impl": implementation,
			"skip": "no CUDA device"}))
	}
	switch {
	case errors.Is(err, errSkip):
		return exitSkip
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// errSkip is the error of a workload that cannot run on this machine; its line gives the reason.
var errSkip = errors.New("skipped")

func run(o settings, stdout io.Writer) error {
	work, ok := runners[o.workload]
	if !ok {
		return fmt.Errorf("there is no workload %q; want one of %s", o.workload,
			strings.Join(slices.Sorted(maps.Keys(runners)), ", "))
	}
	if _, trains := workloads[o.workload]; !trains && (o.graphs != 0 || o.prefetch || o.datasetOnDevice != 0) {
		return fmt.Errorf("-graphs, -prefetch and -dataset-on-device are for workloads that train; %s does not", o.workload)
	}
	line, err := work(o)
	if err != nil {
		return err
	}
	return printLine(stdout, line)
}
