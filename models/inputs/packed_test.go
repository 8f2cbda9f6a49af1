package inputs_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// packer is a model whose logits are the ids, and that records its inputs.
type packer struct {
	free   bool
	packed *inputs.Packed
	padded bool
}

func (m *packer) Limits() inputs.Limits { return limits }
func (m *packer) PaddingFree() bool     { return m.free }

func (m *packer) Forward(ids, _, _ torch.Tensor) torch.Tensor {
	m.padded = true
	return ids.Unsqueeze(2)
}

func (m *packer) ForwardPacked(p *inputs.Packed) torch.Tensor {
	m.packed = p
	return p.Pad(p.IDs.Unsqueeze(1), 9)
}

var limits = inputs.Limits{VocabSize: 50, TypeVocabSize: 2, MaxLength: 64, PadTokenID: 9}

func batch(t require.TestingT, list ...inputs.Text) inputs.Batch {
	b, err := limits.Collate("inputs", list, data.Padding{})
	require.NoError(t, err)
	return b
}

func of(ids ...int64) inputs.Text { return inputs.Text{InputIDs: ids} }

func masked(ids, mask []int64) inputs.Text { return inputs.Text{InputIDs: ids, AttentionMask: mask} }

func TestTextsArePackedByLengthAndPutBackWhereTheyWere(t *testing.T) {
	testenv.RequireTorch(t)
	typed := of(4, 5, 6)
	typed.TokenTypeIDs = []int64{0, 1, 1}
	m := &packer{free: true}
	b := batch(t, of(1), typed, of(2), of(7, 8))
	logits := b.Forward(engine.ForwardPass{}, m)
	p := m.packed
	require.NotNil(t, p)
	assert.Equal(t, []int64{4, 5, 6, 7, 8, 1, 2}, torch.Values[int64](p.IDs))
	assert.Equal(t, []int64{0, 1, 1, 0, 0, 0, 0}, torch.Values[int64](p.Types))
	assert.Equal(t, []int64{0, 1, 2, 0, 1, 0, 0}, torch.Values[int64](p.Positions))
	assert.Equal(t, []inputs.Group{{Texts: 1, Length: 3}, {Texts: 1, Length: 2}, {Texts: 2, Length: 1}}, p.Groups)
	assert.Equal(t, torch.Int32, p.Offsets.DType())
	assert.Equal(t, []int64{0, 3, 5, 6, 7}, torch.Values[int64](p.Offsets.ToDType(torch.Int64)))
	assert.EqualValues(t, 3, p.MaxLength())
	assert.Equal(t, []int64{4, 3, 1}, logits.Shape())
	assert.Equal(t, []int64{1, 9, 9, 4, 5, 6, 2, 9, 9, 7, 8, 9}, torch.Values[int64](logits))
	first := p.First(p.IDs.Unsqueeze(1))
	assert.Equal(t, []int64{4, 1, 1}, first.Shape())
	assert.Equal(t, []int64{1, 4, 2, 7}, torch.Values[int64](first))
	assert.Equal(t, [2]int64{7, 7}, counted(b, m))
	m.free = false
	assert.Equal(t, [2]int64{12, 7}, counted(b, m))
}

func counted(b inputs.Batch, m inputs.Model) [2]int64 {
	all, nonPadding := b.CountTokens(m)
	return [2]int64{all, nonPadding}
}

func TestWhatCannotBePackedGoesTheUsualWay(t *testing.T) {
	testenv.RequireTorch(t)
	for claim, b := range map[string]inputs.Batch{
		"nothing is padded":         batch(t, of(1, 2), of(3, 4)),
		"a mask has a hole":         batch(t, masked([]int64{1, 2, 3}, []int64{1, 0, 1}), of(4)),
		"a mask begins with a hole": batch(t, masked([]int64{1, 2}, []int64{0, 1}), of(4)),
		"nothing of a text is left": batch(t, masked([]int64{1, 2}, []int64{0, 0}), of(4)),
		"a mask that masks nothing": batch(t, masked([]int64{1, 2}, []int64{1, 1}), of(4, 5)),
	} {
		m := &packer{free: true}
		b.Forward(engine.ForwardPass{}, m)
		assert.Nil(t, m.packed, claim)
		assert.True(t, m.padded, claim)
	}
	m := &packer{}
	batch(t, of(1), of(2, 3)).Forward(engine.ForwardPass{}, m)
	assert.Nil(t, m.packed, "a model that does not want packed batches")
}

func TestTheMaskedEndOfATextIsLeftOut(t *testing.T) {
	testenv.RequireTorch(t)
	m := &packer{free: true}
	batch(t, masked([]int64{1, 2, 3}, []int64{1, 1, 0}), of(4)).Forward(engine.ForwardPass{}, m)
	require.NotNil(t, m.packed)
	assert.Equal(t, []int64{1, 2, 4}, torch.Values[int64](m.packed.IDs))
}

func TestPackingKeepsEveryToken(t *testing.T) {
	testenv.RequireTorch(t)
	rapid.Check(t, func(t *rapid.T) {
		var list []inputs.Text
		for range rapid.IntRange(1, 9).Draw(t, "texts") {
			list = append(list, of(rapid.SliceOfN(rapid.Int64Range(0, 49), 1, 12).Draw(t, "ids")...))
		}
		b := batch(t, list...)
		m := &packer{free: true}
		torch.Scope(func() {
			logits := b.Forward(engine.ForwardPass{}, m)
			assert.Equal(t, b.InputIDs.Values, torch.Values[int64](logits))
		})
	})
}
