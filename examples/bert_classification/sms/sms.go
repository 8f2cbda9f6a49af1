// Package sms holds the SMS Spam Collection of Almeida and Hidalgo (CC BY 4.0; README.md): text
// messages that are spam, or "ham".
//
//	messages, err := sms.Messages()
package sms

import (
	"bytes"
	_ "embed" // for the messages
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
)

//go:embed sms.tsv
var file []byte

// Labels are the names of the classes.
var Labels = []string{"ham", "spam"}

// Message is a message with its class, an index of [Labels].
type Message struct {
	Text  string
	Label int
}

// Messages returns the collection in the order of its file.
func Messages() (data.Slice[Message], error) {
	type row struct {
		Label string `table:"label"`
		Text  string `table:"text"`
	}
	var list data.Slice[Message]
	for r, err := range table.Scan[row](bytes.NewReader(file), table.Format{Syntax: table.TSV,
		Columns: []string{"label", "text"}}) {
		if err != nil {
			return nil, fmt.Errorf("sms.tsv: %w", err)
		}
		m := Message{Text: r.Text}
		switch r.Label {
		case Labels[0]:
		case Labels[1]:
			m.Label = 1
		default:
			return nil, fmt.Errorf("sms.tsv: message %d has the label %q; want ham or spam", len(list)+1, r.Label)
		}
		list = append(list, m)
	}
	return list, nil
}
