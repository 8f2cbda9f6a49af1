package expected

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gotrainer/gotrainer/text"
)

// defaultVocab is the vocabulary of files that name none.
const defaultVocab = "models/bert_base_uncased_vocab/vocab.txt"

// tokenCase is a text, or a pair, and what bert-base-uncased's tokenizer makes of it.
type tokenCase struct {
	Text    string   `json:"text"`
	Pair    *string  `json:"pair"`
	IDs     []int64  `json:"ids"`
	Tokens  []string `json:"tokens"`
	TypeIDs []int64  `json:"type_ids"`
	Offsets [][2]int `json:"offsets"` // in characters
}

// tokenRow is what is said of a row of MRPC.
type tokenRow struct {
	IDs        []int64 `json:"ids"`
	FirstType1 int     `json:"first_type1"`
}

// tokenStats are sums over a part of MRPC.
type tokenStats struct {
	Pairs  int `json:"pairs"`
	Min    int `json:"min"`
	Max    int `json:"max"`
	Tokens int `json:"tokens"`
}

// readTokens reads the form with the fields "cases" (texts), "dev" (rows of MRPC's development set)
// and "stats" (of MRPC's parts).
func readTokens(d *document) ([]Entry, error) {
	vocab := defaultVocab
	if raw, ok := d.fields["vocab"]; ok {
		if err := json.Unmarshal(raw, &vocab); err != nil {
			return nil, fmt.Errorf("field %q: %w", "vocab", err)
		}
	}
	tokenizer := sync.OnceValues(func() (*text.Tokenizer, error) {
		return text.LoadTokenizer(filepath.Join(d.options.Data, vocab))
	})
	var entries []Entry
	if raw, ok := d.fields["cases"]; ok {
		var cases []json.RawMessage
		if err := json.Unmarshal(raw, &cases); err != nil {
			return nil, fmt.Errorf("field %q: %w", "cases", err)
		}
		for i, raw := range cases {
			entries = append(entries, Entry{fmt.Sprintf("cases[%d]", i), func() error {
				c, err := decode[tokenCase](raw)
				if err != nil {
					return err
				}
				t, err := tokenizer()
				if err != nil {
					return err
				}
				return c.run(t)
			}})
		}
	}
	if raw, ok := d.fields["dev"]; ok {
		entries = append(entries, Entry{"dev", func() error {
			rows, err := decode[[]tokenRow](raw)
			if err != nil {
				return err
			}
			t, err := tokenizer()
			if err != nil {
				return err
			}
			return runRows(t, d.options.Data, rows)
		}})
	}
	if _, ok := d.fields["stats"]; ok {
		stats, err := entriesOf(d, "stats", func(name string, want tokenStats) error {
			t, err := tokenizer()
			if err != nil {
				return err
			}
			return want.run(t, d.options.Data, name)
		})
		if err != nil {
			return nil, err
		}
		entries = append(entries, stats...)
	}
	return entries, nil
}

func (c *tokenCase) run(t *text.Tokenizer) error {
	if c.IDs == nil {
		return unsupported("nothing to compare: want a field ids")
	}
	in := text.Single(c.Text)
	if c.Pair != nil {
		in = text.Pair(c.Text, *c.Pair)
	}
	e, err := t.EncodeInput(in, nil)
	if err != nil {
		return err
	}
	ids, err := t.AppendIDs(nil, in, nil)
	if err != nil {
		return err
	}
	var offsets [][2]int
	for _, o := range e.Offsets {
		offsets = append(offsets, [2]int{o.Start, o.End})
	}
	switch {
	case !slices.Equal(e.IDs, c.IDs):
		return fmt.Errorf("%q: ids are %v, want %v", c.Text, e.IDs, c.IDs)
	case !slices.Equal(ids, c.IDs):
		return fmt.Errorf("%q: ids alone are %v, want %v", c.Text, ids, c.IDs)
	case c.Tokens != nil && !slices.Equal(e.Tokens, c.Tokens):
		return fmt.Errorf("%q: tokens are %q, want %q", c.Text, e.Tokens, c.Tokens)
	case c.TypeIDs != nil && !slices.Equal(e.TypeIDs, c.TypeIDs):
		return fmt.Errorf("%q: type ids are %v, want %v", c.Text, e.TypeIDs, c.TypeIDs)
	case c.Offsets != nil && !slices.Equal(offsets, c.Offsets):
		return fmt.Errorf("%q: offsets are %v, want %v", c.Text, offsets, c.Offsets)
	}
	return nil
}

// mrpcPairs returns the pairs of a part of MRPC, in the order of its rows.
func mrpcPairs(data, part string) ([]text.Input, error) {
	path := filepath.Join(data, "mrpc", part+".tsv")
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var pairs []text.Input
	for i, line := range strings.Split(strings.TrimRight(string(content), "\r\n"), "\n") {
		fields := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		if len(fields) != 5 {
			return nil, fmt.Errorf("%s: line %d has %d fields; want 5", path, i+1, len(fields))
		}
		if i > 0 {
			pairs = append(pairs, text.Pair(fields[3], fields[4]))
		}
	}
	return pairs, nil
}

func runRows(t *text.Tokenizer, data string, rows []tokenRow) error {
	pairs, err := mrpcPairs(data, "dev")
	if err != nil {
		return err
	}
	if len(pairs) != len(rows) {
		return fmt.Errorf("mrpc/dev.tsv has %d pairs, want %d", len(pairs), len(rows))
	}
	for i, row := range rows {
		e, err := t.EncodeInput(pairs[i], nil)
		if err != nil {
			return err
		}
		if !slices.Equal(e.IDs, row.IDs) {
			return fmt.Errorf("row %d: ids are %v, want %v", i, e.IDs, row.IDs)
		}
		if first := slices.Index(e.TypeIDs, 1); first != row.FirstType1 {
			return fmt.Errorf("row %d: the first token of type 1 is %d, want %d", i, first, row.FirstType1)
		}
	}
	return nil
}

func (want tokenStats) run(t *text.Tokenizer, data, part string) error {
	pairs, err := mrpcPairs(data, part)
	if err != nil {
		return err
	}
	got := tokenStats{Pairs: len(pairs)}
	for i, p := range pairs {
		ids, err := t.AppendIDs(nil, p, nil)
		if err != nil {
			return err
		}
		if i == 0 || len(ids) < got.Min {
			got.Min = len(ids)
		}
		got.Max = max(got.Max, len(ids))
		got.Tokens += len(ids)
	}
	if got != want {
		return fmt.Errorf("mrpc/%s.tsv: %+v, want %+v", part, got, want)
	}
	return nil
}
