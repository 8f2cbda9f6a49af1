// Command bench does the work of one benchmark workload through the public API and prints one JSON
// line, so that it can be timed beside programs in other languages that do the same work:
//
//	go build -o bench ./internal/bench
//	./bench -workload mlp_tiny -data DIR
//	./bench -workload crnn -threads 1 -init crnn.safetensors
//
// A workload fixes weights, samples, their order, the optimizer and what is measured: the updates
// after the warm-up, with everything that they need (loader, forward, loss, backward, update),
// device idle at both ends. Without -init the weights are drawn from the seed, bit for bit those of
// PyTorch. DIR holds mnist/ (IDX files), cn_plates/ (pictures and train.tsv), mrpc/, sst2/,
// ag_news/ and models/bert_base_uncased_vocab/. The line is the last one on standard output.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	var o settings
	flag.StringVar(&o.workload, "workload", "mlp_tiny", "mlp, mlp_tiny, crnn, bert_small, bert_base, startup or "+
		"tokenize")
	flag.StringVar(&o.data, "data", "../shared/data", "folder of the data sets")
	flag.StringVar(&o.init, "init", "", "initial weights, a safetensors file; default: drawn from the workload's seed")
	flag.IntVar(&o.threads, "threads", 0, "threads within one operator; 0: libtorch's default")
	flag.IntVar(&o.steps, "steps", 0, "measured updates; 0: those of the workload")
	flag.IntVar(&o.warmup, "warmup", -1, "updates before them; negative: those of the workload")
	flag.StringVar(&o.precision, "precision", "fp32", "fp32 or bf16 (autocast)")
	flag.Float64Var(&o.dropout, "dropout", -1, "of the BERT workloads; negative: theirs")
	flag.StringVar(&o.losses, "losses", "", "write the loss of every update to this JSON file")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type settings struct {
	workload, data, init string
	threads              int
	steps, warmup        int
	precision, losses    string
	dropout              float64
}

func run(o settings) error {
	if o.workload == "tokenize" {
		result, err := tokenize(o)
		if err != nil {
			return err
		}
		return printLine(result)
	}
	w, ok := workloads[o.workload]
	if !ok {
		return fmt.Errorf("there is no workload %q", o.workload)
	}
	if o.steps > 0 {
		w.steps = o.steps
	}
	if o.warmup >= 0 {
		w.warmup = o.warmup
	}
	if o.threads > 0 {
		torch.SetThreads(o.threads)
	}
	r := &recorder{workload: w, losses: o.losses != ""}
	if err := w.train(o, w, r); err != nil {
		return err
	}
	if o.losses != "" {
		text, err := json.Marshal(r.all)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.losses, text, 0o644); err != nil {
			return err
		}
	}
	return printLine(r.result(o))
}

// printLine prints the line that the contract of the workloads asks for.
func printLine(result map[string]any) error {
	line, err := json.Marshal(result)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	return nil
}
