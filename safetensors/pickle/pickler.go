package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/safetensors"
)

// pickler writes values as Python's pickle does with protocol 2.
type pickler struct {
	code    []byte
	memo    map[Name]byte // memo indices of the names already written
	tensors []*safetensors.Entry
	storage map[*safetensors.Entry]int // indices in tensors
}

func (p *pickler) op(code ...byte) { p.code = append(p.code, code...) }

func (p *pickler) write(v any, depth int) error {
	if depth > maxDepth {
		return fault(ErrTooLarge, "", "%v", errDepth)
	}
	switch v := v.(type) {
	case nil:
		p.op(opNone)
	case bool:
		if v {
			p.op(opTrue)
		} else {
			p.op(opFalse)
		}
	case int:
		p.integer(int64(v))
	case int64:
		p.integer(v)
	case *big.Int:
		return p.large(v)
	case float64:
		p.code = binary.BigEndian.AppendUint64(append(p.code, opFloat), math.Float64bits(v))
	case string:
		p.text(v)
	case Tuple:
		p.op(opMark)
		for _, item := range v {
			if err := p.write(item, depth+1); err != nil {
				return err
			}
		}
		p.op(opTuple)
	case *List:
		p.op(opEmptyList, opMark)
		for _, item := range v.Items {
			if err := p.write(item, depth+1); err != nil {
				return err
			}
		}
		p.op(opAppends)
	case *Dict:
		return p.dict(v, depth)
	case *safetensors.Entry:
		return p.tensor(v)
	default:
		return fmt.Errorf("pickle: a %T cannot be written; want a number, a string, a container or a *safetensors.Entry", v)
	}
	return nil
}

func (p *pickler) dict(d *Dict, depth int) error {
	if d.Ordered {
		p.name(orderedDict)
		p.op(opEmptyTuple, opReduce)
	} else {
		p.op(opEmptyDict)
	}
	p.op(opMark)
	for i, key := range d.Keys {
		if err := p.write(key, depth+1); err != nil {
			return err
		}
		if err := p.write(d.Values[i], depth+1); err != nil {
			return err
		}
	}
	p.op(opSetItems)
	return nil
}

func (p *pickler) integer(n int64) {
	switch {
	case n >= 0 && n <= math.MaxUint8:
		p.op(opInt1, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		p.code = binary.LittleEndian.AppendUint16(append(p.code, opInt2), uint16(n))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		p.code = binary.LittleEndian.AppendUint32(append(p.code, opInt4), uint32(int32(n)))
	default:
		p.code = binary.LittleEndian.AppendUint64(append(p.code, opLong1, 8), uint64(n))
	}
}

// large writes an integer of any size: its two's complement bytes, little-endian.
func (p *pickler) large(n *big.Int) error {
	size := n.BitLen()/8 + 1
	if size > math.MaxUint8 {
		return fault(ErrTooLarge, "", "an integer has %d bits", n.BitLen())
	}
	two := new(big.Int).Set(n)
	if n.Sign() < 0 {
		two.Add(two, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	raw := two.FillBytes(make([]byte, size))
	slices.Reverse(raw)
	p.op(opLong1, byte(size))
	p.op(raw...)
	return nil
}

func (p *pickler) text(s string) {
	s = strings.ToValidUTF8(s, "\ufffd") // Python's strings are Unicode
	p.code = binary.LittleEndian.AppendUint32(append(p.code, opString4), uint32(len(s)))
	p.op([]byte(s)...)
}

// name writes a global name: in full the first time, later as a reference to the memo.
func (p *pickler) name(n Name) {
	if at, ok := p.memo[n]; ok {
		p.op(opGet1, at)
		return
	}
	dot := strings.LastIndexByte(string(n), '.')
	p.op(opGlobal)
	p.op([]byte(string(n[:dot]) + "\n" + string(n[dot+1:]) + "\n")...)
	at := byte(len(p.memo)) // there are far fewer than 256 names
	p.memo[n] = at
	p.op(opPut1, at)
}

// tensor writes the call that rebuilds a tensor from its storage: _rebuild_tensor_v2, or v3 for
// types without a storage class. An entry that occurs several times has a single storage.
func (p *pickler) tensor(e *safetensors.Entry) error {
	kind, err := kindOf(e)
	if err != nil {
		return err
	}
	count, strides := int64(1), make(Tuple, len(e.Shape))
	shape := make(Tuple, len(e.Shape))
	for i := len(e.Shape) - 1; i >= 0; i-- {
		d := e.Shape[i]
		if d < 0 || d > 0 && count > math.MaxInt64/16/d {
			return fault(ErrTooLarge, e.Name, "its shape is %v", e.Shape)
		}
		shape[i], strides[i] = d, max(count, 1)
		count *= d
	}
	storage := storageName(kind)
	if storage == untypedStorage {
		p.name(rebuildTensorV3)
		count *= kind.size
	} else {
		p.name(rebuildTensorV2)
	}
	p.op(opMark)
	p.op(opMark)
	p.text("storage")
	p.name(storage)
	at, known := p.storage[e]
	if !known {
		at = len(p.tensors)
		p.tensors, p.storage[e] = append(p.tensors, e), at
	}
	p.text(strconv.Itoa(at))
	p.text("cpu")
	p.integer(count)
	p.op(opTuple, opPersistentID)
	for _, part := range []any{int64(0), shape, strides, false} {
		if err := p.write(part, 0); err != nil {
			return err
		}
	}
	p.name(orderedDict) // of backward hooks: empty
	p.op(opEmptyTuple, opReduce)
	if storage == untypedStorage {
		p.name(Name("torch." + kind.name))
	}
	p.op(opTuple, opReduce)
	return nil
}

func storageName(kind dtype) Name {
	for name, d := range storages {
		if d.file == kind.file {
			return Name("torch." + name)
		}
	}
	return untypedStorage
}
