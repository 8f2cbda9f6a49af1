// Package curves draws the numbers of a run over its updates, a panel for each, into one PNG:
//
//	err := curves.WriteFile("runs/a/curves.png", result.History, "loss", "eval_cer")
package curves

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"

	"github.com/google/renameio/v2"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/gotrainer/gotrainer/trainer"
)

const (
	width  = 9 * vg.Inch
	height = 3 * vg.Inch // of one panel
)

// WriteFile draws into a file, which appears only when it is complete. See [Write].
func WriteFile(path string, history []trainer.Logs, names ...string) error {
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o666),
		renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("curves: %w", err)
	}
	defer func() { _ = file.Cleanup() }() // does nothing once the file is in place
	if err := Write(file, history, names...); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

// Write draws a panel for each name that the log has: the values of its rows over "step". Names
// without a finite value are left out; it is an error if none is left.
func Write(w io.Writer, history []trainer.Logs, names ...string) error {
	var panels [][]*plot.Plot
	for _, name := range names {
		points := pointsOf(history, name)
		if len(points) == 0 {
			continue
		}
		p, err := panel(name, points)
		if err != nil {
			return fmt.Errorf("curves: %w", err)
		}
		panels = append(panels, []*plot.Plot{p})
	}
	if len(panels) == 0 {
		return fmt.Errorf("curves: the log has no values of %q (%d rows)", names, len(history))
	}
	canvas := vgimg.New(width, height*vg.Length(len(panels)))
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadTop: vg.Millimeter, PadBottom: vg.Millimeter,
		PadLeft: vg.Millimeter, PadRight: 4 * vg.Millimeter, PadY: 3 * vg.Millimeter}
	for i, row := range plot.Align(panels, tiles, draw.New(canvas)) {
		panels[i][0].Draw(row[0])
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func pointsOf(history []trainer.Logs, name string) (points plotter.XYs) {
	for _, row := range history {
		y, ok := row[name]
		if ok && !math.IsNaN(y) && !math.IsInf(y, 0) {
			points = append(points, plotter.XY{X: row["step"], Y: y})
		}
	}
	return points
}

func panel(name string, points plotter.XYs) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = "update"
	p.Y.Label.Text = name
	p.X.Min = 0
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return nil, err
	}
	line.Color = color.RGBA{R: 0x1f, G: 0x4e, B: 0x9e, A: 0xff}
	line.Width = vg.Points(1.2)
	marks.Color, marks.Radius, marks.Shape = line.Color, vg.Points(1.6), draw.CircleGlyph{}
	p.Add(plotter.NewGrid(), line)
	if len(points) <= 60 {
		p.Add(marks)
	}
	return p, nil
}
