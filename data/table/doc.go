// Package table reads tables: CSV, TSV, JSONL and lines of text, as data sets of typed rows.
//
//	type Message struct {
//		Label string `table:"label"`
//		Text  string `table:"text"`
//	}
//	messages, err := table.OpenRows[Message]("sms.tsv", table.Format{Columns: []string{"label", "text"}})
//	m, err := messages.At(3) // m.Label: spam
//
// Columns are found by their names, in the first line or in [Format]; a row that does not fit is an
// error with its line and column. Package data/parquet fills the same structs from Parquet files.
//
// # How much memory
//
// A file of up to 64 MiB ([Format].Memory) is held as it is. For a larger one only the positions of
// the rows are held, four bytes each, and a row is read when it is asked for, so a table can be far
// larger than memory and still be shuffled. Finding the rows takes one pass over the file when it
// is opened, or none if [Format].IndexFile remembers them. As a stream, [Rows.Samples] begins at
// any row without reading those before it; [Scan] reads what has no positions, such as a pipe.
//
// # Quotes
//
// In CSV a field may be in double quotes, and then holds separators, line breaks and doubled quotes
// (RFC 4180). In TSV a quote is text, as GLUE's files and OCR labels need it; [Format].Quoting
// overrides this. If you get an error about a quote that never closes, you probably need QuoteNone.
// Text is UTF-8, with or without a byte order mark, or [Latin1]. Lines end with LF or CRLF; empty
// lines are ignored. Numbers and bools may be surrounded by spaces.
//
// # Tables of files and labels
//
// Data sets for recognizing text or classifying images often come as a table with a line for each
// file:
//
//	set, err := table.Open("plates/train.tsv", table.Options{})
//	row, err := set.At(0) // row.Path: plates/images/0001.jpg, row.Label: ۱۲ب۳۴۵
//
// [Open] also checks that all the files are there, so that a run does not find out after an hour.
// [Read] only reads the table.
package table
