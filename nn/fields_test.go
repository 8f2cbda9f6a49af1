package nn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestAModuleComputesWithWhatItsFieldsHold(t *testing.T) {
	testenv.RequireTorch(t)
	layers := []*nn.Linear{nn.NewLinear(2, 2, nil), nn.NewLinear(2, 2, &nn.LinearOptions{NoBias: true})}
	layers[1].Weight = layers[0].Weight
	fields, err := nn.ParamFields(layers)
	require.NoError(t, err)
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	assert.Equal(t, []string{"0.weight", "0.bias", "1.weight", "1.bias"}, names, "including shared and undefined tensors")
	*fields[2].Tensor = torch.Zeros(2, 2)
	assert.Zero(t, layers[1].Forward(torch.Ones(1, 2)).Abs().Sum(torch.DefaultDType).Item())
	_, err = nn.ParamFields([]any{layers[0], nn.NewLSTM(2, 2, nil)})
	require.ErrorContains(t, err, `the module "1" is a nn.LSTM, whose parameters are not fields`)
}
