package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/data/table"
	"github.com/gotrainer/gotrainer/examples/bert_classification/sms"
	"github.com/gotrainer/gotrainer/run"
)

// example is a text, or a pair of texts, with its class.
type example struct {
	a, b  string
	pair  bool // there is a second text, which may be empty
	label int
}

// task is a classification task: its labels, training texts and evaluation texts.
type task struct {
	name         string // describes the evaluation texts in tables
	labels       []string
	train, valid data.Slice[example]
}

// openTask reads the data set that -task names.
func openTask(ctx context.Context, o options) (task, error) {
	switch o.task {
	case "sms":
		return smsTask(ctx, o)
	case "csv":
		return tableTask(ctx, o)
	}
	return glueTask(ctx, o)
}

func smsTask(ctx context.Context, o options) (task, error) {
	messages, err := sms.Messages()
	if err != nil {
		return task{}, err
	}
	t := task{name: "messages held aside", labels: sms.Labels}
	all := data.Map(messages, func(m sms.Message) (example, error) { return example{a: m.Text, label: m.Label}, nil })
	return t.divided(ctx, all, o)
}

// divided sets a share of the examples, -hold-out, aside for evaluation.
func (t task) divided(ctx context.Context, all data.Dataset[example], o options) (task, error) {
	train, valid, err := data.Split(all, 1-o.holdOut, o.seed)
	if err != nil {
		return t, err
	}
	if t.train, err = data.Load(ctx, train); err != nil {
		return t, err
	}
	t.valid, err = data.Load(ctx, valid)
	return t, err
}

func glueTask(ctx context.Context, o options) (task, error) {
	g, err := glue.ByName(o.task)
	switch {
	case err != nil:
		return task{}, run.Usage(fmt.Errorf("-task %s: want sms, csv or a task of GLUE (%w)", o.task, err))
	case g.Labels == nil:
		return task{}, run.Usage(fmt.Errorf("-task %s: %s predicts numbers, and this program only classifies", o.task,
			g.Name))
	}
	from := cmp.Or(o.data, glue.Dataset)
	set, err := glue.LoadFrom(ctx, g.Name, from)
	if err != nil {
		return task{}, err
	}
	if set.Train == nil || set.Validation == nil {
		return task{}, fmt.Errorf("%s lacks the training or the validation set of %s", from, g.Name)
	}
	t := task{name: "validation set of " + g.Name, labels: g.Labels}
	form := func(e glue.Example) (example, error) { return example{e.A, e.B, g.Pairs(), e.Label}, nil }
	if t.train, err = data.Collect(ctx, set.Train, form); err != nil {
		return t, err
	}
	t.valid, err = data.Collect(ctx, set.Validation, form)
	return t, err
}

// tableTask reads the user's tables. Classes are numbered in the sorted order of their names.
func tableTask(ctx context.Context, o options) (task, error) {
	rows, err := readTable(ctx, o, o.train)
	if err != nil {
		return task{}, err
	}
	names := map[string]bool{}
	for _, r := range rows {
		names[r.label] = true
	}
	t := task{name: "texts set aside from " + o.train, labels: slices.Sorted(maps.Keys(names))}
	if len(t.labels) < 2 {
		return t, fmt.Errorf("%s: the column %s has the labels %q; want at least two classes", o.train, o.label,
			t.labels)
	}
	number := func(r labelled) (example, error) {
		i, found := slices.BinarySearch(t.labels, r.label)
		if !found {
			return example{}, fmt.Errorf("%s: the label %q is not in %s, whose classes are %q", o.valid, r.label,
				o.train, t.labels)
		}
		return example{r.a, r.b, o.pair != "", i}, nil
	}
	if o.valid == "" {
		return t.divided(ctx, data.Map(rows, number), o)
	}
	t.name = "texts of " + o.valid
	if t.train, err = data.Collect(ctx, rows, number); err != nil {
		return t, err
	}
	if rows, err = readTable(ctx, o, o.valid); err != nil {
		return t, err
	}
	t.valid, err = data.Collect(ctx, rows, number)
	return t, err
}

// labelled is a row of a table.
type labelled struct{ a, b, label string }

func readTable(ctx context.Context, o options, path string) (data.Slice[labelled], error) {
	rows, err := table.OpenRows[map[string]string](path, table.Format{})
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	return data.Collect(ctx, rows, func(row map[string]string) (labelled, error) {
		for _, column := range []string{o.text, o.pair, o.label} {
			if _, found := row[column]; column != "" && !found {
				return labelled{}, fmt.Errorf("%s has no column %q, only %q: name the columns with -text, -pair and "+
					"-label", path, column, slices.Sorted(maps.Keys(row)))
			}
		}
		l := labelled{a: row[o.text], label: strings.TrimSpace(row[o.label])}
		if l.label == "" {
			return l, fmt.Errorf("%s: the text %q has no label", path, l.a)
		}
		if o.pair != "" {
			l.b = row[o.pair]
		}
		return l, nil
	})
}

// checkSizes returns an error if either set is empty.
func (t task) checkSizes() error {
	if len(t.train) == 0 || len(t.valid) == 0 {
		return fmt.Errorf("there are %d texts to learn from and %d to evaluate with; want at least one of each",
			len(t.train), len(t.valid))
	}
	return nil
}

// unseen returns the indices of the evaluation examples that do not also occur, word for word, in
// the training set.
func (t task) unseen() map[int]bool {
	type texts struct{ a, b string }
	seen := make(map[texts]bool, len(t.train))
	for _, e := range t.train {
		seen[texts{e.a, e.b}] = true
	}
	unseen := map[int]bool{}
	for i, e := range t.valid {
		if !seen[texts{e.a, e.b}] {
			unseen[i] = true
		}
	}
	return unseen
}
