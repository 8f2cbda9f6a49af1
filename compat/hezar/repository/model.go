package repository

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
)

// Model is one of Hezar's models: a network with its config and preprocessors.
type Model struct {
	Preprocessors *preprocessors.Set

	// CRNN is the network of a model that reads pictures, and Text that of one that classifies
	// texts or tokens; the others are nil. CRNN's own methods for reading pictures prepare them
	// according to crnn.Config, not with Preprocessors; [Model.Predict] uses Preprocessors.
	CRNN *crnn.Model
	Text classify.Model
	// Seq2Seq is the network of T5, which generates texts from texts, and Causal that of GPT-2,
	// which continues texts: see [Model.Generate].
	Seq2Seq *auto.Seq2SeqLanguageModel
	Causal  *auto.CausalLanguageModel

	config omegaconf.Map
	kind   string
	module any // the network of a model that generates texts, structured as in Hezar's class
}

// New makes a model with random weights, initialised like Hezar's class: CRNNImage2Text(config) and
// so on. A CRNN's picture size is that of the image processor in set, if there is one.
func New(config omegaconf.Map, set *preprocessors.Set) (m *Model, err error) {
	m = &Model{Preprocessors: set, config: config}
	name, _ := config.Get("name")
	m.kind, _ = name.(string)
	if m.Preprocessors == nil {
		m.Preprocessors = &preprocessors.Set{}
	}
	if m.kind == crnnKind {
		c, err := CRNNConfig(config, m.Preprocessors.Image)
		if err == nil {
			m.CRNN, err = crnn.New(c)
		}
		if err != nil {
			return nil, fmt.Errorf("repository: %s: %w", m.kind, err)
		}
		return m, nil
	}
	if strings.HasSuffix(m.kind, writerSuffix) {
		if err := m.newWriter(); err != nil {
			return nil, fmt.Errorf("repository: %s: %w", m.kind, err)
		}
		return m, nil
	}
	if n, _ := config.Get("num_labels"); n == nil {
		id2label, _ := config.Get("id2label")
		m.config.Set("num_labels", int64(len(labelsOf(id2label))))
	}
	d, err := m.document()
	if err != nil {
		return nil, err
	}
	make := auto.HezarSequenceClassifier
	if m.tags() {
		make = auto.HezarTokenClassifier
	}
	network, err := make(d)
	if err != nil {
		return nil, err
	}
	m.Text = network
	return m, nil
}

// tags reports whether the model classifies tokens.
func (m *Model) tags() bool { return strings.HasSuffix(m.kind, "_sequence_labeling") }

func labelsOf(id2label any) []string {
	var l configfile.Labels
	if id2label == nil || l.Decode(id2label) != nil {
		return nil
	}
	return l
}

// document returns the config under the names of transformers' config.json.
func (m *Model) document() (pretrained.Document, error) {
	config := withoutNulls(m.config)
	family, _, _ := strings.Cut(m.kind, "_")
	config.Set("model_type", family)
	if family == "distilbert" && m.tags() {
		dropout, _ := config.Get("classifier_dropout")
		if dropout == nil {
			dropout, _ = config.Get("hidden_dropout_prob")
		}
		config.Set("seq_classif_dropout", dropout)
	}
	text, err := omegaconf.Marshal(config)
	if err != nil {
		return nil, err
	}
	return pretrained.ParseYAML(text)
}

// Load loads a model from its folder: Model.load. All its weights must be present. The model is in
// evaluation mode; [nn.SetTraining] switches it to training, as every trainer in this module does.
func Load(dir string) (*Model, error) {
	config, err := ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	set, err := preprocessors.Load(dir)
	if err != nil {
		return nil, err
	}
	m, err := New(config, set)
	if err != nil {
		return nil, named(dir, err)
	}
	if err := m.loadWeights(dir); err != nil {
		return nil, err
	}
	nn.SetTraining(m.Module(), false)
	return m, nil
}

// Find returns the folder with a name, or that of the Hub's model in the cache, which it downloads
// first.
func Find(ctx context.Context, model string) (string, error) {
	return find(ctx, model, hub.FetchOptions{Allow: []string{WeightsFile, "model.safetensors", ConfigFile,
		preprocessors.Folder + "/*"}})
}

// FindDataset returns the folder of a data set with the files of a split: the folder with that
// name, or that of the Hub's data set in the cache. If a split consists of tables and not of
// Parquet files, all files of the data set are downloaded, because tables refer to pictures.
func FindDataset(ctx context.Context, name, split string) (string, error) {
	o := hub.FetchOptions{Type: hub.Dataset, Allow: []string{datasets.ConfigFile}}
	for _, word := range datasets.SplitWords(split) {
		o.Allow = append(o.Allow, "*"+word+"*.parquet", word+"/*.parquet")
	}
	dir, err := find(ctx, name, o)
	if err != nil || dir == name {
		return dir, err
	}
	if files, _ := datasets.SplitFiles(dir, split); files == nil {
		o.Allow = nil
		return find(ctx, name, o)
	}
	return dir, nil
}

// hubName matches the names of repositories on the Hub.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

func find(ctx context.Context, name string, o hub.FetchOptions) (string, error) {
	switch info, err := os.Stat(name); {
	case err == nil && info.IsDir():
		return name, nil
	case err == nil:
		return "", fmt.Errorf("repository: %s is a file; want a folder", name)
	case !hubName.MatchString(name):
		return "", fmt.Errorf("repository: %s is no folder, and no name on the Hub: %w", name, err)
	}
	repo, err := hub.Fetch(ctx, name, &o)
	if err != nil {
		return "", fmt.Errorf("repository: %q is no folder here; on the Hub: %w", name, err)
	}
	return repo.Dir, nil
}

// Module returns the network.
func (m *Model) Module() any {
	switch {
	case m.CRNN != nil:
		return m.CRNN
	case m.Text != nil:
		return m.Text
	}
	return m.module
}

// Kind returns the name of the model's class in Hezar's registry, such as bert_text_classification.
func (m *Model) Kind() string { return m.kind }

// Config returns the model_config.yaml.
func (m *Model) Config() omegaconf.Map { return withoutNulls(m.config) }

// Labels returns the texts of the classes: id2label. A model that generates texts has none.
func (m *Model) Labels() []string {
	switch {
	case m.CRNN != nil:
		return m.CRNN.Config().Charset
	case m.Text != nil:
		return m.Text.Head().ID2Label
	}
	return nil
}

// Save writes the folder in the form that Hezar's Model.load and [Load] read. The files of an
// existing model stay until all new ones are complete.
func (m *Model) Save(dir string) error {
	if m.CRNN != nil {
		if err := loadable(m.CRNN.Config()); err != nil {
			return err
		}
	}
	return replaceFiles(dir, func(dir string) error {
		if err := writeModel(dir, m.Module(), m.Config()); err != nil || m.Preprocessors == nil {
			return err
		}
		return m.Preprocessors.Save(dir)
	})
}

// PushOptions configures [Model.PushToHub].
type PushOptions struct {
	CommitMessage string // of a repository that the upload creates
	Private       bool   // of a repository that the upload makes
}

// PushToHub uploads the files of Save in one commit, to a repository that is created if it does not
// exist.
func (m *Model) PushToHub(ctx context.Context, repo string, o PushOptions) error {
	dir, err := os.MkdirTemp("", "hezar-")
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := m.Save(dir); err != nil {
		return err
	}
	_, err = hub.Push(ctx, repo, dir, hub.PushOptions{Private: o.Private,
		Message: cmp.Or(o.CommitMessage, "Hezar: Upload model and config")})
	return err
}
