package nn

import (
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// PackedSequence holds sequences of different lengths without padding: the first elements of all,
// then the second ones, and so on. Recurrent layers spend no work on padding, and start the
// reverse direction at the end of each sequence. It is torch.nn.utils.rnn.PackedSequence; make one
// with [PackPaddedSequence] or [PackSequence].
type PackedSequence struct {
	Data       torch.Tensor // [elements, features]
	BatchSizes torch.Tensor // int64 on the CPU: how many sequences have an element at each time step
	// the order by length in which the sequences are packed; undefined if they were given in that
	// order
	SortedIndices   torch.Tensor
	UnsortedIndices torch.Tensor // inverts SortedIndices
}

// PackPaddedSequence packs x, [L, N, ...], or [N, L, ...] with batchFirst, whose sequences have
// the given lengths: torch.nn.utils.rnn.pack_padded_sequence. sorted says that the lengths do not
// increase, which saves a copy; PyTorch's default is enforce_sorted=True.
func PackPaddedSequence(x torch.Tensor, lengths []int64, batchFirst, sorted bool) *PackedSequence {
	const op = "PackPaddedSequence"
	shape := x.Shape()
	if len(shape) < 2 {
		panic(torch.Errorf("nn."+op, torch.ErrInvalid, "want 2 or more dimensions, found %v", shape))
	}
	steps, batch, batchDim := shape[0], shape[1], int64(1)
	if batchFirst {
		steps, batch, batchDim = batch, steps, 0
	}
	if int64(len(lengths)) != batch {
		panic(torch.Errorf("nn."+op, torch.ErrInvalid, "want %d lengths, one for each sequence, found %d", batch,
			len(lengths)))
	}
	for i, n := range lengths {
		if n < 1 || n > steps {
			panic(torch.Errorf("nn."+op, torch.ErrValue, "the length of sequence %d must be between 1 and %d, found %d",
				i, steps,
				n))
		}
		if sorted && i > 0 && n > lengths[i-1] {
			panic(torch.Errorf("nn."+op, torch.ErrValue, "lengths must not increase with sorted set, found %v",
				lengths))
		}
	}
	p := &PackedSequence{}
	sizes := torch.From(lengths)
	if !sorted {
		byLength, order := sizes.Sort(0, true)
		sizes.Free()
		sizes = byLength
		p.SortedIndices = order.ToDevice(x.Device())
		p.UnsortedIndices = p.SortedIndices.ArgSort(0, false)
		x = x.IndexSelect(batchDim, p.SortedIndices)
		defer x.Free()
	}
	out := torch.Call("aten::_pack_padded_sequence", x, sizes, batchFirst)
	sizes.Free()
	p.Data, p.BatchSizes = out[0], out[1]
	return p
}

// PackSequence packs sequences of shape [length, ...]: torch.nn.utils.rnn.pack_sequence. See
// [PackPaddedSequence] for sorted.
func PackSequence(sequences []torch.Tensor, sorted bool) *PackedSequence {
	lengths := make([]int64, len(sequences))
	for i, s := range sequences {
		if s.Dim() == 0 {
			panic(torch.Errorf("nn.PackSequence", torch.ErrInvalid, "sequence %d has no dimension for its elements", i))
		}
		lengths[i] = s.Size(0)
	}
	padded := PadSequence(sequences, false, 0)
	defer padded.Free()
	return PackPaddedSequence(padded, lengths, false, sorted)
}

// PadSequence stacks sequences of shape [length, ...] to [L, N, ...], or [N, L, ...] with
// batchFirst, and pads the shorter ones with value at the end: torch.nn.utils.rnn.pad_sequence.
func PadSequence(sequences []torch.Tensor, batchFirst bool, value float64) torch.Tensor {
	if len(sequences) == 0 {
		panic(torch.Errorf("nn.PadSequence", torch.ErrValue, "want at least one sequence"))
	}
	return torch.Call("aten::pad_sequence", sequences, batchFirst, value)[0]
}

// Pad reverses [PackPaddedSequence]: torch.nn.utils.rnn.pad_packed_sequence. It returns [L, N,
// ...], or [N, L, ...] with batchFirst, where shorter sequences are padded with value at the end,
// and the lengths. L is the longest length, or total if that is not zero.
func (p *PackedSequence) Pad(batchFirst bool, value float64, total int64) (padded torch.Tensor, lengths []int64) {
	sizes := p.check("PackedSequence.Pad")
	steps := int64(len(sizes))
	if total != 0 && total < steps {
		panic(torch.Errorf("nn.PackedSequence.Pad", torch.ErrValue, "the total length must be at least that of the "+
			"longest "+
			"sequence, %d, found %d", steps, total))
	}
	out := torch.Call("aten::_pad_packed_sequence", p.Data, p.BatchSizes, batchFirst, value, max(total, steps))
	padded = out[0]
	lengths = torch.Values[int64](out[1])
	out[1].Free()
	if !p.UnsortedIndices.Defined() {
		return padded, lengths
	}
	batchDim := int64(1)
	if batchFirst {
		batchDim = 0
	}
	unsorted := padded.IndexSelect(batchDim, p.UnsortedIndices)
	padded.Free()
	order := torch.Values[int64](p.UnsortedIndices)
	sorted := slices.Clone(lengths)
	for i, at := range order {
		lengths[i] = sorted[at]
	}
	return unsorted, lengths
}

// check panics if the batch sizes do not fit the data, because kernels do not check them and would
// read invalid memory. It returns the sizes.
func (p *PackedSequence) check(op string) (sizes []int64) {
	if !p.Data.Defined() || !p.BatchSizes.Defined() || p.BatchSizes.Device() != torch.CPU ||
		p.BatchSizes.DType() != torch.Int64 || p.BatchSizes.Dim() != 1 || p.Data.Dim() == 0 {
		panic(torch.Errorf("nn."+op, torch.ErrInvalid, "want a PackedSequence as PackPaddedSequence makes it, with "+
			"BatchSizes "+
			"an int64 vector on the CPU"))
	}
	sizes = torch.Values[int64](p.BatchSizes)
	var total int64
	for i, n := range sizes {
		if n < 1 || i > 0 && n > sizes[i-1] {
			panic(torch.Errorf("nn."+op, torch.ErrInvalid, "BatchSizes must be positive and not increase, found %v",
				sizes))
		}
		total += n
	}
	if rows := p.Data.Size(0); len(sizes) == 0 || total != rows {
		panic(torch.Errorf("nn."+op, torch.ErrInvalid, "BatchSizes are %d elements together, but Data has %d", total,
			rows))
	}
	return sizes
}

// with returns a PackedSequence of the same sequences with other data.
func (p *PackedSequence) with(data torch.Tensor) *PackedSequence {
	return &PackedSequence{data, p.BatchSizes, p.SortedIndices, p.UnsortedIndices}
}

// runPacked runs an operator on packed sequences. States are passed and returned in the order of
// the user's batch.
func (r *recurrent) runPacked(op string, x *PackedSequence, states []torch.Tensor) (*PackedSequence, []torch.Tensor) {
	sizes := x.check(r.op)
	shape := x.Data.Shape()
	if len(shape) != 2 {
		panic(torch.Errorf("nn."+r.op, torch.ErrInvalid, "want packed data of 2 dimensions, found %v", shape))
	}
	r.checkFeatures(shape)
	var made []torch.Tensor // temporaries of this call
	states = slices.Clone(states)
	for i, s := range states {
		want := r.stateShape(i, sizes[0])
		switch {
		case !s.Defined():
			states[i] = torch.TensorOptions{DType: x.Data.DType(), Device: x.Data.Device()}.Zeros(want...)
		case x.SortedIndices.Defined():
			r.checkState(s, want)
			states[i] = s.IndexSelect(1, x.SortedIndices)
		default:
			r.checkState(s, want)
			continue
		}
		made = append(made, states[i])
	}
	var hx any = states
	if len(states) == 1 {
		hx = states[0]
	}
	o := r.call()
	out := torch.Call(op, x.Data, x.BatchSizes, hx, r.weights, o.HasBiases, o.Layers, o.Dropout, o.Training,
		o.Bidirectional)
	for _, t := range made {
		t.Free()
	}
	if x.UnsortedIndices.Defined() {
		for i, t := range out[1:] {
			out[i+1] = t.IndexSelect(1, x.UnsortedIndices)
			t.Free()
		}
	}
	return x.with(r.trace(x.Data, out[0])), out[1:]
}
