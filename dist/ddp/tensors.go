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

// AllReduce replaces the values of the tensors by their reduction over all processes:
// torch.distributed.all_reduce. Results are written into the tensors, which may not be expanded. A
// mean is the sum divided by the number of processes.
func AllReduce(ctx context.Context, g *dist.Group, op dist.Op, ts ...torch.Tensor) error {
	name, ok := reductions[op]
	if !ok {
		return fmt.Errorf("ddp: AllReduce: %s is no reduction; want Sum, Mean, Max or Min", op)
	}
	for i, t := range ts {
		if op == dist.Mean && !t.DType().IsFloatingPoint() {
			return fmt.Errorf("ddp: AllReduce: the mean of tensor %d, of %s, has no exact result; want Sum", i,
				t.DType())
		}
	}
	if g.World() == 1 || len(ts) == 0 {
		return ctx.Err()
	}
	return collective(ctx, g, fmt.Sprintf("AllReduce(%s of %s)", op, describe(ts)), func(p *torch.ProcessGroup) {
		torch.Scope(func() {
			for _, list := range byType(ts) {
				flat := list[0] // of one tensor the values are used as they are
				if len(list) > 1 || !flat.IsContiguous() {
					flat = flatten(list)
				}
				wait(torch.Call("_c10d_functional::all_reduce_", flat, name, p.Name())[0])
				if op == dist.Mean {
					flat.Copy_(flat.DivScalar(g.World()))
				}
				if flat.Is(list[0]) {
					continue
				}
				at := int64(0)
				for _, t := range list {
					t.Copy_(flat.Narrow(0, at, t.Numel()).Reshape(t.Shape()...))
					at += t.Numel()
				}
			}
		})
	})
}

// reductions are the names of operations in _c10d_functional.
var reductions = map[dist.Op]string{dist.Sum: "sum", dist.Mean: "sum", dist.Max: "max", dist.Min: "min"}

// byType divides tensors into lists of one dtype and device; empty ones are left out.
func byType(ts []torch.Tensor) (lists [][]torch.Tensor) {
	type kind struct {
		dtype  torch.DType
		device torch.Device
	}
	at := map[kind]int{}
	for _, t := range ts {
		if t.Numel() == 0 {
			continue
		}
		k := kind{t.DType(), t.Device()}
		i, ok := at[k]
		if !ok {
			i = len(lists)
			at[k] = i
			lists = append(lists, nil)
		}
		lists[i] = append(lists[i], t)
	}
	return lists
}

func flatten(ts []torch.Tensor) torch.Tensor {
	parts := make([]torch.Tensor, len(ts))
	for i, t := range ts {
		parts[i] = t.Reshape(-1)
	}
	return torch.Cat(parts, 0)
}

// describe is what other processes must have as well: "float32[3] and 2 more".
func describe(ts []torch.Tensor) string {
	text := fmt.Sprintf("%s%v", ts[0].DType(), ts[0].Shape())
	if len(ts) == 1 {
		return text
	}
	elements := int64(0)
	for _, t := range ts {
		elements += t.Numel()
	}
	return fmt.Sprintf("%s and %d more, %d elements", text, len(ts)-1, elements)
}

// Broadcast replaces the values of the tensors by those of the process root.
func Broadcast(ctx context.Context, g *dist.Group, root int, ts ...torch.Tensor) error {
	if root < 0 || root >= g.World() {
		return fmt.Errorf("ddp: Broadcast from rank %d: there are %d processes", root, g.World())
	}
	if g.World() == 1 || len(ts) == 0 {
		return ctx.Err()
	}
	name := fmt.Sprintf("Broadcast(%s from rank %d)", describe(ts), root)
	return collective(ctx, g, name, func(p *torch.ProcessGroup) { p.Broadcast(root, ts...) })
}

// AllGather returns the tensors of all processes by rank. They have the same dtype and, but for the
// first dimension, the same shape. Those of the others are on the device of t; none has a history.
func AllGather(ctx context.Context, g *dist.Group, t torch.Tensor) (all []torch.Tensor, err error) {
	if g.World() == 1 {
		return []torch.Tensor{t}, ctx.Err()
	}
	failed := torch.Try(func() {
		about := shape{t.DType().String(), t.Shape()}
		var text []byte
		if text, err = json.Marshal(about); err != nil {
			return
		}
		var parts [][]byte
		if parts, err = g.AllGather(ctx, append(append(text, '\n'), t.Bytes()...)); err != nil {
			return
		}
		for rank, part := range parts {
			text, values, _ := bytes.Cut(part, []byte{'\n'})
			var s shape
			if err = json.Unmarshal(text, &s); err != nil {
				err = fmt.Errorf("ddp: AllGather: what came from rank %d is no tensor: %w", rank, err)
				return
			}
			if s.DType != about.DType || len(s.Shape) != len(about.Shape) || len(s.Shape) > 0 &&
				!slices.Equal(s.Shape[1:], about.Shape[1:]) {
				err = fmt.Errorf("ddp: AllGather: rank %d has a %s%v, rank %d a %s%v: want the same dtype and, but "+
					"for the first dimension, the same shape", rank, s.DType, s.Shape, g.Rank(), about.DType,
					about.Shape)
				return
			}
			all = append(all, torch.FromBytes(values, t.DType(), s.Shape...).ToDevice(t.Device()))
		}
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// AllGatherLists returns the notes and the lists of tensors of all processes, by rank. They may
// differ in everything. The tensors of the others are on device; none has a history.
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

// listHeader stands before the note and the tensors of a message, as a line of JSON.
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

type shape struct {
	DType string  `json:"dtype"`
	Shape []int64 `json:"shape"`
}
