package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/curves"
)

// report saves the final model, classifies the evaluation texts with it, and prints and plots the
// results.
func report(o options, c classifier, t task, valid []bert.Sample, result *trainer.Result, took time.Duration) error {
	if err := c.save(modelFolder(o.out)); err != nil {
		return err
	}
	predictions, err := c.classify(valid)
	if err != nil {
		return err
	}
	if err := writeMisread(filepath.Join(o.out, "misread.tsv"), t, predictions); err != nil {
		return err
	}
	if err := curves.WriteFile(filepath.Join(o.out, "curves.png"), result.History, "loss", "eval_loss", "eval_accuracy",
		"eval_f1"); err != nil {
		return err
	}
	fmt.Printf("\n%d updates in %s, reading and evaluating included\n", result.GlobalStep, took.Round(time.Second))
	if err := printScores(t, predictions); err != nil {
		return err
	}
	if err := printConfusion(t, predictions); err != nil {
		return err
	}
	fmt.Printf("model      %s\nbeside it  curves.png, misread.tsv (the surest errors first), metrics.jsonl\n",
		modelFolder(o.out))
	return nil
}

// printScores prints a column for all evaluation texts. If some of them are in the training set
// too, a second column leaves those out.
func printScores(t task, predictions []prediction) error {
	header, rows := []string{""}, [][]string{{"texts"}, {"wrong"}, {"accuracy"}, {"precision"}, {"recall"}, {"F1"},
		{"Matthews"}}
	column := func(name string, counts func(i int) bool) {
		list, n, wrong := t.metrics(), 0, 0
		for i, e := range t.valid {
			if !counts(i) {
				continue
			}
			n++
			if predictions[i].class != e.label {
				wrong++
			}
			for _, m := range list {
				m.Add(predictions[i].class, e.label)
			}
		}
		f1 := list[1].Result()
		header = append(header, name)
		for i, cell := range []string{fmt.Sprint(n), fmt.Sprint(wrong), percent(list[0].Result()["accuracy"]),
			percent(f1["precision"]), percent(f1["recall"]),
			percent(f1["f1"]), fmt.Sprintf("%.3f", list[2].Result()[list[2].Name()])} {
			rows[i] = append(rows[i], cell)
		}
	}
	column(t.name, func(int) bool { return true })
	if unseen := t.unseen(); len(unseen) < len(t.valid) && len(unseen) > 0 {
		column("texts that no training text equals", func(i int) bool { return unseen[i] })
	}
	w := tablewriter.NewTable(os.Stdout, tablewriter.WithHeaderAutoFormat(tw.Off))
	w.Header(header)
	for _, row := range rows {
		if err := w.Append(row); err != nil {
			return err
		}
	}
	return w.Render()
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// printConfusion prints the confusion matrix.
func printConfusion(t task, predictions []prediction) error {
	n := len(t.labels)
	counts := make([][]int, n)
	for i := range counts {
		counts[i] = make([]int, n)
	}
	for i, e := range t.valid {
		counts[e.label][predictions[i].class]++
	}
	w := tablewriter.NewTable(os.Stdout, tablewriter.WithHeaderAutoFormat(tw.Off))
	header := []string{"is \\ was taken for"}
	w.Header(append(header, t.labels...))
	for i, label := range t.labels {
		row := []string{label}
		for _, c := range counts[i] {
			row = append(row, fmt.Sprint(c))
		}
		if err := w.Append(row); err != nil {
			return err
		}
	}
	return w.Render()
}

// writeMisread lists the misclassified texts, the most confident errors first.
func writeMisread(path string, t task, predictions []prediction) error {
	var wrong []int
	for i, e := range t.valid {
		if predictions[i].class != e.label {
			wrong = append(wrong, i)
		}
	}
	slices.SortStableFunc(wrong, func(i, j int) int { return cmp.Compare(predictions[j].Score, predictions[i].Score) })
	var text strings.Builder
	text.WriteString("label\ttaken_for\tprobability\ttext\tsecond_text\n")
	flat := strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")
	for _, i := range wrong {
		e := t.valid[i]
		fmt.Fprintf(&text, "%s\t%s\t%.4f\t%s\t%s\n", t.labels[e.label], predictions[i].Label, predictions[i].Score,
			flat.Replace(e.a), flat.Replace(e.b))
	}
	return os.WriteFile(path, []byte(text.String()), 0o666)
}
