package swin

import "github.com/gotrainer/gotrainer/torch"

// windows is how a layer cuts maps into windows.
type windows struct {
	side  int64 // height and width
	shift int64 // by how many rows and columns they are shifted; 0: they begin in the corner of a map
}

// layout is how a map is cut into windows.
type layout struct {
	windows
	size, padded mapSize // padded is a multiple of a window
}

// of returns how a map is cut. Where it is a single row or column of windows, they are not shifted.
// transformers remembers this in the layer, so that after one such image it no longer shifts for
// any; here each image is treated by its own size.
func (w windows) of(size mapSize) layout {
	if min(size.rows, size.columns) == w.side {
		w.shift = 0
	}
	up := func(n int64) int64 { return divideUp(n, w.side) * w.side }
	return layout{windows: w, size: size, padded: mapSize{up(size.rows), up(size.columns)}}
}

// cut maps the positions of a map, [B, rows·columns, C], to those of its windows, [B·windows,
// side², C]. What a map lacks to whole windows is filled with zeros on the right and at the
// bottom, and is attended to, as in transformers. Shifted windows go around the edges.
func (l layout) cut(x torch.Tensor) torch.Tensor {
	x = x.View(-1, l.size.rows, l.size.columns, x.Size(2))
	if l.padded != l.size {
		x = x.Pad(0, 0, 0, 0, l.padded.columns-l.size.columns, 0, l.padded.rows-l.size.rows)
	}
	if l.shift > 0 {
		x = x.Roll([]int64{-l.shift, -l.shift}, []int64{1, 2})
	}
	return l.partition(x)
}

// partition maps [B, rows, columns, C] to [B·windows, side², C].
func (l layout) partition(x torch.Tensor) torch.Tensor {
	return x.View(-1, l.padded.rows/l.side, l.side, l.padded.columns/l.side, l.side, x.Size(3)).
		Transpose(2, 3).Contiguous().View(-1, l.side*l.side, x.Size(3))
}

// join undoes [layout.cut].
func (l layout) join(x torch.Tensor) torch.Tensor {
	channels := x.Size(2)
	x = x.View(-1, l.padded.rows/l.side, l.padded.columns/l.side, l.side, l.side, channels).
		Transpose(2, 3).Contiguous().View(-1, l.padded.rows, l.padded.columns, channels)
	if l.shift > 0 {
		x = x.Roll([]int64{l.shift, l.shift}, []int64{1, 2})
	}
	if l.padded != l.size {
		x = x.Narrow(1, 0, l.size.rows).Narrow(2, 0, l.size.columns).Contiguous()
	}
	return x.View(-1, l.size.rows*l.size.columns, channels)
}

// mask returns what keeps positions apart that only a shift around the edge has brought into one
// window of the map x, [B, rows·columns, C]: -100 for these and 0 for others, [B·windows, 1, side²,
// side²]. It is undefined if windows are not shifted.
func (l layout) mask(x torch.Tensor) torch.Tensor {
	if l.shift == 0 {
		return torch.Tensor{}
	}
	// Along each axis there are three regions: the whole windows, and the two parts of the last one.
	regions := func(n int64) torch.Tensor {
		at := torch.TensorOptions{Device: x.Device()}.Arange(0, n, 1)
		return at.GeScalar(n - l.side).ToDType(torch.Int64).Add(at.GeScalar(n - l.shift).ToDType(torch.Int64))
	}
	rows, columns := regions(l.padded.rows), regions(l.padded.columns)
	region := rows.MulScalar(3).Unsqueeze(1).Add(columns) // [rows, columns]
	own := l.partition(region.Unsqueeze(0).Unsqueeze(3)).Flatten(1, 2)
	apart := own.Unsqueeze(1).Ne(own.Unsqueeze(2)) // [windows, side², side²]
	count, area := apart.Size(0), l.side*l.side
	mask := apart.ToDType(x.DType()).MulScalar(-100.0)
	return mask.Expand(x.Size(0), count, area, area).Reshape(-1, 1, area, area)
}
