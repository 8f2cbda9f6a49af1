package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"unicode/utf8"
)

// The supported instructions: those that torch.save writes with protocols 2 to 5.
const (
	opProto        = 0x80
	opFrame        = 0x95
	opStop         = '.'
	opMark         = '('
	opNone         = 'N'
	opTrue         = 0x88
	opFalse        = 0x89
	opInt4         = 'J'
	opInt1         = 'K'
	opInt2         = 'M'
	opLong1        = 0x8a
	opLong4        = 0x8b
	opFloat        = 'G'
	opString1      = 0x8c
	opString4      = 'X'
	opString8      = 0x8d
	opBytes1       = 'C'
	opBytes4       = 'B'
	opEmptyTuple   = ')'
	opTuple        = 't'
	opTuple1       = 0x85
	opTuple2       = 0x86
	opTuple3       = 0x87
	opEmptyList    = ']'
	opAppend       = 'a'
	opAppends      = 'e'
	opEmptyDict    = '}'
	opSetItem      = 's'
	opSetItems     = 'u'
	opGlobal       = 'c'
	opStackGlobal  = 0x93
	opReduce       = 'R'
	opBuild        = 'b'
	opPersistentID = 'Q'
	opPut1         = 'q'
	opPut4         = 'r'
	opMemoize      = 0x94
	opGet1         = 'h'
	opGet4         = 'j'
)

// machine executes a pickle.
type machine struct {
	code []byte
	at   int
	a    *archive

	stack []any
	memo  map[uint32]any
	count int // number of values pushed
	made  int // number of tensors
	spent *budget
}

// maxValues limits the values of a pickle, and so the time to read it. A tensor takes about 30.
// maxStack limits the stack: Python writes batches of a thousand values.
const (
	maxValues = 4 << 20
	maxStack  = 1 << 18
)

func (m *machine) run() (v any, err error) {
	start := 0
	for err == nil {
		start = m.at
		var op byte
		if op, err = m.byte(); err != nil {
			break
		}
		if op == opStop {
			if len(m.stack) != 1 {
				err = fmt.Errorf("the pickle leaves %d values; want one", len(m.stack))
				break
			}
			if m.stack[0] == (mark{}) {
				err = errors.New("the pickle leaves a mark; want a value")
				break
			}
			return m.stack[0], nil
		}
		err = m.do(op)
	}
	if f, ok := err.(*FormatError); ok { //nolint:errorlint // made here, never wrapped
		f.Offset = int64(start)
		return nil, f
	}
	return nil, &FormatError{Offset: int64(start), Err: ErrMalformed, Detail: err.Error()}
}

func (m *machine) do(op byte) error {
	switch op {
	case opProto:
		version, err := m.byte()
		if err == nil && (version < 2 || version > 5) {
			return fault(ErrUnknown, "", "the pickle has protocol %d; want 2 to 5", version)
		}
		return err
	case opFrame:
		_, err := m.take(8)
		return err
	case opMark:
		return m.push(mark{})
	case opGlobal, opStackGlobal:
		return m.global(op)
	case opReduce:
		return m.reduce()
	case opBuild:
		return m.build()
	case opPersistentID:
		return m.persistent()
	case opPut1, opPut4, opMemoize, opGet1, opGet4:
		return m.remember(op)
	case opEmptyTuple, opTuple, opTuple1, opTuple2, opTuple3, opEmptyList, opAppend, opAppends, opEmptyDict, opSetItem,
		opSetItems:
		return m.container(op)
	}
	v, err := m.literal(op)
	if err != nil {
		return err
	}
	return m.push(v)
}

// literal reads a literal value.
func (m *machine) literal(op byte) (any, error) {
	switch op {
	case opNone:
		return nil, nil
	case opTrue, opFalse:
		return op == opTrue, nil
	case opInt1:
		b, err := m.byte()
		return int64(b), err
	case opInt2:
		n, err := m.uint(2)
		return int64(n), err
	case opInt4:
		n, err := m.uint(4)
		return int64(int32(n)), err
	case opLong1, opLong4:
		b, err := m.counted(map[byte]int{opLong1: 1, opLong4: 4}[op])
		if err == nil {
			err = m.spent.take(32 + 4*len(b))
		}
		if err != nil {
			return nil, err
		}
		return long(b), nil
	case opFloat:
		b, err := m.take(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	case opString1, opString4, opString8:
		b, err := m.counted(map[byte]int{opString1: 1, opString4: 4, opString8: 8}[op])
		if err == nil && !utf8.Valid(b) {
			err = fmt.Errorf("a string is not UTF-8: %.40q", b)
		}
		if err == nil {
			err = m.spent.take(32 + len(b))
		}
		if err != nil {
			return nil, err
		}
		return string(b), nil
	case opBytes1, opBytes4:
		b, err := m.counted(map[byte]int{opBytes1: 1, opBytes4: 4}[op])
		if err == nil {
			err = m.spent.take(32 + len(b))
		}
		if err != nil {
			return nil, err
		}
		return slices.Clone(b), nil
	}
	return nil, fault(ErrUnknown, "", "%#02x (%q)", op, op)
}

// long returns an integer from its little-endian two's complement bytes.
func long(b []byte) any {
	if len(b) <= 8 {
		var n int64
		for i, v := range b {
			n |= int64(v) << (8 * i)
		}
		if len(b) > 0 && len(b) < 8 && b[len(b)-1] >= 0x80 {
			n -= 1 << (8 * len(b))
		}
		return n
	}
	reversed := slices.Clone(b)
	slices.Reverse(reversed)
	n := new(big.Int).SetBytes(reversed)
	if b[len(b)-1] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

func (m *machine) container(op byte) error {
	size := 32
	if op == opEmptyDict {
		size = 72
	}
	if err := m.spent.take(size); err != nil {
		return err
	}
	switch op {
	case opEmptyTuple:
		return m.push(Tuple{})
	case opEmptyList:
		return m.push(&List{})
	case opEmptyDict:
		return m.push(&Dict{})
	case opTuple1, opTuple2, opTuple3:
		items, err := m.pop(int(op) - opTuple1 + 1)
		if err != nil {
			return err
		}
		return m.push(Tuple(items))
	case opTuple:
		items, err := m.popMark()
		if err != nil {
			return err
		}
		return m.push(Tuple(items))
	}
	var items []any
	var err error
	switch op {
	case opAppend:
		items, err = m.pop(1)
	case opSetItem:
		items, err = m.pop(2)
	default:
		items, err = m.popMark()
	}
	if err != nil {
		return err
	}
	target, err := m.top()
	if err != nil {
		return err
	}
	switch c := target.(type) {
	case *List:
		if op == opAppend || op == opAppends {
			c.Items = append(c.Items, items...)
			return m.spent.take(64 * len(items)) // the list grows
		}
	case *Dict:
		if op == opSetItem || op == opSetItems {
			if err := m.spent.takeItems(c, len(items)/2); err != nil {
				return err
			}
			return fill(c, items)
		}
	}
	return fmt.Errorf("instruction %q changes a %s", op, describe(target))
}

func fill(d *Dict, items []any) error {
	if len(items)%2 != 0 {
		return fmt.Errorf("a dictionary gets %d keys and values, an odd number", len(items))
	}
	for i := 0; i < len(items); i += 2 {
		if err := d.set(items[i], items[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) remember(op byte) error {
	var n uint64
	var err error
	switch op {
	case opPut1, opGet1:
		n, err = m.uint(1)
	case opPut4, opGet4:
		n, err = m.uint(4)
	default:
		n = uint64(len(m.memo))
	}
	if err != nil {
		return err
	}
	if op == opGet1 || op == opGet4 {
		v, ok := m.memo[uint32(n)]
		if !ok {
			return fmt.Errorf("value %d is asked for and was never put aside", n)
		}
		return m.push(v)
	}
	v, err := m.top()
	if err != nil {
		return err
	}
	m.memo[uint32(n)] = v
	return m.spent.take(64)
}

// global pushes a global name, if it is allowed.
func (m *machine) global(op byte) error {
	var module, name string
	if op == opStackGlobal {
		items, err := m.pop(2)
		if err != nil {
			return err
		}
		var ok1, ok2 bool
		module, ok1 = items[0].(string)
		name, ok2 = items[1].(string)
		if !ok1 || !ok2 {
			return fmt.Errorf("a name is made of %s and %s; want two strings", describe(items[0]), describe(items[1]))
		}
	} else {
		for _, part := range []*string{&module, &name} {
			end := bytes.IndexByte(m.code[m.at:], '\n')
			if end < 0 {
				return fmt.Errorf("a name has no end")
			}
			*part = string(m.code[m.at : m.at+end])
			m.at += end + 1
		}
	}
	full := Name(module + "." + name)
	if !allowed(full) {
		return fault(ErrForbidden, fmt.Sprintf("%.200s", full), "this reader builds tensors and calls nothing; if it "+
			"is a whole module that was saved, save module.state_dict() instead")
	}
	return m.push(full)
}

func (m *machine) push(v any) error {
	if m.count++; m.count > maxValues {
		return fault(ErrTooLarge, "", "the pickle makes more than %d values", maxValues)
	}
	if len(m.stack) == maxStack {
		return fault(ErrTooLarge, "", "the pickle keeps more than %d values waiting", maxStack)
	}
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) top() (any, error) {
	if len(m.stack) == 0 || m.stack[len(m.stack)-1] == (mark{}) {
		return nil, fmt.Errorf("a value is missing")
	}
	return m.stack[len(m.stack)-1], nil
}

// pop pops n values, none of which may be a mark.
func (m *machine) pop(n int) ([]any, error) {
	if len(m.stack) < n {
		return nil, fmt.Errorf("%d values are wanted, there are %d", n, len(m.stack))
	}
	if err := m.spent.take(16 * n); err != nil {
		return nil, err
	}
	items := slices.Clone(m.stack[len(m.stack)-n:])
	for _, v := range items {
		if _, is := v.(mark); is {
			return nil, fmt.Errorf("a value is missing")
		}
	}
	m.stack = m.stack[:len(m.stack)-n]
	return items, nil
}

// popMark pops all values above the last mark, and the mark itself.
func (m *machine) popMark() ([]any, error) {
	for i := len(m.stack) - 1; i >= 0; i-- {
		if _, is := m.stack[i].(mark); is {
			if err := m.spent.take(16 * (len(m.stack) - i)); err != nil {
				return nil, err
			}
			items := slices.Clone(m.stack[i+1:])
			m.stack = m.stack[:i]
			return items, nil
		}
	}
	return nil, fmt.Errorf("a mark is missing")
}

func (m *machine) byte() (byte, error) {
	b, err := m.take(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

func (m *machine) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.code)-m.at) {
		return nil, fmt.Errorf("the pickle ends in the middle of an instruction")
	}
	b := m.code[m.at : m.at+int(n)]
	m.at += int(n)
	return b, nil
}

// uint reads a little-endian integer of size bytes.
func (m *machine) uint(size uint64) (uint64, error) {
	b, err := m.take(size)
	n := uint64(0)
	for i, v := range b {
		n |= uint64(v) << (8 * i)
	}
	return n, err
}

// counted reads a byte count of the given size, followed by that many bytes.
func (m *machine) counted(size int) ([]byte, error) {
	n, err := m.uint(uint64(size))
	if err != nil {
		return nil, err
	}
	return m.take(n)
}
