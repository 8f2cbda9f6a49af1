package ddp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// AllGather returns the tensors of all processes, in order of rank: torch.distributed.all_gather.
// They must have the same dtype and, except for the first dimension, the same shape. If they do
// not, all processes return an error and the group keeps working. The tensors of the other
// processes are on the device of t; none has a history.
func AllGather(ctx context.Context, g *dist.Group, t torch.Tensor) (all []torch.Tensor, err error) {
	if g.World() == 1 {
		return []torch.Tensor{t.Detach().Clone()}, ctx.Err()
	}
	c, err := allGather(ctx, g, t)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, g)
}

func allGather(ctx context.Context, g *dist.Group, t torch.Tensor) (c collective[[]torch.Tensor], err error) {
	shapes, err := compareRows(ctx, g, "AllGather", rowsOf(t))
	if err != nil {
		return c, err
	}
	size := make([]int64, len(shapes)) // bytes
	for rank, s := range shapes {
		size[rank] = t.DType().Size()
		for _, n := range s.Shape {
			size[rank] *= n
		}
	}
	longest, dtype := slices.Max(size), t.DType()
	return collective[[]torch.Tensor]{
		call: "AllGather(" + shapes[0].String() + ")",
		start: func(p *torch.ProcessGroup) []operation {
			mine := bytesOf(t)
			if short := longest - size[g.Rank()]; short > 0 {
				mine = mine.Pad(0, 0, short)
			}
			return []operation{operator("all_gather_into_tensor", mine, g.World(), p.Name())}
		},
		finish: func(_ *torch.ProcessGroup, done []torch.Tensor) (all []torch.Tensor) {
			for rank, s := range shapes {
				part := done[0].Narrow(0, longest*int64(rank), size[rank])
				all = append(all, fromBytes(part, dtype).Reshape(s.Shape...))
			}
			return all
		},
	}, nil
}

// bytesOf returns a view of t's values as bytes, which the process group moves whatever their
// dtype.
func bytesOf(t torch.Tensor) torch.Tensor {
	return torch.Call("aten::view.dtype", t.Detach().Contiguous().Reshape(-1), torch.Uint8)[0]
}

// fromBytes returns bytes as one-dimensional values of dtype.
func fromBytes(values torch.Tensor, dtype torch.DType) torch.Tensor {
	return torch.Call("aten::view.dtype", values, dtype)[0]
}

// rows describes the tensor of one process; only the first dimension may differ between processes.
type rows struct {
	DType string
	Shape []int64
}

func rowsOf(t torch.Tensor) rows { return rows{t.DType().String(), t.Shape()} }

// String returns what all processes must have in common, such as float32[*, 3].
func (r rows) String() string {
	if len(r.Shape) == 0 {
		return r.DType + "[]"
	}
	text := r.DType + "[*"
	for _, n := range r.Shape[1:] {
		text += fmt.Sprint(", ", n)
	}
	return text + "]"
}

// compareRows returns the rows of all processes, by rank. All of them see the same rows, so if
// these do not fit together, all return an error and the group keeps working.
func compareRows(ctx context.Context, g *dist.Group, call string, mine rows) ([]rows, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	parts, err := g.AllGather(ctx, text)
	if err != nil {
		return nil, err
	}
	all := make([]rows, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &all[rank]); err != nil {
			return nil, g.Fail(call, fmt.Errorf("what came from rank %d is about no tensor: %w: %w", rank, err,
				dist.ErrMismatch))
		}
	}
	for rank, r := range all {
		if r.String() != all[0].String() {
			return nil, fmt.Errorf("ddp: %s: rank %d has a %s%v, rank 0 a %s%v: want the same dtype and, but for the "+
				"first dimension, the same shape", call, rank, r.DType, r.Shape, all[0].DType, all[0].Shape)
		}
	}
	return all, nil
}

// AllGatherLists returns the notes and the lists of tensors of all processes, in order of rank.
// They may differ in every respect. The tensors of the other processes are on device; none has a
// history.
func AllGatherLists(ctx context.Context, g *dist.Group, note []byte, ts []torch.Tensor,
	device torch.Device) (notes [][]byte, lists [][]torch.Tensor, err error) {
	if g.World() == 1 {
		return [][]byte{note}, [][]torch.Tensor{ts}, ctx.Err()
	}
	failed := torch.Try(func() {
		about := listHeader{Note: len(note)}
		for _, t := range ts {
			about.Tensors = append(about.Tensors, numberedShape{t.DType(), t.Shape()})
		}
		var message []byte
		if message, err = json.Marshal(about); err != nil {
			return
		}
		message = append(append(message, '\n'), note...)
		for _, t := range ts {
			message = append(message, t.Bytes()...)
		}
		var all [][]byte
		if all, err = g.AllGather(ctx, message); err != nil {
			return
		}
		notes, lists = make([][]byte, len(all)), make([][]torch.Tensor, len(all))
		for rank, m := range all {
			if rank == g.Rank() {
				notes[rank], lists[rank] = note, ts
			} else if notes[rank], lists[rank], err = readList(m, device); err != nil {
				err = fmt.Errorf("ddp: AllGatherLists: what rank %d has sent: %w", rank, err)
				return
			}
		}
	})
	if failed != nil {
		err = fmt.Errorf("ddp: AllGatherLists: %w", failed)
	}
	if err != nil {
		return nil, nil, err
	}
	return notes, lists, nil
}

// listHeader precedes the note and the tensors in a message, as one line of JSON.
type listHeader struct {
	Note    int             `json:"note"` // bytes
	Tensors []numberedShape `json:"tensors,omitempty"`
}

type numberedShape struct {
	DType torch.DType `json:"dtype"`
	Shape []int64     `json:"shape"`
}

func readList(message []byte, device torch.Device) (note []byte, ts []torch.Tensor, err error) {
	line, rest, _ := bytes.Cut(message, []byte("\n"))
	var about listHeader
	if err := json.Unmarshal(line, &about); err != nil {
		return nil, nil, err
	}
	if about.Note < 0 || about.Note > len(rest) {
		return nil, nil, fmt.Errorf("a note of %d bytes in a message that has %d", about.Note, len(rest))
	}
	note, rest = rest[:about.Note], rest[about.Note:]
	for i, s := range about.Tensors {
		size := s.DType.Size()
		for _, n := range s.Shape {
			size *= n
		}
		if size < 0 || size > int64(len(rest)) {
			return nil, nil, fmt.Errorf("tensor %d, %s%v, does not fit into the %d bytes that are left", i, s.DType,
				s.Shape, len(rest))
		}
		ts = append(ts, torch.FromBytes(rest[:size], s.DType, s.Shape...).ToDevice(device))
		rest = rest[size:]
	}
	return note, ts, nil
}
