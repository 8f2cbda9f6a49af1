package table_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
)

// TestRealFiles checks the numbers of rows and labels that the READMEs of public data sets state.
func TestRealFiles(t *testing.T) {
	root := filepath.Join("..", "..", "..", "shared", "data")
	for _, c := range []struct {
		name, file string
		format     table.Format
		label      string // the label to count
		rows, want int
	}{
		{"SMS spam", "sms_spam/sms.tsv", table.Format{Columns: []string{"label", "text"}}, "spam", 5574, 747},
		{"AG News", "ag_news/sample10k.tsv", table.Format{Columns: []string{"text", "label"}}, "World", 10_001, 2509},
	} {
		path := filepath.Join(root, c.file)
		if _, err := os.Stat(path); err != nil {
			t.Skipf("the data sets are not here: %v", err)
		}
		rows, err := table.OpenRows[message](path, c.format)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		labelled, err := data.Filter(context.Background(), rows, func(m message) (bool, error) {
			return m.Label == c.label, nil
		})
		if err != nil || rows.Len() != c.rows || labelled.Len() != c.want {
			t.Errorf("%s: %d rows, %v, want %d and %d of %q", c.name, rows.Len(), err, c.rows, c.want, c.label)
		}
	}
	trec, err := table.OpenRows[string](filepath.Join(root, "trec/train.txt"), table.Format{Encoding: table.Latin1})
	if err != nil {
		t.Fatal(err)
	}
	people, err := data.Filter(context.Background(), trec, func(line string) (bool, error) {
		return strings.HasPrefix(line, "HUM:"), nil
	})
	if err != nil || trec.Len() != 5452 || people.Len() != 1223 {
		t.Errorf("TREC: %d lines, %v", trec.Len(), err)
	}
	for _, file := range []string{"rt-polarity.neg", "rt-polarity.pos"} {
		lines, err := table.OpenRows[string](filepath.Join(root, "rt_polarity", file),
			table.Format{Syntax: table.Lines})
		if err != nil || lines.Len() != 5331 {
			t.Errorf("%s: %v", file, err)
		}
	}
}
