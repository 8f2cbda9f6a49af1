package sentencepiece

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Algorithm is how a model divides a text: TrainerSpec.ModelType.
type Algorithm int

// The algorithms that [Model.Components] knows.
const (
	Unigram Algorithm = 1
	BPE     Algorithm = 2
)

// Kind is what a piece is for.
type Kind int

// The kinds there are.
const (
	Normal      Kind = 1
	Unknown     Kind = 2 // stands for what the vocabulary lacks
	Control     Kind = 3 // such as <s>, which no text becomes
	UserDefined Kind = 4 // always found as a whole
	Unused      Kind = 5
	Byte        Kind = 6 // such as <0xE2>, one byte of what the vocabulary lacks
)

// Piece is a token of the vocabulary. Its id is its index.
type Piece struct {
	Text  string
	Score float64 // logarithm of its probability, or minus the number of its merge
	Kind  Kind
}

// Model is the content of a file: ModelProto.
type Model struct {
	Pieces       []Piece
	Algorithm    Algorithm
	UnknownID    int64
	ByteFallback bool // unknown characters become the pieces of their bytes

	Charsmap               []byte // how characters are normalized; empty: not at all
	AddDummyPrefix         bool   // a text gets a space before it
	RemoveExtraWhitespaces bool   // spaces around a text, and repeated ones, are dropped

	// Exact makes components that follow SentencePiece where the library tokenizers does not: in how
	// it normalizes combining characters, and in the precision of scores. Such components cannot be
	// written as tokenizer.json. A file does not set it.
	Exact bool

	escapes, suffix bool
}

// maxFile limits the size of files. The largest known models have some 5 MiB.
const maxFile = 256 << 20

// Open reads a file.
func Open(path string) (*Model, error) {
	data, err := regularfile.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("sentencepiece: %w", err)
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Parse reads the content of a file.
func Parse(data []byte) (*Model, error) {
	m := &Model{Algorithm: Unigram, AddDummyPrefix: true, RemoveExtraWhitespaces: true, escapes: true}
	err := fields(data, func(number protowire.Number, v value) (err error) {
		switch number {
		case 1:
			p := Piece{Kind: Normal}
			if err = fields(v.bytes, p.take); err == nil {
				m.Pieces = append(m.Pieces, p)
			}
		case 2:
			err = fields(v.bytes, m.takeTrainer)
		case 3:
			err = fields(v.bytes, m.takeNormalizer)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sentencepiece: this is no model of SentencePiece: %w", err)
	}
	if len(m.Pieces) == 0 {
		return nil, fmt.Errorf("sentencepiece: there are no pieces in the %d bytes: is it a model of SentencePiece?",
			len(data))
	}
	if m.UnknownID < 0 || m.UnknownID >= int64(len(m.Pieces)) {
		return nil, fmt.Errorf("sentencepiece: the unknown piece is number %d, but there are %d", m.UnknownID, len(m.Pieces))
	}
	return m, nil
}

func (p *Piece) take(number protowire.Number, v value) error {
	switch number {
	case 1:
		p.Text = string(v.bytes)
	case 2:
		p.Score = float64(math.Float32frombits(uint32(v.number)))
	case 3:
		p.Kind = Kind(v.number)
	}
	return nil
}

func (m *Model) takeTrainer(number protowire.Number, v value) error {
	switch number {
	case 3:
		m.Algorithm = Algorithm(v.number)
	case 24:
		m.suffix = v.number != 0
	case 35:
		m.ByteFallback = v.number != 0
	case 40:
		m.UnknownID = int64(int32(v.number)) //nolint:gosec // as protocol buffers encode an int32
	}
	return nil
}

func (m *Model) takeNormalizer(number protowire.Number, v value) error {
	switch number {
	case 2:
		m.Charsmap = v.bytes
	case 3:
		m.AddDummyPrefix = v.number != 0
	case 4:
		m.RemoveExtraWhitespaces = v.number != 0
	case 5:
		m.escapes = v.number != 0
	}
	return nil
}

// value is the value of a field of a protocol buffer: bytes, or the bits of a number.
type value struct {
	bytes  []byte
	number uint64
}

// fields calls take for each field of a message of protocol buffers.
func fields(message []byte, take func(number protowire.Number, v value) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var v value
		switch kind {
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(message)
			v.number = uint64(bits)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := take(number, v); err != nil {
			return err
		}
	}
	return nil
}
