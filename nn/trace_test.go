package nn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestShapesAreADryRun(t *testing.T) {
	testenv.RequireTorch(t)
	norm, dropout := nn.NewBatchNorm1d(3, nil), nn.NewDropout(0.5)
	nn.SetTraining(dropout, false)
	net := nn.Sequential{nn.NewLinear(2, 3, nil), norm, dropout}
	shapes, err := nn.Shapes(net, func() {
		if y := net.Forward(torch.Ones(4, 2)); y.NeedsGrad() || norm.Training() {
			t.Errorf("gradients %t, training %t; want neither", y.NeedsGrad(), norm.Training())
		}
	})
	if err != nil || len(shapes) != 2 || shapes[0].Name != "0" || shapes[1].Name != "1" {
		t.Fatalf("got %v, %v", shapes, err)
	}
	if n := norm.NumBatchesTracked.Item(); n != 0 {
		t.Errorf("the running statistics have seen %v batches, want none", n)
	}
	if !norm.Training() || dropout.Training() {
		t.Errorf("training is %t and %t, want true and false as before", norm.Training(), dropout.Training())
	}
	net.Forward(torch.Ones(4, 2))
	if len(shapes) != 2 {
		t.Error("a later call was seen")
	}
}

func TestShapesReturnsMistakesAndRestoresModes(t *testing.T) {
	testenv.RequireTorch(t)
	net := nn.Sequential{nn.NewLinear(2, 3, nil), nn.NewDropout(0.5), nn.NewLinear(4, 3, nil)}
	text, err := nn.SummaryRun(net, func() { net.Forward(torch.Ones(4, 2)) })
	if te := (*torch.Error)(nil); !errors.As(err, &te) || text != "" {
		t.Errorf("got %q, %v; want the error of the third layer", text, err)
	}
	if !net[1].(*nn.Dropout).Training() {
		t.Error("the mode was not restored")
	}
}

func TestEveryLayerWithParametersIsSeen(t *testing.T) {
	testenv.RequireTorch(t)
	for name, test := range map[string]struct {
		m     any
		run   func(m any)
		calls string // names, in order
	}{
		"the layers of an encoder": {
			nn.NewTransformerEncoder(nn.NewTransformerEncoderLayer(4, 2, &nn.TransformerOptions{FeedForward: 8}), 1,
				nil),
			func(m any) { m.(*nn.TransformerEncoder).Forward(torch.Ones(3, 1, 4), nn.AttentionMask{}) },
			"layers.0.self_attn.out_proj layers.0.self_attn layers.0.norm1 layers.0.linear1 layers.0.linear2 " +
				"layers.0.norm2",
		},
		"an LSTM itself": {nn.NewLSTM(3, 2, nil), func(m any) { m.(*nn.LSTM).Forward(torch.Ones(5, 1, 3)) }, ""},
		"an LSTM of packed sequences": {nn.NewLSTM(3, 2, nil), func(m any) {
			m.(*nn.LSTM).ForwardPacked(nn.PackSequence([]torch.Tensor{torch.Ones(5, 3), torch.Ones(2, 3)}, true), torch.Tensor{},
				torch.Tensor{})
		}, ""},
		"a cell": {nn.NewGRUCell(3, 2, nil), func(m any) {
			m.(*nn.GRUCell).Forward(torch.Ones(5, 3), torch.Tensor{})
		}, ""},
		"a weight-normed layer": {nn.NewWeightNorm(nn.NewLinear(3, 2, nil), 0),
			func(m any) { m.(nn.Layer).Forward(torch.Ones(5, 3)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			shapes, err := nn.Shapes(test.m, func() { test.run(test.m) })
			var calls []string
			for _, s := range shapes {
				calls = append(calls, s.Name)
			}
			if err != nil || len(calls) == 0 || strings.Join(calls, " ") != test.calls {
				t.Errorf("got %q, %v; want %q", calls, err, test.calls)
			}
		})
	}
}

func TestModulesMatchingFindsByName(t *testing.T) {
	testenv.RequireTorch(t)
	net := nn.NewTransformer(4, 2, 2, 1, &nn.TransformerOptions{FeedForward: 8})
	for pattern, want := range map[string]int{"encoder.layers.?": 2, "*.norm1": 3, "decoder": 1,
		"encoder.layers.0.*": 10} {
		if got, err := nn.ModulesMatching(net, pattern); err != nil || len(got) != want {
			t.Errorf("%s: %d modules, %v; want %d", pattern, len(got), err, want)
		}
	}
	if got, err := nn.ModulesMatching(net, "*.norm1", "encoder.*"); err != nil || got[0].Name != "encoder.layers" {
		t.Errorf("two patterns: %v, %v; want the order of Modules", got, err)
	}
	if _, err := nn.ModulesMatching(net, "encodr.*"); err == nil || !strings.Contains(err.Error(),
		`no module's name matches the pattern "encodr.*"`) {
		t.Errorf("a pattern without a match: %v", err)
	}
	if _, err := nn.ModulesMatching(net, "["); err == nil {
		t.Error("a malformed pattern was accepted")
	}
}
