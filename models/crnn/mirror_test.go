package crnn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestAMirroredModelReadsMirroredPictures(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	m, err := crnn.New(crnn.Config{Charset: []string{"", "a", "b"}, ImageHeight: 16, ImageWidth: 32,
		ConvChannels: []int64{4, 4, 8, 8, 8, 8, 8}, Map2SeqDim: 8, RNNDim: 6})
	require.NoError(t, err)
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		x := torch.Randn(2, 1, 16, 32)
		want := m.Forward(x).Flip(0)
		m.Mirror()
		assert.True(t, m.Forward(x.Flip(3)).AllClose(want, 1e-5, 1e-6, false))
		m.Mirror()
		assert.True(t, m.Forward(x).Flip(0).Equal(want), "mirroring twice changes nothing")
	})
}
