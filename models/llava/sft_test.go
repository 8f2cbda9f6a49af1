package llava_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/sft"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// sftRecorded is the output of testdata/sft.py.
type sftRecorded struct {
	Samples []struct {
		IDs, Labels []int64
		Images      int
	}
	Runs []struct {
		Name     string
		Settings struct {
			LossType sft.LossType `json:"loss_type"`
			modeltest.TRLSettings
		}
		LoRA *struct {
			R       int64
			Alpha   float64 `json:"lora_alpha"`
			Dropout float64 `json:"lora_dropout"`
		}
		Initial, Final map[string]string
		Logs           []map[string]string
	}
}

// TestRunsHaveTheBitsOfSFTTrainer compares runs of SFTTrainer with
// DataCollatorForVisionLanguageModeling, whose pictures the processor prepares, and their
// evaluations.
func TestRunsHaveTheBitsOfSFTTrainer(t *testing.T) {
	testenv.RequireTorch(t)
	content, err := os.ReadFile("testdata/sft.json")
	require.NoError(t, err)
	var r sftRecorded
	require.NoError(t, json.Unmarshal(content, &r))
	for _, run := range r.Runs {
		t.Run(run.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "llava sft run "+run.Name)
			m, file := processed(t)
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					if p.Tensor.Dim() == 2 {
						p.Tensor.MulScalar_(4)
					}
				}
			})
			if run.LoRA != nil {
				torch.ManualSeed(42)
				require.NoError(t, m.AddLoRA(lora.Config{R: run.LoRA.R, Alpha: run.LoRA.Alpha, Dropout: run.LoRA.Dropout}))
			}
			if testenv.SameBits() {
				assert.Equal(t, run.Initial, modeltest.Trained(m))
			}
			var samples []sft.ImageSample
			at := 0
			for _, s := range r.Samples {
				sample := sft.ImageSample{Sample: causallm.Sample{Text: inputs.Text{InputIDs: s.IDs}, Labels: s.Labels}}
				for range s.Images {
					prepared := must(m.Encode("<image>", pictures(file, []int{at})...))
					sample.Images = append(sample.Images, prepared.Images...)
					at++
				}
				samples = append(samples, sample)
			}
			task, err := m.SFTTask(sft.TaskOptions{LossType: run.Settings.LossType})
			require.NoError(t, err)
			samples = task.Keep(samples)
			require.Len(t, samples, len(r.Samples))
			modeltest.SameTRLRun(t, task, run.Settings.TRLSettings, samples, samples[:8], run.Logs, run.Final)
		})
	}
}

// TestImagesAreNotCutOff: a text that TaskOptions.MaxLength cuts keeps its images or is refused.
func TestImagesAreNotCutOff(t *testing.T) {
	models, file := load(t)
	m := models[0].fresh(t, auto.Options{})
	samples := models[0].samples(m, file)[:1]
	task, err := m.SFTTask(sft.TaskOptions{MaxLength: 2})
	require.NoError(t, err)
	_, err = task.Collate(samples)
	require.ErrorContains(t, err, "a text that is cut must not lose any of them")
	task, err = m.SFTTask(sft.TaskOptions{MaxLength: len(samples[0].InputIDs) - 1})
	require.NoError(t, err)
	b, err := task.Collate(samples)
	require.NoError(t, err)
	assert.Equal(t, len(samples[0].InputIDs)-1, b.InputIDs.Width)
	assert.Equal(t, b.InputIDs.Width, task.Length(samples[0]))
	samples[0].Labels[len(samples[0].Labels)-1] = 7
	_, err = task.Collate(samples)
	require.ErrorContains(t, err, "sft: sample 0 of the batch: label")
	samples[0].Labels = samples[0].Labels[:1]
	_, err = task.Collate(samples)
	require.ErrorContains(t, err, "Labels has 1 numbers for")
}
