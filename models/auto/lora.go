package auto

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

var (
	_ engine.Adapted      = (*Model)(nil)
	_ lora.OutputEmbedder = (*Model)(nil)
	_ lora.Renamer        = (*Model)(nil)
)

// loraTargets are the layers that get updates by default: peft's defaults. For the types that peft
// has no default for (DistilBERT, MPNet, ModernBERT, Phi-3, SmolLM3, OLMo 2, Granite, Qwen's MoE,
// mBART, Marian, ViT, DeiT, DINOv2, Swin, CLIP, SigLIP, SegFormer, YOLOS, DETR, TrOCR and Whisper), they are the
// corresponding layers, and for ConvNeXt its linear ones.
var loraTargets = map[string][]string{
	"bert": {"query", "value"}, "roberta": {"query", "value"}, "xlm-roberta": {"query", "value"},
	"electra": {"query", "value"}, "distilbert": {"q_lin", "v_lin"}, "mpnet": {"attn.q", "attn.v"},
	"modernbert": {"Wqkv"}, "deberta-v2": {"query_proj", "value_proj"},
	"gpt2": {"c_attn"}, "llama": {"q_proj", "v_proj"}, "mistral": {"q_proj", "v_proj"},
	"qwen2": {"q_proj", "v_proj"},
	"qwen3": {"q_proj", "v_proj"}, "gemma": {"q_proj", "v_proj"}, "gemma2": {"q_proj", "v_proj"},
	"gemma3_text": {"q_proj", "v_proj"}, "phi3": {"qkv_proj"}, "smollm3": {"q_proj", "v_proj"},
	"olmo2": {"q_proj", "v_proj"}, "granite": {"q_proj", "v_proj"}, "mixtral": {"q_proj", "v_proj"},
	"qwen2_moe": {"q_proj", "v_proj"}, "qwen3_moe": {"q_proj", "v_proj"}, "t5": {"q", "v"},
	"mt5": {"q", "v"}, "bart": {"q_proj", "v_proj"}, "mbart": {"q_proj", "v_proj"},
	"marian": {"q_proj", "v_proj"},
	"vit":    {"q_proj", "v_proj"}, "deit": {"q_proj", "v_proj"}, "vision-encoder-decoder": {"q_proj", "v_proj"},
	"whisper":  {"q_proj", "v_proj"},
	"convnext": {"pwconv1", "pwconv2"}, "convnextv2": {"pwconv1", "pwconv2"}, "clip": {"q_proj", "v_proj"},
	"dinov2": {"query", "value"}, "dinov2_with_registers": {"query", "value"},
	"segformer": {"q_proj", "v_proj"}, "yolos": {"query", "value"}, "detr": {"q_proj", "v_proj"},
	"swin": {"q_proj", "v_proj"}, "siglip": {"q_proj", "v_proj"},
}

// loraPatterns are the layers that get updates by default in models of several parts: those of the
// language model.
var loraPatterns = map[string]string{"llava": `.*language_model.*\.(q_proj|v_proj|qkv_proj)`}

// AddLoRA gives the model an adapter, which is then trained and saved instead of the model itself:
// get_peft_model. TargetModules defaults to peft's choice for the type of model, most often query
// and value; in LLaVA, for which peft has none, to those of the language model. Heads are trained
// whole and saved with the adapter: the head of a classifier of texts, tokens, images or pixels, the
// layer that finds answers, and whatever else was drawn because the files lack it. Modules have the
// names of transformers: [Model.AdapterName]. Call AddLoRA before Task and engine.New.
func (m *Model) AddLoRA(c lora.Config) error {
	if m.blueprint.ModelType == "resnet" {
		return errors.New("auto: AddLoRA: a ResNet has no linear layer besides its head; convolutions take no updates")
	}
	if len(c.TargetModules) == 0 && c.TargetPattern == "" {
		c.TargetModules, c.TargetPattern = loraTargets[m.blueprint.ModelType], loraPatterns[m.blueprint.ModelType]
	}
	if err := m.besideExperts(c); err != nil {
		return err
	}
	c.ModulesToSave = slices.Clone(c.ModulesToSave)
	for _, name := range m.newModules() {
		if !slices.Contains(c.ModulesToSave, name) {
			c.ModulesToSave = append(c.ModulesToSave, name)
		}
	}
	c.TaskType = cmp.Or(c.TaskType, m.task.peft)
	c.BaseModel, c.Revision = cmp.Or(c.BaseModel, m.source), cmp.Or(c.Revision, m.revision)
	a, err := lora.Add(m, c)
	if err != nil {
		return err
	}
	m.adapter = a
	return nil
}

// besideExperts refuses for a mixture of experts what peft 0.21 would understand as updates of
// experts: it takes all-linear and the names of their layers, also where these are the ends of
// others, for target_parameters, and reads a pattern by the last parts of the names that it matches.
func (m *Model) besideExperts(c lora.Config) error {
	if m.blueprint.InFiles == nil {
		return nil
	}
	if c.TargetPattern != "" {
		return errors.New("auto: peft reads the TargetPattern of a mixture of experts in another way; list the layers " +
			"in TargetModules")
	}
	layers := []string{lora.AllLinear, "gate", "gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"}
	for _, name := range c.TargetModules {
		if slices.Contains(layers, name[strings.LastIndex(name, ".")+1:]) {
			return fmt.Errorf("auto: TargetModules has %q, which for peft is an update of the experts of a mixture "+
				"(target_parameters), and they take none here; layers of attention do, such as q_proj", name)
		}
	}
	return nil
}

// newModules returns the modules that the files of the base model do not contain.
func (m *Model) newModules() (names []string) {
	if m.task.images || m.task.class == audioClassification.class && m.task.sound || m.task.peft != "" && !m.task.decoder {
		for _, c := range nn.Children(m.head) {
			if len(nn.Params(c.Module)) > 0 {
				names = append(names, c.Name)
			}
		}
	}
	if m.Report != nil {
		for _, name := range m.Report.Initialized {
			name = m.AdapterName(name)
			if i := strings.LastIndex(name, "."); i > 0 {
				names = append(names, name[:i])
			}
		}
	}
	return names
}

// AdapterName returns the name that a module or tensor has in files of adapters and in lora.Config:
// the one that transformers 5 has in memory. For ViT, DeiT and SegFormer it differs from the name
// in files of weights: q_proj, k_proj, v_proj, o_proj, fc1 and fc2 are query, key, value and dense
// there.
func (m *Model) AdapterName(own string) string {
	if m.blueprint.InMemory == nil {
		return own
	}
	return m.blueprint.InMemory(own)
}

// LoRA is the model's adapter, or nil.
func (m *Model) LoRA() *lora.Adapter { return m.adapter }

// MergeLoRA adds the adapter's updates to the weights and removes the adapter: merge_and_unload.
// After that, training changes all weights again. Quantized weights are quantized again, which
// rounds away part of the updates. To keep them unrounded, load the adapter over the model without
// Options.Quantize.
func (m *Model) MergeLoRA() error {
	if m.adapter == nil {
		return errors.New("auto: the model has no adapter (AddLoRA)")
	}
	if err := m.adapter.Merge(); err != nil {
		return err
	}
	m.adapter = nil
	if m.quantization != nil {
		return nil
	}
	if err := nn.Unfreeze(m); err != nil || len(m.blueprint.Untrained) == 0 {
		return err
	}
	return nn.Freeze(m, m.blueprint.Untrained...)
}

// AdapterState is what is saved of a model with an adapter: engine.Adapted. The metadata have the
// labels, the token of SetPadTokenID and the languages of SetLanguages and SetLanguage, for which peft's files have
// no place.
func (m *Model) AdapterState() (file string, tensors []torch.Named, metadata map[string]string) {
	if m.adapter == nil {
		return "", nil, nil
	}
	file, tensors, metadata = m.adapter.AdapterState()
	if h := m.Head(); len(m.newModules()) > 0 && len(h.ID2Label) > 0 {
		if text, err := json.Marshal(h.ID2Label); err == nil {
			metadata["id2label"], metadata["problem_type"] = string(text), string(h.ProblemType)
		}
	}
	if l := m.languages; l != nil && l.chosen {
		metadata["src_lang"], metadata["tgt_lang"] = l.source, l.target
	}
	if m.speech.chosen {
		metadata[speechLanguageKey], metadata[speechTaskKey] = m.speech.Language, m.speech.Task
	}
	if m.padTokenID != nil {
		metadata[padTokenKey] = strconv.FormatInt(*m.padTokenID, 10)
	}
	return file, tensors, metadata
}

// loadAdapted reads an adapter from a folder, and the model that it is for.
func loadAdapted(ctx context.Context, dir string, c lora.Config, t task, o Options) (*Model, error) {
	base, revision, err := baseOf(ctx, dir, c, o)
	if err != nil {
		return nil, err
	}
	own, metadata := o, metadataOf(dir)
	if own.ID2Label == nil {
		if own.ID2Label, own.ProblemType, err = labelsOf(dir, metadata, o.ProblemType); err != nil {
			return nil, err
		}
	}
	own.InitMismatched = true // of the head, which the adapter contains
	m, err := loadFolder(base, t, own)
	if err != nil {
		return nil, fmt.Errorf("%w (the model that the adapter in %s is for)", err, dir)
	}
	m.source, m.revision = cmp.Or(o.BaseModel, c.BaseModel, base), revision
	m.adapterLanguages = [2]string{metadata["src_lang"], metadata["tgt_lang"]}
	m.speech = spoken{Language: metadata[speechLanguageKey], Task: metadata[speechTaskKey]}
	m.speech.chosen = m.speech != spoken{}
	if h, ok := m.head.(*scoreHead); ok && metadata[padTokenKey] != "" {
		id, err := strconv.ParseInt(metadata[padTokenKey], 10, 64)
		if err != nil || id < 0 || id >= m.Limits().VocabSize {
			return nil, fmt.Errorf("auto: %s of the metadata in %s is %q; want an id below the size of the vocabulary, %d",
				padTokenKey, filepath.Join(dir, lora.WeightsName), metadata[padTokenKey], m.Limits().VocabSize)
		}
		m.setPadTokenID(h, id)
	}
	err = m.besideExperts(c)
	if err == nil {
		m.adapter, err = lora.Add(m, c)
	}
	if err == nil {
		err = m.adapter.Load(dir)
	}
	if err == nil {
		err = m.reportAdapted(o)
	}
	if err != nil {
		return nil, fmt.Errorf("auto: the adapter in %s: %w", dir, err)
	}
	nn.SetTraining(m, false)
	m.warn(o.warnings())
	return m, m.loadPreparation(o.warnings(), dir, base)
}

// baseOf returns the folder of the model that an adapter is for, and its revision on the Hub. As in
// transformers, it is the adapter's own folder if that contains a whole model.
func baseOf(ctx context.Context, dir string, c lora.Config, o Options) (base, revision string, err error) {
	if o.BaseModel == "" && isModel(dir) {
		return dir, "", nil
	}
	model := o.BaseModel
	if model == "" {
		model, revision = c.BaseModel, c.Revision
	}
	if model == "" {
		return "", "", fmt.Errorf("auto: %s does not say which model the adapter is for (base_model_name_or_path): set "+
			"Options.BaseModel", filepath.Join(dir, lora.ConfigName))
	}
	if base, err = find(ctx, model, revision, !o.FromConfig); err != nil {
		return "", "", fmt.Errorf("%w (the model that the adapter in %s is for: Options.BaseModel names another)", err, dir)
	}
	return base, revision, nil
}

// isModel reports whether a folder contains a whole model.
func isModel(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, pretrained.ConfigName)); err != nil {
		return false
	}
	w, err := pretrained.Open(dir)
	return err == nil && w.Close() == nil
}

// metadataOf returns the metadata of an adapter's weights, see [Model.AdapterState].
func metadataOf(dir string) map[string]string {
	f, err := safetensors.Open(filepath.Join(dir, lora.WeightsName))
	if err != nil {
		return nil // lora.Load reports the error
	}
	defer f.Close() //nolint:errcheck // it was only read
	return f.Metadata()
}

// labelsOf are the labels that the weights of an adapter go with; nil: those of the model.
func labelsOf(dir string, metadata map[string]string, p classify.ProblemType) ([]string, classify.ProblemType, error) {
	text := metadata["id2label"]
	if text == "" {
		return nil, p, nil
	}
	var labels []string
	if err := json.Unmarshal([]byte(text), &labels); err != nil {
		return nil, p, fmt.Errorf("auto: %s: id2label of its metadata: %w", filepath.Join(dir, lora.WeightsName), err)
	}
	return labels, cmp.Or(p, classify.ProblemType(metadata["problem_type"])), nil
}

// reportAdapted removes the adapter's tensors from the report. Without Options.InitMismatched, all
// others must have the shapes of the files.
func (m *Model) reportAdapted(o Options) error {
	if m.Report == nil {
		return nil
	}
	_, tensors, _ := m.adapter.AdapterState()
	brought := func(name string) bool {
		name = "." + m.AdapterName(name)
		return slices.ContainsFunc(tensors, func(t torch.Named) bool { return strings.HasSuffix(t.Name, name) })
	}
	is := func(t nn.TensorInfo) bool { return brought(t.Name) }
	m.Report.Missing = slices.DeleteFunc(m.Report.Missing, is)
	m.Report.Initialized = slices.DeleteFunc(m.Report.Initialized, brought)
	m.Report.Mismatched = slices.DeleteFunc(m.Report.Mismatched, func(t nn.Mismatch) bool { return brought(t.Name) })
	if bad := m.Report.Mismatched; len(bad) > 0 && !o.InitMismatched {
		return fmt.Errorf("tensor %s of the model has shape %v, but %v is wanted; the option InitMismatched draws such "+
			"tensors at random", bad[0].Name, bad[0].Found, bad[0].Want)
	}
	return nil
}
