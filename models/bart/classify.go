package bart

import "github.com/gotrainer/gotrainer/torch"

// Represent maps the token ids of texts, [B, L], with an attention mask as in [Model.Encode], to
// what a classifier sees of them, [B, 1, hidden]: the decoder reads the encoder's text once more,
// and its last end token stands for the text. A text without one is an error.
func (m *Model) Represent(ids, mask, _ torch.Tensor) torch.Tensor {
	hidden := m.Forward(ids, mask, m.shiftTokensRight(ids))
	ends := ids.EqScalar(-1)
	for _, id := range m.config.EOSTokenIDs {
		ends = ends.LogicalOr(ids.EqScalar(id))
	}
	if ends.AnyDim(1, false).All().Item() == 0 {
		panic(torch.Errorf("bart.Model.Represent", torch.ErrValue, "a text has no token that ends it, one of %d; a "+
			"classifier reads the class from it", m.config.EOSTokenIDs))
	}
	shape := hidden.Shape()
	number := torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}
	at := ends.ToDType(torch.Int64).Mul(number.Arange(1, shape[1]+1, 1)).ArgMax(-1, false)
	at = at.Add(number.Arange(0, shape[0], 1).MulScalar(shape[1]))
	return hidden.Reshape(shape[0]*shape[1], shape[2]).IndexSelect(0, at).Unsqueeze(1)
}

// shiftTokensRight puts in front of each text, without its last token, the token that a target text
// starts with.
func (m *Model) shiftTokensRight(ids torch.Tensor) torch.Tensor {
	c, shape := m.config, ids.Shape()
	start := ids.FullLike(c.start()).Narrow(1, 0, 1)
	if c.Type == "mbart" { // the last token that is not padding
		last := ids.NeScalar(*c.PadTokenID).SumDim([]int64{1}, false, torch.DefaultDType).SubScalar(1)
		start = ids.Gather(1, last.Unsqueeze(1))
	}
	return torch.Cat([]torch.Tensor{start, ids.Narrow(1, 0, shape[1]-1)}, 1)
}
