package encodings

// Span is a range of a text, in bytes or in characters; End is not part of it.
type Span struct{ Start, End int }
