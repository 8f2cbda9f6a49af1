package torch_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

type printCase struct {
	Name    string
	Complex bool
	Grad    string
	Options struct {
		Precision *int
		Linewidth int
		Threshold *int64
		Edgeitems *int
		SciMode   *bool `json:"sci_mode"`
	}
	Text string
}

// options converts the arguments of torch.set_printoptions, in which 0 means 0.
func (c printCase) options() torch.PrintOptions {
	o := torch.PrintOptions{LineWidth: c.Options.Linewidth}
	if p := c.Options.Precision; p != nil {
		if o.Precision = *p; *p == 0 {
			o.Precision = -1
		}
	}
	if p := c.Options.Threshold; p != nil {
		if o.Threshold = *p; *p == 0 {
			o.Threshold = -1
		}
	}
	if p := c.Options.Edgeitems; p != nil {
		if o.EdgeItems = *p; *p == 0 {
			o.EdgeItems = -1
		}
	}
	if p := c.Options.SciMode; p != nil {
		if o.Sci = torch.SciNever; *p {
			o.Sci = torch.SciAlways
		}
	}
	return o
}

func TestPrintsAsPyTorchDoes(t *testing.T) {
	testenv.RequireTorch(t)
	var file struct{ Cases []printCase }
	readJSON(t, "testdata/print.json", &file)
	g := golden.Load(t, "testdata/print.safetensors")
	if len(file.Cases) < 150 {
		t.Fatalf("%d cases, want at least 150", len(file.Cases))
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			count := goldencount.Start(t, "printing", c.Name)
			torch.Scope(func() {
				x := g.Tensor(c.Name)
				if c.Complex {
					x = torch.Call("aten::view_as_complex", x)[0]
				}
				switch c.Grad {
				case "leaf":
					x = x.Clone().RequiresGrad()
				case "mul":
					x = x.Clone().RequiresGrad().Mul(torch.ScalarTensor[float32](1))
				case "view":
					x = x.Clone().RequiresGrad().View(-1)
				}
				diff := cmp.Diff(strings.Split(c.Text, "\n"), strings.Split(x.Format(c.options()), "\n"))
				count.Compare(diff == "")
				if diff != "" {
					t.Errorf("(-PyTorch +Go)\n%s", diff)
				}
			})
		})
	}
}

func TestPrintingLeavesNoTensorAndNoHistory(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(50, 50).RequiresGrad()
	defer x.Free()
	before := settled()
	_ = x.String()
	if after := torch.Live(); after != before {
		t.Errorf("Live() = %d after String, was %d", after, before)
	}
	if !torch.IsGradEnabled() {
		t.Error("String left grad mode off")
	}
}

func TestWhatHasNoElementsPrintsAsWhatItIs(t *testing.T) {
	testenv.RequireTorch(t)
	freed := torch.Ones(2)
	freed.Free()
	sparse := torch.Call("aten::to_sparse", torch.Eye(2))[0]
	if sparse.IsStrided() || !torch.Eye(2).T().IsStrided() {
		t.Error("IsStrided takes a sparse tensor for one that is not, or a transposed one for sparse")
	}
	for _, c := range []struct {
		name string
		t    torch.Tensor
		want string
	}{
		{"undefined", torch.Tensor{}, "None"},
		{"freed", freed, "tensor(freed)"},
		{"sparse", sparse, "tensor(..., layout=not strided)"},
	} {
		if got := c.t.String(); got != c.want {
			t.Errorf("%s prints %q, want %q", c.name, got, c.want)
		}
	}
}

func TestConjugatedAndTransposedViewsPrintTheirOwnElements(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.From([]complex64{1 + 2i, 3 - 4i})
	if got, want := torch.Call("aten::conj", x)[0].String(), "tensor([1.-2.j, 3.+4.j])"; got != want {
		t.Errorf("conj prints %s, want %s", got, want)
	}
	y := torch.From([]int64{1, 2, 3, 4}, 2, 2).T()
	if got, want := y.String(), "tensor([[1, 3],\n        [2, 4]])"; got != want {
		t.Errorf("transposed prints %s, want %s", got, want)
	}
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
