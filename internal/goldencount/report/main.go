// Command report sums up what golden tests have counted (package internal/goldencount):
//
//	go run ./internal/goldencount/report -least 1200 FILE
//
// It prints the cases of each family and how many are equal in every bit, then those that are not,
// with their reasons. The exit status is 1 if there are fewer cases than -least, or one that failed
// or differs for no stated reason.
package main

import (
	"flag"
	"fmt"
	"io"
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

// report reads the records and prints their sums.
func report(in io.Reader, out io.Writer, least int) error {
	records, err := goldencount.Read(in)
	if err != nil {
		return err
	}
	type sum struct{ cases, equal int }
	families, all, bad := map[string]sum{}, sum{}, 0
	var different []goldencount.Record
	for _, r := range records {
		s := families[r.Family]
		s.cases++
		all.cases++
		if r.Equal == r.Compared && !r.Failed {
			s.equal++
			all.equal++
		} else {
			different = append(different, r)
		}
		families[r.Family] = s
	}
	var names []string
	for name := range families {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(out, "%-28s %8s %10s\n", "family", "cases", "bit-equal")
	for _, name := range names {
		fmt.Fprintf(out, "%-28s %8d %10d\n", name, families[name].cases, families[name].equal)
	}
	fmt.Fprintf(out, "%d compared cases, %d of them equal in every bit (%.1f%%)\n", all.cases, all.equal,
		100*float64(all.equal)/float64(max(1, all.cases)))
	if len(different) > 0 {
		fmt.Fprintf(out, "not equal in every bit: %d\n", len(different))
	}
	for _, r := range different {
		reason := r.Reason
		switch {
		case r.Failed:
			reason = "THE TEST FAILED"
			bad++
		case reason == "":
			reason = "NO REASON IS GIVEN"
			bad++
		}
		fmt.Fprintf(out, "  %s/%s: %d of %d: %s\n", r.Family, r.Name, r.Compared-r.Equal, r.Compared, reason)
	}
	if bad > 0 {
		return fmt.Errorf("%d cases failed or differ for no stated reason", bad)
	}
	if all.cases < least {
		return fmt.Errorf("%d cases were compared, want at least %d", all.cases, least)
	}
	return nil
}
