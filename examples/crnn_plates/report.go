package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/examples/crnn_plates/plates"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/curves"
	"github.com/gotrainer/gotrainer/vision/sheet"
)

// row is a line of the final table: the results on one set of images.
type row struct {
	name       string
	read       int
	exact, cer float64
}

// report saves the best model, evaluates it on every set, and prints and draws the results.
func report(o options, model *crnn.Model, t task, photos []named, result *trainer.Result, took time.Duration) error {
	if err := model.Save(modelFolder(o.out)); err != nil {
		return err
	}
	var rows []row
	unseen, cells, err := evaluate(model, t.name, t.valid)
	if err != nil {
		return err
	}
	rows = append(rows, unseen)
	for _, set := range photos {
		r, c, err := evaluate(model, set.name, set.pictures)
		if err != nil {
			return err
		}
		rows, cells = append(rows, r), append(cells, c...)
	}
	fmt.Printf("\n%d updates in %s\n", result.GlobalStep, took.Round(time.Second))
	if err := printTable(rows); err != nil {
		return err
	}
	if err := curves.WriteFile(filepath.Join(o.out, "curves.png"), result.History, "loss", "eval_cer"); err != nil {
		return err
	}
	if err := writePredictions(filepath.Join(o.out, "predictions.tsv"), cells); err != nil {
		return err
	}
	title := fmt.Sprintf("%s: %.1f%% exact", t.name, 100*unseen.exact)
	if err := drawSheet(filepath.Join(o.out, "predictions.png"), wrongFirst(cells, 120), title); err != nil {
		return err
	}
	fmt.Printf("model      %s\nbeside it  curves.png, predictions.png (wrong ones first, in red), predictions.tsv\n",
		modelFolder(o.out))
	if o.predict != "" {
		return predictFolder(o, model)
	}
	return nil
}

// drawSheet draws as many of the first cells as fit on a sheet, fewer if the images are wide.
func drawSheet(path string, cells []sheet.Cell, title string) error {
	o := sheet.Options{Title: title}
	for len(cells) > 1 {
		if _, err := sheet.Draw(cells, o); err == nil {
			break
		}
		cells = cells[:len(cells)-1]
	}
	return sheet.WriteFile(path, cells, o)
}

// named is a set of images with its name in the table.
type named struct {
	name     string
	pictures pictures
}

// photographs returns the real photographs to read at the end: those of -test and, for the plate
// reader, the one that ships with the example.
func photographs(o options, c crnn.Config) (sets []named, err error) {
	if o.train == "" {
		image, label, err := plates.Photo()
		if err != nil {
			return nil, err
		}
		if image, err = plates.Fit(image); err != nil {
			return nil, err
		}
		sets = append(sets, named{"photograph that ships with the example",
			data.Slice[crnn.Picture]{{Image: image, Text: label}}})
	}
	if o.test != "" {
		files, err := readTable(o.test, "")
		if err != nil {
			return nil, err
		}
		test, err := crnn.OpenPictures(files, c, crnn.PictureOptions{SkipBad: o.skip()})
		if err != nil {
			return nil, err
		}
		sets = append(sets, named{"pictures of " + o.test, test})
	}
	return sets, nil
}

// evaluate reads the images of a data set and compares the results with the labels.
func evaluate(model *crnn.Model, name string, set pictures) (row, []sheet.Cell, error) {
	var cer metrics.CER
	var exact metrics.ExactMatch
	cells := make([]sheet.Cell, 0, set.Len())
	for start := 0; start < set.Len(); start += 50 {
		var batch [][]float32
		for i := start; i < min(start+50, set.Len()); i++ {
			p, err := set.At(i)
			if err != nil {
				return row{}, nil, err
			}
			pixels, err := model.Config().Pixels(p.Image)
			if err != nil {
				return row{}, nil, err
			}
			batch = append(batch, pixels)
			cells = append(cells, sheet.Cell{Image: p.Image, Want: p.Text})
		}
		readings, err := model.Read(batch...)
		if err != nil {
			return row{}, nil, err
		}
		for i, r := range readings {
			c := &cells[start+i]
			c.Read, c.Note = r.Text, fmt.Sprintf("%.2f", r.Score)
			cer.Add(r.Text, c.Want)
			exact.Add(r.Text, c.Want)
		}
	}
	return row{name, set.Len(), exact.Result()["exact_match"], cer.Result()["cer"]}, cells, nil
}

// wrongFirst picks at most n cells for the sheet, misread ones first.
func wrongFirst(cells []sheet.Cell, n int) []sheet.Cell {
	var wrong, right []sheet.Cell
	for _, c := range cells {
		if c.Wrong() {
			wrong = append(wrong, c)
		} else {
			right = append(right, c)
		}
	}
	all := append(wrong, right...)
	return all[:min(n, len(all))]
}

func writePredictions(path string, cells []sheet.Cell) error {
	var text strings.Builder
	text.WriteString("read\tlabel\tscore\n")
	for _, c := range cells {
		fmt.Fprintf(&text, "%s\t%s\t%s\n", c.Read, c.Want, c.Note)
	}
	return os.WriteFile(path, []byte(text.String()), 0o666)
}

func printTable(rows []row) error {
	t := tablewriter.NewTable(os.Stdout, tablewriter.WithHeaderAutoFormat(tw.Off))
	t.Header("pictures", "read", "exact", "CER")
	for _, r := range rows {
		if err := t.Append(r.name, fmt.Sprint(r.read), fmt.Sprintf("%.1f %%", 100*r.exact), fmt.Sprintf("%.2f %%",
			100*r.cer)); err != nil {
			return err
		}
	}
	return t.Render()
}
