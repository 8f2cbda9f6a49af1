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

// bucketBytes is about how much is sent at a time: bucket_cap_mb of PyTorch. Results do not depend
// on it.
const bucketBytes = 25 << 20

// AllReduce replaces the values of the tensors by their reduction over all processes:
// torch.distributed.all_reduce. Results are written into the tensors, which may not be expanded.
func AllReduce(ctx context.Context, g *dist.Group, op dist.Op, ts ...torch.Tensor) error {
	return eachBucket(g, ts, func(flat torch.Tensor) (torch.Tensor, error) { return reduceFlat(ctx, g, op, flat) })
}

// Broadcast replaces the values of the tensors by those of the process root.
func Broadcast(ctx context.Context, g *dist.Group, root int, ts ...torch.Tensor) error {
	return eachBucket(g, ts, func(flat torch.Tensor) (torch.Tensor, error) {
		b := flat.Bytes()
		if err := g.Broadcast(ctx, b, root); err != nil {
			return flat, err
		}
		return unflat(b, flat), nil
	})
}

// AllGather returns the tensors of all processes by rank. They have the same dtype and, but for the
// first dimension, the same shape. Those of the others lie on the device of t; none has a history.
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
// differ in everything. The tensors of the others lie on device; none has a history.
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

// eachBucket puts tensors of one dtype and device together into flat ones, and copies back what f
// makes of them.
func eachBucket(g *dist.Group, ts []torch.Tensor, f func(flat torch.Tensor) (torch.Tensor, error)) (err error) {
	if g.World() == 1 {
		return nil
	}
	failed := torch.Try(func() {
		torch.NoGrad(func() {
			for _, bucket := range buckets(ts) {
				torch.Scope(func() {
					var parts []torch.Tensor
					var sizes []int64
					at := int64(0)
					for _, t := range bucket {
						parts = append(parts, t.Reshape(-1))
						at += t.Numel()
						sizes = append(sizes, at)
					}
					var flat torch.Tensor
					if flat, err = f(torch.Cat(parts, 0)); err != nil {
						return
					}
					for i, part := range flat.TensorSplitAt(sizes[:len(sizes)-1], 0) {
						bucket[i].Copy_(part.Reshape(bucket[i].Shape()...))
					}
				})
				if err != nil {
					return
				}
			}
		})
	})
	if failed != nil {
		return fmt.Errorf("ddp: %w", failed)
	}
	return err
}

// buckets divides tensors into lists of one dtype and device, each with about bucketBytes.
func buckets(ts []torch.Tensor) (out [][]torch.Tensor) {
	type sort struct {
		dtype  torch.DType
		device torch.Device
	}
	open := map[sort]int{} // where the bucket of a sort stands that is not full
	size := map[sort]int64{}
	for _, t := range ts {
		if t.Numel() == 0 {
			continue
		}
		k := sort{t.DType(), t.Device()}
		i, ok := open[k]
		if !ok || size[k] >= bucketBytes {
			i = len(out)
			out = append(out, nil)
			open[k], size[k] = i, 0
		}
		out[i] = append(out[i], t)
		size[k] += t.Numel() * int64(t.DType().Size())
	}
	return out
}

func reduceFlat(ctx context.Context, g *dist.Group, op dist.Op, flat torch.Tensor) (torch.Tensor, error) {
	d, ok := dtypes[flat.DType()]
	if !ok {
		return flat, fmt.Errorf("ddp: tensors of %s cannot be reduced", flat.DType())
	}
	b := flat.Bytes()
	if err := g.AllReduce(ctx, b, d, op); err != nil {
		return flat, err
	}
	return unflat(b, flat), nil
}

var dtypes = map[torch.DType]dist.DType{
	torch.Float32: dist.Float32, torch.Float64: dist.Float64, torch.Float16: dist.Float16,
	torch.BFloat16: dist.BFloat16,
	torch.Int32:    dist.Int32, torch.Int64: dist.Int64, torch.Uint8: dist.Uint8,
}

func unflat(b []byte, like torch.Tensor) torch.Tensor {
	t := torch.FromBytes(b, like.DType(), like.Numel())
	if like.Device() != torch.CPU {
		t = t.ToDevice(like.Device())
	}
	return t
}
