package auto

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/vision"
)

// hubName matches the names of models on the Hub: bert-base-uncased, or owner/name.
var hubName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$`)

// Find returns the folder of a model: the folder of that name, or the Hub's model in the cache. It
// first fetches a model of the Hub: configuration, tokenizer or image processor, and weights, which
// are the safetensors files if there are any. It also fetches the given files, names or patterns as
// in hub.FetchOptions.Allow.
func Find(ctx context.Context, model, revision string, files ...string) (string, error) {
	return find(ctx, model, revision, true, files...)
}

// find is like [Find], with or without weights.
func find(ctx context.Context, model, revision string, weights bool, files ...string) (string, error) {
	info, err := os.Stat(model)
	switch {
	case err == nil && !info.IsDir():
		return "", fmt.Errorf("auto: %s is a file; want the folder that has config.json and the weights", model)
	case err == nil:
		return model, nil
	case !hubName.MatchString(model):
		return "", fmt.Errorf("auto: %s: there is no such folder, and it is no name on the Hub: %w", model, err)
	}
	o := hub.FetchOptions{Revision: revision, Allow: append(slices.Clone(tokenizerFiles), pretrained.ConfigName,
		lora.ConfigName, lora.WeightsName, lora.PickleName, chat.FolderName+"/*.jinja", generationConfigName,
		vision.ProcessorConfigName, processorName)}
	o.Allow = append(o.Allow, files...)
	if weights {
		o.Allow = append(o.Allow, pretrained.SafetensorsName, pretrained.SafetensorsIndexName, "model-*-of-*.safetensors")
	}
	repo, err := hub.Fetch(ctx, model, &o)
	if err != nil {
		return "", fmt.Errorf("auto: %s: there is no such folder, and the Hub says: %w", model, err)
	}
	has := func(name string) bool { _, err := os.Stat(filepath.Join(repo.Dir, name)); return err == nil }
	if weights && !has(pretrained.SafetensorsName) && !has(pretrained.SafetensorsIndexName) && !has(lora.ConfigName) {
		o.Allow = append(o.Allow, pretrained.PickleName, pretrained.PickleIndexName, "pytorch_model-*-of-*.bin")
		if repo, err = hub.Fetch(ctx, model, &o); err != nil {
			return "", fmt.Errorf("auto: %s: %w", model, err)
		}
	}
	return repo.Dir, nil
}
