package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The tables are between these two marks of the document.
const (
	begin = "<!-- make bench-compare writes from here -->"
	end   = "<!-- to here -->"
)

func millis(l line) float64 { return l.Millis }

// memory is the peak memory of a program: of the GPU if it used one, otherwise of the host.
func memory(l line) float64 {
	if l.GPUMemory > 0 {
		return l.GPUMemory
	}
	return l.Memory
}

// report returns the tables, one for each number of threads.
func report(machine string, at time.Time, o options, results []compared) string {
	var b strings.Builder
	least, most, versions := 1e9, 0., map[string]string{}
	for _, c := range results {
		least, most = min(least, c.load), max(most, c.load)
		for _, runs := range c.runs {
			for _, r := range runs {
				maps.Copy(versions, r.Versions)
			}
		}
	}
	var packages []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		packages = append(packages, name+" "+versions[name])
	}
	fmt.Fprintf(&b, "%s: %s, load average %.1f to %.1f before a row.\n", at.Format("2 January 2006"), machine, least,
		most)
	fmt.Fprintf(&b, "Python: %s.\n", strings.Join(packages, ", "))
	fmt.Fprintf(&b, "Medians of %d rounds, with the range; times in ms a step.\n", o.rounds)
	fmt.Fprint(&b, "A ratio is the peer's figure divided by ours, round by round.\n")
	if o.kind() == gpu {
		fmt.Fprintf(&b, "Device: %s; memory is the GPU's, of tensors.\n", o.device)
	}
	if o.tiny {
		fmt.Fprint(&b, "A few steps only: these are no measurements.\n")
	}
	for _, threads := range threadsOf(results) {
		fmt.Fprintf(&b, "\nThreads within an operator: %d.\n\n", threads)
		fmt.Fprint(&b, "| work | peer | ours | the peer's | ratio of times | ratio of memory | same work |\n",
			"| --- | --- | --- | --- | --- | --- | --- |\n")
		for _, c := range results {
			if c.threads == threads {
				c.write(&b)
			}
		}
	}
	return b.String()
}

func threadsOf(results []compared) (all []int) {
	for _, c := range results {
		if !slices.Contains(all, c.threads) {
			all = append(all, c.threads)
		}
	}
	return all
}

// write writes a row's lines of the table, one per peer.
func (c compared) write(b *strings.Builder) {
	our := c.runs[ours]
	for _, peer := range c.row.peers {
		if why := c.skipped[peer]; why != "" {
			fmt.Fprintf(b, "| `%s` | %s | %v | %s | | | |\n", c.row.name, peer, spreadOf(of(our, millis)), why)
			continue
		}
		runs := c.runs[peer]
		same := "yes"
		if d := doubts(our[0], runs[0]); len(d) > 0 {
			same = "no: " + strings.Join(d, "; ")
		}
		fmt.Fprintf(b, "| `%s` | %s | %v | %v | %v | %.2f | %s |\n", c.row.name, peer, spreadOf(of(our, millis)),
			spreadOf(of(runs, millis)), spreadOf(ratios(runs, our, millis)), spreadOf(ratios(runs, our, memory)).median,
			same)
	}
}

// replace replaces the text between the marks of a document.
func replace(document, text string) (string, error) {
	before, rest, ok := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("there are no lines %q and %q to write between", begin, end)
	}
	return before + begin + "\n" + text + end + after, nil
}
