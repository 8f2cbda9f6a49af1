package hezar_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/models/crnn"
	texthezar "github.com/gotrainer/gotrainer/text/hezar"
)

// saved returns the folder of a small BERT with its tokenizer, and a function that removes it.
func saved(labels ...string) (dir string, remove func()) {
	tokenizer, err := texthezar.LoadTokenizer("preprocessors/testdata/model")
	check(err)
	model, err := hezar.NewModel("bert_text_classification", small(labels), &preprocessors.Set{Tokenizer: tokenizer})
	check(err)
	dir, err = os.MkdirTemp("", "hezar")
	check(err)
	check(model.Save(dir))
	return dir, func() { _ = os.RemoveAll(dir) }
}

// small returns the settings of a BERT that is small enough for a test.
func small(labels []string) hezar.Settings {
	return hezar.Settings{"id2label": labels, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
		"intermediate_size": 16, "max_position_embeddings": 24, "vocab_size": 40}
}

// sentiment returns a data set of two texts; a program would load one from the Hub.
func sentiment(p *preprocessors.Set) *datasets.TextClassification {
	d, err := hezar.LoadDataset[*datasets.TextClassification](context.Background(), "datasets/testdata/hub/texts",
		"train",
		hezar.DatasetOptions{Preprocessor: p})
	check(err)
	return d
}

// onAHub returns a Trainer and its folder, with a fake Hub.
func onAHub() (server *hubtest.Server, t *hezar.Trainer[crnn.Sample, crnn.Batch], dir string, end func()) {
	server, err := hubtest.New()
	check(err)
	server.AddUser("me", "hf_secret")
	check(os.Setenv("HF_ENDPOINT", server.URL))
	check(os.Setenv("HF_TOKEN", "hf_secret"))
	dir, err = os.MkdirTemp("", "plates")
	check(err)
	t = plateTrainer(dir, func(*hezar.TrainerConfig, *hezar.Options[crnn.Sample, crnn.Batch]) {})
	return server, t, dir, func() {
		check(errors.Join(t.Close(), os.Unsetenv("HF_ENDPOINT"), os.Unsetenv("HF_TOKEN"), os.RemoveAll(dir)))
		server.Close()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// Training a pretrained model further: Model.load.
func ExampleLoadModel() {
	pretrainedPath, remove := saved("negative", "positive") // a name on the Hub
	defer remove()
	model, err := hezar.LoadModel(context.Background(), pretrainedPath)
	check(err)
	trainDataset := sentiment(model.Preprocessors)
	trainer, err := hezar.New(hezar.TrainerConfig{
		OutputDir: filepath.Join(pretrainedPath, "run"),
		Task:      "text_classification",
		NumEpochs: 1,
		Metrics:   []string{"f1"},
	}, hezar.TextClassification(model), trainDataset, hezar.TextClassificationOptions{
		EvalDataset: trainDataset, Output: io.Discard,
	})
	check(err)
	check(trainer.Train(context.Background()))
	fmt.Println(trainer.State.GlobalStep, "steps")
	// Output: 2 steps
}

// A model of another task with the weights of a base model: init_weights_from. Weights that the
// base does not have in that shape stay random, with a warning.
func ExampleTextClassification() {
	baseModelPath, remove := saved("a", "b", "c") // "hezarai/bert-base-fa"
	defer remove()
	preprocessor, err := hezar.LoadPreprocessor(context.Background(), baseModelPath)
	check(err)
	trainDataset := sentiment(preprocessor)
	model, err := hezar.NewModel("bert_text_classification", small(trainDataset.Config.ID2Label), preprocessor)
	check(err)
	trainerConfig := hezar.TrainerConfig{
		OutputDir:       filepath.Join(baseModelPath, "run"),
		Task:            "text_classification",
		InitWeightsFrom: baseModelPath,
		MixedPrecision:  "bf16", // also fp16 and full
		NumEpochs:       1,
	}
	trainer, err := hezar.New(trainerConfig, hezar.TextClassification(model), trainDataset,
		hezar.TextClassificationOptions{EvalDataset: trainDataset, Output: io.Discard, Warnings: io.Discard})
	check(err)
	defer trainer.Close()
	for _, tensor := range trainer.InitReport().Mismatched {
		fmt.Println("drawn:", tensor.Name)
	}
	// Output:
	// drawn: classifier.weight
	// drawn: classifier.bias
}

// The files of a run in a folder and on the Hub: trainer.save, trainer.push_to_hub.
func ExampleTrainer_PushToHub() {
	server, trainer, dir, end := onAHub()
	defer end()
	check(trainer.Save(filepath.Join(dir, "my-awesome-model")))
	check(trainer.PushToHub(context.Background(), "me/my-awesome-model", hezar.PushOptions{
		CommitMessage: "Upload my awesome model and files"}))
	fmt.Println(server.Log(hubtest.Model, "me/my-awesome-model", "main")[0])
	// Output: Upload my awesome model and files
}
