// Command growth measures how costs grow with the size of the work: batch, width, length of the
// texts, samples of the data set, bytes of a checkpoint, goroutines of the loader. It draws a plot
// for each and writes a table, in less than five minutes on an idle machine:
//
//	go run ./scripts/growth -out docs/growth
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/torch"
)

func main() {
	out := flag.String("out", "docs/growth", "the folder of the plots and of table.md")
	only := flag.String("only", "", "the quantities to measure, separated by commas; empty: all")
	tiny := flag.Bool("tiny", false, "the two smallest sizes of each, to see that it runs")
	threads := flag.Int("threads", 1, "threads within one operator")
	flag.Parse()
	if err := run(*out, *only, *tiny, *threads); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(out, only string, tiny bool, threads int) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	torch.SetThreads(threads)
	torch.ManualSeed(1)
	budget := 2 * time.Second
	if tiny {
		budget = 0
	}
	series := make([]measured, len(chosen))
	for i, q := range chosen {
		if tiny {
			q.sizes = q.sizes[:2]
		}
		if series[i], err = q.measure(budget); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		if err := series[i].draw(filepath.Join(out, q.name+".png")); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, series[i].summary())
	}
	return os.WriteFile(filepath.Join(out, "table.md"), []byte(table(series, machine(threads))), 0o666)
}

// choose returns the quantities named in a list, in the order of the table.
func choose(only string) ([]quantity, error) {
	if only == "" {
		return quantities, nil
	}
	var chosen []quantity
	for _, name := range strings.Split(only, ",") {
		q, ok := named(name)
		if !ok {
			return nil, fmt.Errorf("-only: there is no quantity %q; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, q)
	}
	return chosen, nil
}
