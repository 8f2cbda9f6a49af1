package dist

import (
	"encoding/binary"
	"fmt"
	"io"
)

// kind is the type of a message.
type kind uint8

const (
	kindCall   kind = iota + 1 // to rank 0: the sender has made a call; carries its contribution
	kindAnswer                 // from rank 0: the result of a call
	kindLate                   // to rank 0: the sender has waited in a call for Options.Timeout
	kindLeave                  // to all: a process has closed its group and sends nothing more
	kindAbort                  // to all: the group has failed; the payload is a failure as JSON
)

// header precedes the payload of every message.
type header struct {
	kind   kind
	op     Op
	number number // element type of a reduction
	rank   uint32 // the process that the message originates from
	root   uint32 // source of a broadcast
	call   uint64 // number of the call, from 1
	over   uint64 // the sender has completed all calls up to this number, so all processes have made them
	name   uint32 // length of the call's name, with which the payload begins
	length uint64 // length of the payload
}

const (
	headerSize = 40
	maxPayload = 1 << 36
)

func (h header) append(b []byte) []byte {
	b = append(b, byte(h.kind), byte(h.op), byte(h.number), 0)
	b = binary.LittleEndian.AppendUint32(b, h.rank)
	b = binary.LittleEndian.AppendUint32(b, h.root)
	b = binary.LittleEndian.AppendUint32(b, h.name)
	b = binary.LittleEndian.AppendUint64(b, h.call)
	b = binary.LittleEndian.AppendUint64(b, h.over)
	return binary.LittleEndian.AppendUint64(b, h.length)
}

func readHeader(r io.Reader) (h header, err error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return h, err
	}
	h = header{
		kind: kind(b[0]), op: Op(b[1]), number: number(b[2]), rank: binary.LittleEndian.Uint32(b[4:]),
		root: binary.LittleEndian.Uint32(b[8:]), name: binary.LittleEndian.Uint32(b[12:]),
		call: binary.LittleEndian.Uint64(b[16:]), over: binary.LittleEndian.Uint64(b[24:]),
		length: binary.LittleEndian.Uint64(b[32:]),
	}
	if h.kind < kindCall || h.kind > kindAbort || h.length > maxPayload || uint64(h.name) > h.length {
		return h, fmt.Errorf("a message of kind %d with %d bytes does not belong to this protocol", h.kind, h.length)
	}
	return h, nil
}

// frame is a message.
type frame struct {
	header
	payload []byte
}

// text returns the name of the call, such as "AllReduce(sum, 3 float64)".
func (f *frame) text() string { return string(f.payload[:f.name]) }

// named returns the name of the call with its number, as errors show it.
func (f *frame) named() string { return named(f.text(), f.call) }

func named(text string, call uint64) string { return fmt.Sprintf("%s, call %d", text, call) }

// part returns what the sender contributes to the call.
func (f *frame) part() []byte { return f.payload[f.name:] }

// same reports whether two messages belong to the same call.
func (f *frame) same(o *frame) bool {
	return f.call == o.call && f.op == o.op && f.number == o.number && f.root == o.root && f.text() == o.text()
}
