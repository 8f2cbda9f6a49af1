package main

import (
	"fmt"
	"strings"
	"time"
)

// gpus are the numbers of GPUs in the tables.
var gpus = []int{8, 64, 256, 1024}

// report returns the generated part of docs/scale.md.
func report(a assumptions, f failures) string {
	var b strings.Builder
	updates(&b, a)
	road(&b, a)
	stragglers(&b)
	failing(&b, f)
	return b.String()
}

func ms(seconds float64) string { return fmt.Sprintf("%.1f", seconds*1e3) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }

func updates(b *strings.Builder, a assumptions) {
	b.WriteString("### An update\n\n" +
		"| model | GPUs | computing, ms | traffic, ms | visible traffic, ms | share of computing |\n" +
		"| --- | --- | --- | --- | --- | --- |\n")
	for _, w := range workloads {
		for _, n := range gpus {
			s := a.update(w, n)
			fmt.Fprintf(b, "| %s | %d | %s | %s | %.2f | %s |\n", w.name, n, ms(s.compute), ms(s.traffic), s.shows*1e3,
				percent(s.efficiency()))
		}
	}
}

func road(b *strings.Builder, a assumptions) {
	b.WriteString("\n### An update if gradients were summed in Go\n\n" +
		"| model | GPUs | computing, ms | traffic, ms | share of computing |\n" +
		"| --- | --- | --- | --- | --- |\n")
	for _, w := range workloads {
		if w.sharded {
			continue
		}
		for _, n := range []int{8, 1024} {
			s := a.inGo(w, n)
			fmt.Fprintf(b, "| %s | %d | %s | %s | %s |\n", w.name, n, ms(s.compute), ms(s.traffic), percent(s.efficiency()))
		}
	}
}

func stragglers(b *strings.Builder) {
	b.WriteString("\n### The slowest GPU\n\n" +
		"| GPUs | slower than the mean by | if times vary by 1 % | by 3 % |\n| --- | --- | --- | --- |\n")
	for _, n := range gpus {
		s := straggler(n)
		fmt.Fprintf(b, "| %d | %.2f sigma | %s | %s |\n", n, s, percent(0.01*s), percent(0.03*s))
	}
}

func failing(b *strings.Builder, f failures) {
	b.WriteString("\n### Failures\n\n" +
		"| GPUs | hours between failures | checkpoints cost | best interval, s | a hang at each failure costs |\n" +
		"| --- | --- | --- | --- | --- |\n")
	for _, n := range gpus {
		fmt.Fprintf(b, "| %d | %.0f | %.2f %% | %.0f | %.2f %% |\n", n, f.between(n).Hours(), f.checkpoints(n)*100,
			f.best(n).Round(time.Second).Seconds(), f.hangs(n)*100)
	}
}
