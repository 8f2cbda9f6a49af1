package optim_test

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// expected is a file of the form of optimizers_pytorch_sample.json: trainings of a network of two layers in float64.
type expected struct {
	Initial    map[string][]float64 `json:"initial_parameters"`
	Optimizers map[string]struct {
		Optimizer string
		Options   map[string]any
		Exact     map[string]struct {
			Loss   float64 `json:"loss_before_step"`
			Params [][]float64
		} `json:"exact_after_step"`
		Peer [][][]float64 `json:"peer_after_iteration"` // after iterations 0, 100, ..., of other first weights in the last digits
	}
}

// builderOf finds the Go settings for an optimizer of torch.optim and its options in Python's names.
func builderOf(t *testing.T, name string, options map[string]any) optim.Builder {
	t.Helper()
	fields := map[string]any{}
	special := map[string]string{"lr": "LR", "amsgrad": "AMSGrad", "lambd": "Lambda", "initial_accumulator_value": "InitialAccumulator", "t0": "T0", "d": "ClipThreshold"}
	for key, value := range options {
		pair, _ := value.([]any)
		switch key {
		case "betas":
			fields["Beta1"], fields["Beta2"] = pair[0], pair[1]
		case "etas":
			fields["EtaMinus"], fields["EtaPlus"] = pair[0], pair[1]
		case "step_sizes":
			fields["MinStep"], fields["MaxStep"] = pair[0], pair[1]
		case "decoupled_weight_decay":
			fields["DecoupledDecay"] = value
		default:
			field := special[key]
			if field == "" {
				for _, part := range strings.Split(key, "_") {
					field += strings.ToUpper(part[:1]) + part[1:]
				}
				field = strings.Replace(field, "Lr", "LR", 1)
			}
			fields[field] = value
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	b := decodeBuilder(t, name, string(text))
	if f, ok := reflect.TypeOf(b).FieldByName("Implementation"); ok { // as Python's default on the CPU
		p := reflect.New(reflect.TypeOf(b))
		p.Elem().Set(reflect.ValueOf(b))
		p.Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(optim.ForLoop))
		b = p.Elem().Interface().(optim.Builder)
	}
	return b
}

func TestTrainingsOfPyTorchsOwnTestSuite(t *testing.T) {
	testenv.RequireTorch(t)
	const path = "../../shared/data/expected/optimizers_pytorch_sample.json"
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		t.Skipf("%s is not here", path)
	}
	var file expected
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil || len(file.Optimizers) == 0 {
		t.Fatalf("%s: %v, %d optimizers", path, err, len(file.Optimizers))
	}
	shapes := [][]int64{{3, 2}, {3}, {1, 3}, {1}}
	keys := []string{"0.weight", "0.bias", "2.weight", "2.bias"}
	x := torch.From([]float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, 3, 2)
	for name, c := range file.Optimizers {
		t.Run(name, func(t *testing.T) {
			var params []torch.Named
			for i, key := range keys {
				for full, values := range file.Initial {
					if strings.HasPrefix(full, key) {
						params = append(params, torch.Named{Name: key, Tensor: torch.From(values, shapes[i]...).RequiresGrad()})
					}
				}
			}
			w := func(i int) torch.Tensor { return params[i].Tensor }
			last := 0
			for k := range c.Exact {
				n, err := strconv.Atoi(k)
				if err != nil {
					t.Fatal(err)
				}
				last = max(last, n)
			}
			last = max(last, 100*(len(c.Peer)-1))
			step := stepOf(t, c.Optimizer, c.Options, params)
			for k := range last + 1 {
				torch.Scope(func() {
					for _, p := range params {
						p.Tensor.SetGrad(torch.Tensor{})
					}
					loss := x.Linear(w(0), w(1)).Sigmoid().Linear(w(2), w(3)).Sigmoid().Sum(torch.DefaultDType)
					loss.Backward()
					want, compared := c.Exact[strconv.Itoa(k)]
					if compared {
						near(t, k, "loss", loss.Item(), want.Loss, 1e-9, 1e-12)
					}
					step()
					for i := range params {
						if !compared && k%100 != 0 {
							return
						}
						for j, v := range torch.Values[float64](w(i).Detach().Reshape(-1)) {
							if compared {
								near(t, k, keys[i], v, want.Params[i][j], 1e-9, 1e-12)
							}
							if k%100 == 0 && k/100 < len(c.Peer) {
								near(t, k, keys[i]+" of the peer", v, c.Peer[k/100][i][j], 1e-3, 5e-4)
							}
						}
					}
				})
			}
		})
	}
}

// stepOf makes the optimizer and gives its step at the rate of the options.
func stepOf(t *testing.T, name string, options map[string]any, params []torch.Named) func() {
	t.Helper()
	if name == "LBFGS" { // as the peer's test has it, the closure is a constant
		var o optim.LBFGS
		if lr, ok := options["lr"].(float64); ok {
			o.LR = lr
		}
		for key := range options {
			if key != "lr" {
				t.Fatalf("option %q of LBFGS is unknown to this test", key)
			}
		}
		opt := optim.NewLBFGS(params, o)
		return func() { opt.Step(func() float64 { return 10 }) }
	}
	builder := builderOf(t, name, options)
	opt, err := builder.Build([]optim.Group{{Params: params}})
	if err != nil {
		t.Fatal(err)
	}
	return func() { opt.Step(builder.LearningRate()) }
}

func near(t *testing.T, step int, name string, got, want, rtol, atol float64) {
	t.Helper()
	if math.Abs(got-want) > rtol*math.Abs(want)+atol {
		t.Errorf("after step %d %s is %.17g, want %.17g", step, name, got, want)
	}
}
