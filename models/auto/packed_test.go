package auto_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// encoders are the models that can skip padding, with parts of their config.json. Dropout is 0, so
// that gradients can be compared.
var encoders = map[string]string{
	"bert":        `"pad_token_id": 0, ` + sizes,
	"roberta":     `"pad_token_id": 1, ` + sizes,
	"xlm-roberta": `"pad_token_id": 1, ` + sizes,
	"electra":     `"pad_token_id": 0, "embedding_size": 8, ` + sizes,
	"distilbert": `"pad_token_id": 0, "vocab_size": 40, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32,
		"max_position_embeddings": 16, "dropout": 0, "attention_dropout": 0, "seq_classif_dropout": 0, "qa_dropout": 0`,
	"modernbert": `"pad_token_id": 0, "local_attention": 6, "classifier_pooling": "mean", ` + sizes,
}

const sizes = `"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
	"intermediate_size": 32, "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_dropout_prob": 0,
	"attention_probs_dropout_prob": 0, "classifier_dropout": 0`

// lengthsOfTexts are the lengths of the texts of batches.
var lengthsOfTexts = map[string][]int{
	"texts of several lengths": {3, 7, 1, 12, 7, 3, 5},
	"one text":                 {4},
	"equal lengths":            {6, 6, 6},
	"one token each":           {1, 1, 1},
	"one long text":            {1, 1, 14}, // with gradient checkpointing
}

// folder returns a folder with the config.json of an encoder.
func folder(t *testing.T, kind string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`{"model_type": %q, "id2label": {"0": "O", "1": "B-X", "2": "I-X"}, %s}`,
		kind, encoders[kind])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	return dir
}

func texts(lengths []int, typed bool) []inputs.Text {
	list := make([]inputs.Text, len(lengths))
	for i, n := range lengths {
		for k := range n {
			list[i].InputIDs = append(list[i].InputIDs, int64(2+(5*i+3*k)%30))
			if typed {
				list[i].TokenTypeIDs = append(list[i].TokenTypeIDs, int64(2*k/n))
			}
		}
	}
	return list
}

// ways are the tasks, each with a function that runs a model on texts padded to a width and returns
// the loss. If each is set, the loss is compared with the mean over single texts.
var ways = map[string]struct {
	load func(context.Context, string, auto.Options) (*auto.Model, error)
	loss func(*testing.T, *auto.Model, []inputs.Text, int) torch.Tensor
	each bool
}{
	"classes of texts": {
		func(ctx context.Context, dir string, o auto.Options) (*auto.Model, error) {
			m, err := auto.SequenceClassification(ctx, dir, o)
			if err != nil {
				return nil, err
			}
			return m.Model, nil
		},
		func(t *testing.T, m *auto.Model, list []inputs.Text, width int) torch.Tensor {
			task, err := classify.NewTask(m, classify.TaskOptions{Padding: data.Padding{Length: width}})
			require.NoError(t, err)
			samples := make([]classify.Sample, len(list))
			for i, x := range list {
				samples[i] = classify.Sample{InputIDs: x.InputIDs, TokenTypeIDs: x.TokenTypeIDs,
					AttentionMask: x.AttentionMask, Label: int64(i % 3)}
			}
			b, err := task.Collate(samples)
			require.NoError(t, err)
			return task.Loss(engine.ForwardPass{}, b).Value
		}, false,
	},
	"classes of tokens": {
		func(ctx context.Context, dir string, o auto.Options) (*auto.Model, error) {
			m, err := auto.TokenClassification(ctx, dir, o)
			if err != nil {
				return nil, err
			}
			return m.Model, nil
		},
		func(t *testing.T, m *auto.Model, list []inputs.Text, width int) torch.Tensor {
			task, err := tokenclass.NewTask(m, tokenclass.TaskOptions{Padding: data.Padding{Length: width}})
			require.NoError(t, err)
			samples := make([]tokenclass.Sample, len(list))
			for i, x := range list {
				samples[i].Text = x
				for k := range x.InputIDs {
					samples[i].Labels = append(samples[i].Labels, int64((i+k)%3))
				}
				samples[i].Labels[0] = int64(i % 3)
			}
			b, err := task.Collate(samples)
			require.NoError(t, err)
			o := task.Predict(engine.ForwardPass{}, b)
			require.Equal(t, []int64{int64(len(list)), int64(b.InputIDs.Width), 3}, o.Logits[0].Shape())
			return task.LossOf(engine.ForwardPass{}, o).Value
		}, false,
	},
	"answers": {
		func(ctx context.Context, dir string, o auto.Options) (*auto.Model, error) {
			m, err := auto.QuestionAnswering(ctx, dir, o)
			if err != nil {
				return nil, err
			}
			return m.Model, nil
		},
		func(t *testing.T, m *auto.Model, list []inputs.Text, width int) torch.Tensor {
			task, err := question.NewTask(m, question.TaskOptions{Padding: data.Padding{Length: width}})
			require.NoError(t, err)
			samples := make([]question.Sample, len(list))
			for i, x := range list {
				n := int64(len(x.InputIDs))
				samples[i] = question.Sample{Text: x, Start: n / 3, End: n / 2}
			}
			b, err := task.Collate(samples)
			require.NoError(t, err)
			return task.Loss(engine.ForwardPass{}, b).Value
		}, true,
	},
	"masked words": {
		func(ctx context.Context, dir string, o auto.Options) (*auto.Model, error) {
			m, err := auto.MaskedLM(ctx, dir, o)
			if err != nil {
				return nil, err
			}
			return m.Model, nil
		},
		func(t *testing.T, m *auto.Model, list []inputs.Text, width int) torch.Tensor {
			task, err := maskedlm.NewTask(m, maskedlm.TaskOptions{Padding: data.Padding{Length: width}, MaskTokenID: 3,
				Masking: maskedlm.Masking{Probability: new(0.5), Seed: 7}})
			require.NoError(t, err)
			samples := make([]maskedlm.Sample, len(list))
			for i, x := range list {
				samples[i] = maskedlm.Sample{Text: x, SpecialTokensMask: make([]int64, len(x.InputIDs))}
			}
			b, err := task.Collate(samples)
			require.NoError(t, err)
			return task.Loss(engine.ForwardPass{}, b).Value
		}, false,
	},
}

// gradients returns the gradients of a loss by the names of their parameters, and the loss.
func gradients(m *auto.Model, loss func() torch.Tensor) (map[string]torch.Tensor, float64) {
	var value float64
	torch.Scope(func() {
		l := loss()
		value = l.Item()
		l.Backward()
	})
	grads := map[string]torch.Tensor{}
	for _, p := range nn.Params(m) {
		if g := p.Tensor.Grad(); g.Defined() {
			grads[p.Name] = g.Clone().Keep()
		}
		p.Tensor.SetGrad(torch.Tensor{})
	}
	return grads, value
}

func TestWithoutPaddingLossAndGradientsAreThoseOfThePaddedBatch(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	const width = 14 // of every batch; the maximum for RoBERTa
	for kind := range encoders {
		dir := folder(t, kind)
		for what, way := range ways {
			torch.ManualSeed(11)
			m, err := way.load(t.Context(), dir, auto.Options{FromConfig: true, Attention: "sdpa"})
			require.NoError(t, err)
			for claim, lengths := range lengthsOfTexts {
				list := texts(lengths, kind == "bert" || kind == "electra")
				plain := func() torch.Tensor { return way.loss(t, m, list, width) }
				if way.each { // without padding, padding tokens cannot be answers, so the reference must not contain any
					plain = func() torch.Tensor {
						var losses []torch.Tensor
						for _, x := range list {
							losses = append(losses, way.loss(t, m, []inputs.Text{x}, 0))
						}
						return torch.Stack(losses, 0).Mean(torch.DefaultDType)
					}
				}
				require.NoError(t, m.SetPaddingFree(false))
				want, loss := gradients(m, plain)
				require.NoError(t, m.SetPaddingFree(true))
				m.SetGradientCheckpointing(claim == "one long text")
				got, packed := gradients(m, func() torch.Tensor { return way.loss(t, m, list, width) })
				m.SetGradientCheckpointing(false)
				name := fmt.Sprintf("%s, %s, %s", kind, what, claim)
				assert.InDelta(t, loss, packed, 1e-6, name)
				require.Len(t, got, len(want), name)
				for param, g := range want {
					golden.Close(t, name+": "+param, got[param], g, 1e-5, 1e-6)
				}
			}
		}
	}
}

func TestMPNetSaysThatItCannotDoWithoutPadding(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	config := `{"model_type": "mpnet", "vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1,
		"num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{FromConfig: true})
	require.NoError(t, err)
	require.NoError(t, m.SetPaddingFree(false))
	require.ErrorContains(t, m.SetPaddingFree(true), "auto: MPNet cannot leave padding out")
	require.ErrorContains(t, m.FuseQKVProjections(true), "auto: the layers of MPNet have no fused query")
	assert.False(t, m.PaddingFree())
}

func TestNoiseInEmbeddingsIsRefusedWithoutPadding(t *testing.T) {
	testenv.RequireTorch(t)
	m, err := auto.TokenClassification(t.Context(), folder(t, "distilbert"), auto.Options{FromConfig: true})
	require.NoError(t, err)
	noisy := engine.Options{NEFTuneAlpha: 5}
	_, err = engine.New(m.Task(), noisy)
	require.NoError(t, err)
	require.NoError(t, m.SetPaddingFree(true))
	_, err = engine.New(m.Task(), noisy)
	require.ErrorContains(t, err, "tokenclass: Options.NEFTuneAlpha is 5")
}

func TestFusedProjectionsGiveTheSameLossGradientsAndNames(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	for kind := range encoders {
		if kind == "modernbert" { // it has a single fused layer already
			continue
		}
		torch.ManualSeed(11)
		m, err := auto.TokenClassification(t.Context(), folder(t, kind), auto.Options{FromConfig: true})
		require.NoError(t, err)
		list, way := texts([]int{3, 7, 12}, false), ways["classes of tokens"]
		for _, free := range []bool{false, true} {
			require.NoError(t, m.SetPaddingFree(free))
			run := func() torch.Tensor { return way.loss(t, m.Model, list, 0) }
			require.NoError(t, m.FuseQKVProjections(false))
			want, loss := gradients(m.Model, run)
			names := nn.StateDict(m)
			require.NoError(t, m.FuseQKVProjections(true))
			got, fused := gradients(m.Model, run)
			assert.InDelta(t, loss, fused, 1e-6, kind)
			require.Len(t, got, len(want), kind)
			for param, g := range want {
				golden.Close(t, kind+": "+param, got[param], g, 1e-5, 1e-6)
			}
			for i, p := range nn.StateDict(m) {
				assert.Equal(t, names[i].Name, p.Name)
			}
		}
	}
}
