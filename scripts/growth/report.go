package main

import (
	"fmt"
	"image/color"
	"os"
	"runtime"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// draw plots time against size on logarithmic axes: a linear cost is a straight line parallel to
// the grid's diagonal.
func (m measured) draw(path string) error {
	p := plot.New()
	p.Title.Text = m.what
	p.X.Label.Text, p.Y.Label.Text = m.axis, "ms"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	for _, line := range []struct {
		name string
		of   func(point) float64
		ink  color.RGBA
	}{
		{"wall clock", func(p point) float64 { return p.wall }, color.RGBA{0x1f, 0x4e, 0x9e, 0xff}},
		{"processor", func(p point) float64 { return p.cpu }, color.RGBA{0xb0, 0x4a, 0x1e, 0xff}},
	} {
		points := make(plotter.XYs, len(m.points))
		for i, at := range m.points {
			points[i] = plotter.XY{X: float64(at.size), Y: max(line.of(at), 1e-3)} // the resolution of the clock
		}
		path, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		path.Color, path.Width = line.ink, vg.Points(1.2)
		marks.Color, marks.Radius, marks.Shape = line.ink, vg.Points(2), draw.CircleGlyph{}
		p.Add(path, marks)
		p.Legend.Add(line.name, path, marks)
	}
	p.Legend.Top, p.Legend.Left = true, true
	return p.Save(6*vg.Inch, 4*vg.Inch, path)
}

func (m measured) summary() string {
	last := m.points[len(m.points)-1]
	return fmt.Sprintf("%s: %d sizes, exponent %.2f, %.3g ms at %d", m.name, len(m.points), m.exponent(), last.wall,
		last.size)
}

// table returns a page with a table of the quantities and, below, one of all sizes.
func table(series []measured, machine string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# How costs grow\n\nWritten by `go run ./scripts/growth`. %s\nMedians of rounds. The exponent is "+
		"that of the wall clock over the larger half of the sizes: 0 does not grow, 1 grows in proportion.\n\n", machine)
	b.WriteString("| what | over | sizes | exponent | plot |\n| --- | --- | --- | ---: | --- |\n")
	for _, m := range series {
		fmt.Fprintf(&b, "| %s | %s | %d to %d | %.2f | [%s.png](%s.png) |\n", m.what, m.axis, m.points[0].size,
			m.points[len(m.points)-1].size, m.exponent(), m.name, m.name)
	}
	for _, m := range series {
		fmt.Fprintf(&b, "\n## %s\n%s.\n\n| %s | wall clock, ms | processor, ms | allocated in Go, kB |\n"+
			"| ---: | ---: | ---: | ---: |\n", m.name, strings.ToUpper(m.what[:1])+m.what[1:], m.axis)
		for _, p := range m.points {
			fmt.Fprintf(&b, "| %d | %.3g | %.3g | %.0f |\n", p.size, p.wall, p.cpu, p.bytes/1000)
		}
	}
	return b.String()
}

// machine describes where and when the measurements were made.
func machine(threads int) string {
	load := "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(text), " ")
	}
	return fmt.Sprintf("%s: %d CPUs, %s, %s, threads within an operator: %d, load average %s.",
		time.Now().Format("2 January 2006"), runtime.NumCPU(), model(), runtime.Version(), threads, load)
}

// model returns the name of the CPU as reported by Linux.
func model() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
