package expected

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/glue"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/text"
)

// defaultVocab is the vocabulary for files that do not name one.
const defaultVocab = "models/bert_base_uncased_vocab/vocab.txt"

// tokenCase is a text or a pair, with the output of bert-base-uncased's tokenizer.
type tokenCase struct {
	Text    string   `json:"text"`
	Pair    *string  `json:"pair"`
	IDs     []int64  `json:"ids"`
	Tokens  []string `json:"tokens"`
	TypeIDs []int64  `json:"type_ids"`
	Offsets [][2]int `json:"offsets"` // in characters
}

// tokenRow describes a row of MRPC.
type tokenRow struct {
	IDs        []int64 `json:"ids"`
	FirstType1 int     `json:"first_type1"`
}

// tokenStats are totals over a part of MRPC.
type tokenStats struct {
	Pairs  int `json:"pairs"`
	Min    int `json:"min"`
	Max    int `json:"max"`
	Tokens int `json:"tokens"`
}

// readTokens reads the format with the fields "cases" (texts), "dev" (rows of MRPC's development
// set) and "stats" (totals of MRPC's parts).
func readTokens(d *document) (entries []Entry) {
	vocab := textOf(d, "vocab", defaultVocab)
	load := sync.OnceValues(func() (*text.Tokenizer, error) {
		return text.LoadTokenizer(filepath.Join(d.options.Data, vocab))
	})
	tokenizer := func() *text.Tokenizer { return spec.Must(load()) }
	if d.fields["cases"] != nil {
		for i, raw := range fieldOf[[]json.RawMessage](d, "cases") {
			entries = append(entries, entry(fmt.Sprintf("cases[%d]", i), func() {
				c := decode[tokenCase](raw)
				c.run(tokenizer())
			}))
		}
	}
	if raw, ok := d.fields["dev"]; ok {
		entries = append(entries, entry("dev", func() {
			rows := decode[[]tokenRow](raw)
			runRows(tokenizer(), d.options.Data, rows)
		}))
	}
	if d.fields["stats"] != nil {
		entries = append(entries, entriesOf(d, "stats", func(name string, want tokenStats) {
			want.run(tokenizer(), d.options.Data, name)
		})...)
	}
	return entries
}

func (c *tokenCase) run(t *text.Tokenizer) {
	if c.IDs == nil {
		unsupported("nothing to compare: want a field ids")
	}
	in := text.Single(c.Text)
	if c.Pair != nil {
		in = text.Pair(c.Text, *c.Pair)
	}
	e := spec.Must(t.EncodeInput(in, nil))
	var offsets [][2]int
	for _, o := range e.Offsets {
		offsets = append(offsets, [2]int{o.Start, o.End})
	}
	sameList(c, "ids", e.IDs, c.IDs)
	sameList(c, "ids alone", spec.Must(t.AppendIDs(nil, in, nil)), c.IDs)
	sameList(c, "tokens", e.Tokens, c.Tokens)
	sameList(c, "type ids", e.TypeIDs, c.TypeIDs)
	sameList(c, "offsets", offsets, c.Offsets)
}

// sameList compares with a list, if there is one.
func sameList[T comparable](c *tokenCase, what string, got, want []T) {
	if want != nil && !slices.Equal(got, want) {
		spec.Failf("%q: %s are %v, want %v", c.Text, what, got, want)
	}
}

// mrpc opens a part of MRPC, named by its file.
func mrpc(folder, part string) (data.Dataset[glue.Example], error) {
	set, err := glue.Open(filepath.Join(folder, "mrpc"), glue.MRPC)
	if err != nil {
		return nil, err
	}
	rows := map[string]data.Dataset[glue.Example]{"train": set.Train, "dev": set.Validation, "test": set.Test}[part]
	if rows == nil {
		return nil, fmt.Errorf("mrpc has no part %q", part)
	}
	return rows, nil
}

// mrpcPairs returns the pairs of a part, in the order of its rows.
func mrpcPairs(folder, part string) (pairs []text.Input) {
	rows := spec.Must(mrpc(folder, part))
	for i := range rows.Len() {
		row := spec.Must(rows.At(i))
		pairs = append(pairs, text.Pair(row.A, row.B))
	}
	return pairs
}

func runRows(t *text.Tokenizer, folder string, rows []tokenRow) {
	pairs := mrpcPairs(folder, "dev")
	equal("the number of pairs of mrpc/dev.tsv", len(pairs), len(rows))
	for i, row := range rows {
		e := spec.Must(t.EncodeInput(pairs[i], nil))
		if !slices.Equal(e.IDs, row.IDs) {
			spec.Failf("row %d: ids are %v, want %v", i, e.IDs, row.IDs)
		}
		equal(fmt.Sprintf("row %d: the first token of type 1", i), slices.Index(e.TypeIDs, 1), row.FirstType1)
	}
}

func (want tokenStats) run(t *text.Tokenizer, folder, part string) {
	pairs := mrpcPairs(folder, part)
	got := tokenStats{Pairs: len(pairs)}
	for i, p := range pairs {
		n := len(spec.Must(t.AppendIDs(nil, p, nil)))
		if i == 0 || n < got.Min {
			got.Min = n
		}
		got.Max = max(got.Max, n)
		got.Tokens += n
	}
	equal("mrpc/"+part+".tsv", got, want)
}
