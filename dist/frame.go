package dist

import (
	"encoding/binary"
	"fmt"
	"io"
)

// kind is what a frame belongs to.
type kind uint8

const (
	kindBarrier kind = iota + 1
	kindBroadcast
	kindAllGather
	kindAllReduce
	kindLeave // the sender closes its group; nothing follows
	kindAbort // the sender's group has failed; the payload is the reason
)

// header stands before the payload of every message. All but Length must be the same on both sides
// of a call.
type header struct {
	kind   kind
	op     Op
	dtype  DType
	phase  uint8  // of the call
	rank   uint32 // of Broadcast: the root; of an abort: who is at fault, plus one
	call   uint64 // number of the call, from 1
	count  uint64 // elements of the whole tensor; of an AllGather 0, since each may have its own
	length uint64 // bytes that follow
}

const (
	headerSize = 32
	maxPayload = 1 << 36
)

func (h header) append(b []byte) []byte {
	b = append(b, byte(h.kind), byte(h.op), byte(h.dtype), h.phase)
	b = binary.LittleEndian.AppendUint32(b, h.rank)
	b = binary.LittleEndian.AppendUint64(b, h.call)
	b = binary.LittleEndian.AppendUint64(b, h.count)
	return binary.LittleEndian.AppendUint64(b, h.length)
}

func readHeader(r io.Reader) (h header, err error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return h, err
	}
	h = header{
		kind: kind(b[0]), op: Op(b[1]), dtype: DType(b[2]), phase: b[3], rank: binary.LittleEndian.Uint32(b[4:]),
		call: binary.LittleEndian.Uint64(b[8:]), count: binary.LittleEndian.Uint64(b[16:]),
		length: binary.LittleEndian.Uint64(b[24:]),
	}
	if h.kind < kindBarrier || h.kind > kindAbort || h.length > maxPayload {
		return h, fmt.Errorf("a message of kind %d with %d bytes is none of this protocol", h.kind, h.length)
	}
	return h, nil
}

// String is the call as an error shows it.
func (h header) String() string {
	switch h.kind {
	case kindBarrier:
		return fmt.Sprintf("Barrier(), call %d", h.call)
	case kindBroadcast:
		return fmt.Sprintf("Broadcast(%d bytes from rank %d), call %d", h.count, h.rank, h.call)
	case kindAllGather:
		return fmt.Sprintf("AllGather(), call %d", h.call)
	case kindAllReduce:
		return fmt.Sprintf("AllReduce(%s, %d %s), call %d", h.op, h.count, h.dtype, h.call)
	}
	return fmt.Sprintf("message %d", h.kind)
}

// same reports whether two messages belong to the same step of the same call.
func (h header) same(o header) bool {
	h.length, o.length = 0, 0
	return h == o
}
