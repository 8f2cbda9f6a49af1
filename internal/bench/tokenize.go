package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/text"
)

const (
	callTexts    = 1000          // texts per call
	tokenizeTiny = 3000          // texts with -tiny
	checkMod     = 1_000_000_007 // modulus for the sum of all IDs
)

// tokenize tokenizes the sentences of SST-2 and the articles of AG News, in calls with a thousand
// texts; only the calls are timed. It does not need libtorch.
func tokenize(o settings) (map[string]any, error) {
	threads := o.threads
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(threads)
	texts, err := tokenizeTexts(o.data)
	if err != nil {
		return nil, err
	}
	batch := callTexts
	if o.batch > 0 {
		batch = o.batch
	}
	if o.tiny {
		texts = texts[:tokenizeTiny]
	}
	tokenizer, err := text.LoadTokenizer(filepath.Join(o.data, "models", "bert_base_uncased_vocab", "vocab.txt"))
	if err != nil {
		return nil, err
	}
	if tokenizer, err = tokenizer.WithTruncation(&text.Truncation{MaxLength: mostTokens}); err != nil {
		return nil, err
	}
	ctx, options := context.Background(), &text.EncodeOptions{Goroutines: threads}
	call := func(first int) ([][]int64, error) {
		return tokenizer.IDsBatch(ctx, text.Texts(texts[first:min(first+batch, len(texts))]...), options)
	}
	if _, err := call(0); err != nil {
		return nil, err
	}
	warm := sinceStart()
	var spent time.Duration
	var tokens, check int64
	steps := 0
	for first := 0; first < len(texts); first += batch {
		begin := time.Now()
		encoded, err := call(first)
		spent += time.Since(begin)
		if err != nil {
			return nil, err
		}
		steps++
		for _, ids := range encoded {
			tokens += int64(len(ids))
			for _, id := range ids {
				check += id
			}
		}
	}
	seconds := spent.Seconds()
	return result{workload: o.workload, steps: steps, seconds: seconds, samples: len(texts), firstStep: warm,
		first: tokens, last: check % checkMod, threads: threads,
	}.line(map[string]any{"tokens_per_s": round(float64(tokens)/seconds, 0), "batch": batch}), nil
}

// tokenizeTexts returns the first column of both files; that of SST-2 begins with a header.
func tokenizeTexts(folder string) ([]string, error) {
	var texts []string
	for _, file := range []struct {
		path    string
		heading int
	}{{"sst2/train.tsv", 1}, {"ag_news/sample10k.tsv", 0}} {
		data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file.path)))
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(data), "\n")
		for _, line := range lines[file.heading:] {
			if strings.TrimSpace(line) != "" {
				column, _, _ := strings.Cut(line, "\t")
				texts = append(texts, column)
			}
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("no texts in %s", folder)
	}
	return texts, nil
}
