package llama

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Experts describes a mixture of experts. The zero value of a field means the default of the
// type's class in transformers.
type Experts struct {
	Number           int64 // num_experts, or num_local_experts
	PerToken         int64 // num_experts_per_tok: how many experts each token is sent to
	IntermediateSize int64 // of an expert: moe_intermediate_size of Qwen; mixtral has that of Config

	SharedIntermediateSize int64 // of the expert of qwen2_moe that sees all tokens
	// NormTopKProb makes the weights of a token's experts add up to 1, in Qwen; those of mixtral
	// always do.
	NormTopKProb bool
	// SparseStep is decoder_sparse_step of Qwen: every how many layers one has experts; zero: 1.
	// Those of MLPOnlyLayers, counted from 0, have none.
	SparseStep    int64
	MLPOnlyLayers []int64

	// OutputRouterLogits adds the load-balancing loss times RouterAuxLossCoef to the loss of a
	// language model, in training and evaluations; nil: 0.001.
	OutputRouterLogits bool
	RouterAuxLossCoef  *float64
	// RouterJitterNoise of mixtral multiplies the input of routers and experts by random numbers that
	// differ from 1 by at most this much, in training.
	RouterJitterNoise float64
}

// maxExperts is more than any model has. See [transformer.MaxLayers].
const maxExperts = 4096

// fields returns the settings by their keys in config.json, where the number of experts has
// another key in some types.
func (e *Experts) fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "num_experts", Value: &e.Number}, {Key: "num_experts_per_tok", Value: &e.PerToken},
		{Key: "moe_intermediate_size", Value: &e.IntermediateSize},
		{Key: "shared_expert_intermediate_size", Value: &e.SharedIntermediateSize},
		{Key: "norm_topk_prob", Value: &e.NormTopKProb}, {Key: "decoder_sparse_step", Value: &e.SparseStep},
		{Key: "mlp_only_layers", Value: &e.MLPOnlyLayers}, {Key: "output_router_logits", Value: &e.OutputRouterLogits},
		{Key: "router_aux_loss_coef", Value: &e.RouterAuxLossCoef},
		{Key: "router_jitter_noise", Value: (*pretrained.Float)(&e.RouterJitterNoise)},
	}
}

// resolve fills in the defaults of a family with experts and checks the settings.
func (e *Experts) resolve(f family) error {
	if f.moe == nil {
		return nil
	}
	d := f.defaults.Experts
	if err := cmp.Or(
		transformer.Positive("Experts.Number", &e.Number, d.Number),
		transformer.Positive("Experts.PerToken", &e.PerToken, d.PerToken),
		transformer.Positive("Experts.SparseStep", &e.SparseStep, 1),
		transformer.CheckProbability("Experts.RouterJitterNoise", &e.RouterJitterNoise),
	); err != nil {
		return err
	}
	e.IntermediateSize = cmp.Or(e.IntermediateSize, d.IntermediateSize)
	e.SharedIntermediateSize = cmp.Or(e.SharedIntermediateSize, d.SharedIntermediateSize)
	if e.RouterAuxLossCoef == nil {
		e.RouterAuxLossCoef = new(0.001)
	}
	if e.MLPOnlyLayers == nil {
		e.MLPOnlyLayers = []int64{}
	}
	switch coef := *e.RouterAuxLossCoef; {
	case e.Number > maxExperts:
		return fmt.Errorf("Experts.Number is %d; want at most %d", e.Number, maxExperts)
	case e.PerToken > e.Number:
		return fmt.Errorf("Experts.PerToken is %d; want at most the number of experts, %d", e.PerToken, e.Number)
	case e.IntermediateSize < 0:
		return fmt.Errorf("Experts.IntermediateSize is %d; want a positive number", e.IntermediateSize)
	case e.SharedIntermediateSize < 0:
		return fmt.Errorf("Experts.SharedIntermediateSize is %d; want a positive number", e.SharedIntermediateSize)
	case math.IsNaN(coef) || math.IsInf(coef, 0):
		return fmt.Errorf("Experts.RouterAuxLossCoef is %g; want a number", coef)
	}
	return nil
}

// mixture describes how the experts of a family differ from those of others.
type mixture struct {
	countKey, otherKey string // keys of the number of experts in config.json: as written, and as in other files
	normalized         bool   // the weights of a token's experts always add up to 1, and stay in float32
	gateLast           bool   // the router comes after the experts, for random numbers and among parameters
	shared             bool   // there is an expert for all tokens

	block          string // name in files of the module mlp; empty: the same
	gate, up, down string // names in files of an expert's layers
}

// decode moves the number of experts to the key under which it is written.
func (m *mixture) decode(d pretrained.Document) error {
	if m == nil {
		return nil
	}
	if number, given := d[m.otherKey]; given {
		if _, both := d[m.countKey]; !both {
			d[m.countKey] = number
		}
		delete(d, m.otherKey)
	}
	for _, key := range []string{m.countKey, "num_experts_per_tok", "decoder_sparse_step"} {
		if string(d[key]) == "0" {
			return fmt.Errorf("%s is 0; want a positive number", key)
		}
	}
	if string(d["mlp_only_layers"]) == "null" {
		d["mlp_only_layers"] = json.RawMessage("[]")
	}
	return nil
}

// inFiles returns the function that gives tensors the form that they have in files: the weights of
// all experts in one tensor become two-dimensional ones. It is the inverse of transformers'
// conversion mapping.
func (m *mixture) inFiles() func(state []torch.Named) []torch.Named {
	if m == nil {
		return nil
	}
	return func(state []torch.Named) (files []torch.Named) {
		for _, t := range state {
			prefix, weight, ok := strings.Cut(t.Name, ".mlp.")
			if !ok {
				files = append(files, t)
				continue
			}
			prefix += "." + cmp.Or(m.block, "mlp") + "."
			var parts []string
			switch weight {
			case "experts.gate_up_proj":
				parts = []string{m.gate, m.up}
			case "experts.down_proj":
				parts = []string{m.down}
			default:
				files = append(files, torch.Named{Name: prefix + weight, Tensor: t.Tensor})
				continue
			}
			for i, expert := range t.Tensor.Detach().Unbind(0) {
				for j, part := range expert.Chunk(int64(len(parts)), 0) {
					files = append(files, torch.Named{Name: fmt.Sprintf("%sexperts.%d.%s.weight", prefix, i, parts[j]),
						Tensor: part})
				}
			}
		}
		return slices.Clip(files)
	}
}
