package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/internal/specialtoken"
)

// The files of chat templates, besides tokenizer_config.json. FileName is the default template; the
// folder FolderName has the others, as NAME.jinja. OlderFileName is that of the processors of images
// and texts of transformers 4.
const (
	FileName      = "chat_template.jinja"
	FolderName    = "additional_chat_templates"
	OlderFileName = "chat_template.json"

	tokenizerConfigName = "tokenizer_config.json"
	specialTokensName   = "special_tokens_map.json"
	extension           = ".jinja"
	configKey           = "chat_template"
	maxFile             = 64 << 20
)

// Load reads the template of a model's folder, and its special tokens. The template is in
// chat_template.jinja and additional_chat_templates/*.jinja, or else in chat_template of
// chat_template.json, as older processors have it, or of tokenizer_config.json, which is a text or a
// list of names and texts. If there is none, the error
// wraps fs.ErrNotExist. A template that cannot be used gives an error only when it is used.
func Load(dir string) (*Template, error) {
	config, err := readObject(filepath.Join(dir, tokenizerConfigName))
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	t := &Template{}
	if t.sources, err = filesOf(dir); err == nil && t.sources == nil {
		t.sources, err = entriesOf(tokenizerConfigName, config[configKey])
	}
	if err != nil {
		return nil, fmt.Errorf("chat: %s: %w", dir, err)
	}
	if t.sources == nil {
		return nil, fmt.Errorf("chat: %s has no chat template; want %s, or %q in %s: %w", dir, FileName, configKey,
			tokenizerConfigName, fs.ErrNotExist)
	}
	t.SpecialTokens, err = specialTokens(dir, config)
	return t, err
}

// LoadSpecialTokens reads the special tokens of a model's folder, as [Load] does:
// special_tokens_map of the tokenizer that transformers would load.
func LoadSpecialTokens(dir string) (map[string]string, error) {
	config, err := readObject(filepath.Join(dir, tokenizerConfigName))
	if err != nil {
		return nil, fmt.Errorf("chat: %w", err)
	}
	return specialTokens(dir, config)
}

// readObject reads a JSON object from a file; nil if there is no file.
func readObject(path string) (o map[string]json.RawMessage, err error) {
	content, err := regularfile.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

// filesOf reads the templates that have files of their own.
func filesOf(dir string) (sources []source, err error) {
	names, err := files(dir)
	if slices.Contains(names, OlderFileName) && len(names) == 1 {
		older, err := readObject(filepath.Join(dir, OlderFileName))
		if err != nil {
			return nil, err
		}
		return entriesOf(OlderFileName, older[configKey])
	}
	for _, name := range names {
		if name == OlderFileName { // the others come before it
			continue
		}
		content, err := regularfile.ReadFile(filepath.Join(dir, name), maxFile)
		if err != nil {
			return nil, err
		}
		own := defaultName
		if name != FileName {
			own = strings.TrimSuffix(filepath.Base(name), extension)
		}
		sources = append(sources, newSource(own, string(content)))
	}
	return sources, err
}

// entriesOf reads chat_template of tokenizer_config.json or another file.
func entriesOf(file string, content json.RawMessage) (sources []source, err error) {
	if content == nil || string(content) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(content, &one) == nil {
		return []source{newSource(defaultName, one)}, nil
	}
	var several []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(content, &several); err != nil {
		return nil, fmt.Errorf("%q of %s: want a text, or a list of names and templates: %w", configKey,
			file, err)
	}
	for _, s := range several {
		if slices.ContainsFunc(sources, func(other source) bool { return other.name == s.Name }) {
			return nil, fmt.Errorf("%q of %s has two templates of the name %q", configKey, file, s.Name)
		}
		sources = append(sources, newSource(s.Name, s.Template))
	}
	return sources, nil
}

// specialNames lists transformers' names of special tokens.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// classSpecialTokens holds the default special tokens of transformers' tokenizer classes.
var classSpecialTokens = map[string]map[string]string{
	"GPT2Tokenizer":  {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
	"LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
	"Qwen2Tokenizer": {"eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
	"GemmaTokenizer": {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>",
		"mask_token": "<mask>"},
}

func specialTokens(dir string, config map[string]json.RawMessage) (tokens map[string]string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("chat: %s: %w", dir, err)
		}
	}()
	tokens = map[string]string{}
	class, err := tokenizerClass(dir, config)
	if err != nil {
		return nil, err
	}
	for name, token := range classSpecialTokens[class] {
		tokens[name] = token
	}
	read := func(file string, o map[string]json.RawMessage) error {
		for _, name := range specialNames {
			content, ok := o[name]
			if !ok {
				continue
			}
			if bytes.Equal(content, []byte("null")) {
				delete(tokens, name)
				continue
			}
			var token specialtoken.Token
			if err := json.Unmarshal(content, &token); err != nil {
				return fmt.Errorf("%s of %s: %w", name, file, err)
			}
			tokens[name] = token.Content
		}
		return nil
	}
	if err := read(tokenizerConfigName, config); err != nil {
		return nil, err
	}
	if _, ok := config["added_tokens_decoder"]; ok {
		return tokens, nil
	}
	older, err := readObject(filepath.Join(dir, specialTokensName))
	if err != nil {
		return nil, err
	}
	return tokens, read(specialTokensName, older)
}

// tokenizerClass returns the tokenizer class that transformers would use, as far as it matters for
// default special tokens.
func tokenizerClass(dir string, config map[string]json.RawMessage) (string, error) {
	model, err := readObject(filepath.Join(dir, "config.json"))
	if err != nil {
		return "", err
	}
	var kind, class string
	for content, to := range map[*string]json.RawMessage{&kind: model["model_type"], &class: config["tokenizer_class"]} {
		if to != nil && string(to) != "null" {
			if err := json.Unmarshal(to, content); err != nil {
				return "", fmt.Errorf("model_type of config.json, or tokenizer_class of %s: %w", tokenizerConfigName, err)
			}
		}
	}
	switch {
	case kind == "qwen2": // regardless of tokenizer_class
		return "Qwen2Tokenizer", nil
	case kind == "mistral":
		return "", nil
	case class == "":
		return map[string]string{"gpt2": "GPT2Tokenizer", "gemma": "GemmaTokenizer"}[kind], nil
	}
	return strings.TrimSuffix(class, "Fast"), nil
}

// Save writes the template into a folder as transformers does: chat_template.jinja, and all but the
// default template in additional_chat_templates. It removes any other template from the folder. A
// nil Template only removes.
func (t *Template) Save(dir string) error {
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = remove(dir)
	}
	for _, s := range t.all() {
		if err == nil {
			err = t.saveSource(dir, s)
		}
	}
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	return nil
}

func (t *Template) all() []source {
	if t == nil {
		return nil
	}
	return t.sources
}

func (t *Template) saveSource(dir string, s source) error {
	name := FileName
	if s.name != defaultName {
		if name = s.name + extension; s.name == "" || filepath.Base(name) != name {
			return fmt.Errorf("the name of a template, %q, cannot be a file name", s.name)
		}
		dir = filepath.Join(dir, FolderName)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	return renameio.WriteFile(filepath.Join(dir, name), []byte(s.text), 0o666, renameio.WithTempDir(dir))
}

// remove removes the template of a folder, if there is one: its files, and chat_template of
// tokenizer_config.json.
func remove(dir string) error {
	if err := removeFiles(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, tokenizerConfigName)
	content, err := regularfile.ReadFile(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var config Object
	if err := json.Unmarshal(content, &config); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	i := slices.Index(config.names, configKey)
	if i < 0 {
		return nil
	}
	config.names, config.values = slices.Delete(config.names, i, i+1), slices.Delete(config.values, i, i+1)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(config); err != nil {
		return err
	}
	return renameio.WriteFile(path, b.Bytes(), 0o666, renameio.WithTempDir(dir))
}

// removeFiles removes the files of a template.
func removeFiles(dir string) error {
	paths, err := files(dir)
	for _, path := range paths {
		if err == nil {
			err = os.Remove(filepath.Join(dir, path))
		}
	}
	return err
}

// files returns the names of the template files in a folder, relative to it.
func files(dir string) (names []string, err error) {
	for _, name := range []string{FileName, OlderFileName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			names = append(names, name)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, FolderName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), extension) {
			names = append(names, filepath.Join(FolderName, e.Name()))
		}
	}
	return names, nil
}

// CopyFiles copies the template files of one folder into another, byte for byte, and removes any
// others there. It does not touch a template in tokenizer_config.json.
func CopyFiles(from, to string) error {
	same, err := sameFolder(from, to)
	if err != nil || same {
		return err
	}
	names, err := files(from)
	if err == nil {
		err = removeFiles(to)
	}
	for _, name := range names {
		if err == nil {
			err = copyFile(filepath.Join(from, name), filepath.Join(to, name))
		}
	}
	if err != nil {
		return fmt.Errorf("chat: %w", err)
	}
	return nil
}

func sameFolder(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, fmt.Errorf("chat: %w", err)
	}
	y, err := os.Stat(b)
	if err != nil {
		return false, fmt.Errorf("chat: %w", err)
	}
	return os.SameFile(x, y), nil
}

func copyFile(from, to string) error {
	content, err := regularfile.ReadFile(from, maxFile)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o777)
	}
	if err == nil {
		err = renameio.WriteFile(to, content, 0o666, renameio.WithTempDir(filepath.Dir(to)))
	}
	return err
}
