package dist

import (
	"encoding/binary"
	"fmt"
	"io"
)

// kind is what a message is.
type kind uint8

const (
	kindCall   kind = iota + 1 // to rank 0: the call that a process makes, and its part of it
	kindAnswer                 // from rank 0: what came of a call
	kindLate                   // to rank 0: the sender has waited for Options.Timeout
	kindLeave                  // to all: a process has closed its group, and sends nothing more
	kindAbort                  // to all: the group has failed; the payload is the reason
)

// header stands before the payload of every message.
type header struct {
	kind   kind
	op     Op
	number number // type of the elements of a reduction
	rank   uint32 // of the process that the message comes from at first
	root   uint32 // of a broadcast
	call   uint64 // number of the call, from 1
	over   uint64 // the sender's calls up to this number are over: all processes have made them
	name   uint32 // bytes of the payload that are the name of the call; its part follows
	length uint64 // of the payload
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

// text is the name of the call: "AllReduce(sum, 3 float64)".
func (f *frame) text() string { return string(f.payload[:f.name]) }

// named is the call as errors show it: with its number.
func (f *frame) named() string { return named(f.text(), f.call) }

func named(text string, call uint64) string { return fmt.Sprintf("%s, call %d", text, call) }

// part is what the sender has to add to the call.
func (f *frame) part() []byte { return f.payload[f.name:] }

// same reports whether two processes make the same call.
func (f *frame) same(o *frame) bool {
	return f.call == o.call && f.op == o.op && f.number == o.number && f.root == o.root && f.text() == o.text()
}
