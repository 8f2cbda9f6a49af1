// Command report sums up what golden tests have counted (package internal/goldencount):
//
//	go run ./internal/goldencount/report -least 1200 FILE
//
// It prints the cases of each family: how many are bitwise equal, how many within tolerance, how
// many failed; then the cases that are not bitwise, under their reasons. The exit status is 1 if
// there are fewer cases than -least, or one that failed or differs for no stated reason.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/gotrainer/gotrainer/internal/goldencount"
)

func main() {
	least := flag.Int("least", 0, "how many cases there must be")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: report [-least N] FILE")
		os.Exit(2)
	}
	f, err := os.Open(flag.Arg(0))
	if err == nil {
		defer f.Close()
		err = report(f, os.Stdout, *least)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// report reads the records and prints the totals.
func report(in io.Reader, out io.Writer, least int) error {
	records, err := goldencount.Read(in)
	if err != nil {
		return err
	}
	families, all := map[string]*sum{}, new(sum)
	different := map[string][]goldencount.Record{}
	for _, r := range goldencount.Join(records) {
		if families[r.Family] == nil {
			families[r.Family] = new(sum)
		}
		reason := families[r.Family].add(r)
		all.add(r)
		if reason != "" {
			different[reason] = append(different[reason], r)
		}
	}
	fmt.Fprintf(out, "%-28s %8s %8s %17s %8s\n", "family", "cases", "bitwise", "within tolerance", "failed")
	for _, name := range slices.Sorted(maps.Keys(families)) {
		s := families[name]
		fmt.Fprintf(out, "%-28s %8d %8d %17d %8d\n", name, s.cases, s.bitwise, s.within, s.failed)
	}
	fmt.Fprintf(out, "%d compared cases: %d bitwise, %d within tolerance, %d failed\n", all.cases, all.bitwise,
		all.within,
		all.failed)
	for _, reason := range slices.Sorted(maps.Keys(different)) {
		fmt.Fprintf(out, "%s:\n", reason)
		for _, r := range different[reason] {
			fmt.Fprintf(out, "  %s/%s: %d of %d\n", r.Family, r.Name, r.Compared-r.Equal, r.Compared)
		}
	}
	if all.failed > 0 {
		return fmt.Errorf("%d cases failed or differ for no stated reason", all.failed)
	}
	if all.cases < least {
		return fmt.Errorf("%d cases were compared, want at least %d", all.cases, least)
	}
	return nil
}

// sum counts cases by result.
type sum struct{ cases, bitwise, within, failed int }

// add counts a case, and returns why it is not bitwise equal; empty if it is.
func (s *sum) add(r goldencount.Record) (reason string) {
	s.cases++
	switch {
	case r.Failed:
		s.failed++
		return "THE TEST FAILED"
	case r.Equal == r.Compared:
		s.bitwise++
		return ""
	case r.Reason == "":
		s.failed++
		return "NO REASON IS GIVEN"
	}
	s.within++
	return r.Reason
}
