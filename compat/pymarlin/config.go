package pymarlin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/internal/torchsave"
)

// Config is a configuration as in a YAML file: sections of arguments. Values are nil, bool, int,
// float64, string, []any and map[string]any.
type Config map[string]any

// Section returns the section of the given name, empty if there is none.
func (c Config) Section(name string) (Config, error) {
	switch v := c[name].(type) {
	case nil:
		return Config{}, nil
	case map[string]any:
		return v, nil
	default:
		return nil, argumentf("the section %q of the configuration is %s, want names and values", name, describe(v))
	}
}

// ConfigParser reads a configuration file and the changes to it from the command line:
// CustomArgParser.
//
//	config, err := pymarlin.ConfigParser{}.Parse(os.Args[1:])
//
//	./train --config_path conf.yaml --tmgr.epochs 4 --chkp.save_dir runs/a --params '{"--tmgr.seed": 7}'
//
// An argument gets the type of the file's value; write -1 or null for values that are to be given
// on the command line. Lists are 1-2-3 or [1, 2, 3]; a switch without a value is turned on.
// --params is a JSON object of such arguments and takes precedence.
type ConfigParser struct {
	FileArgument string       // the argument that names the file, or a folder with one .yaml file; empty: config_path
	DefaultFile  string       // the file without that argument; empty: config.yaml
	Strict       bool         // an argument that the file lacks is an error instead of being ignored with a warning
	Logger       *slog.Logger // for these warnings; nil: slog's default
}

// Parse reads the file, whose path the configuration has under FileArgument, and merges the
// arguments.
func (p ConfigParser) Parse(args []string) (Config, error) {
	p.FileArgument = cmp.Or(p.FileArgument, "config_path")
	p.DefaultFile = cmp.Or(p.DefaultFile, "config.yaml")
	p.Logger = cmp.Or(p.Logger, slog.Default())
	path, params := p.DefaultFile, "{}"
	var rest []override
	for _, o := range split(args) {
		into := map[string]*string{p.FileArgument: &path, "params": &params}[o.name]
		switch {
		case into == nil:
			rest = append(rest, o)
		case o.value == nil:
			return nil, argumentf("--%s has no value", o.name)
		default:
			*into = *o.value
		}
	}
	c, err := ReadConfig(path)
	if err != nil {
		return nil, err
	}
	c[p.FileArgument] = path
	if err := p.apply(c, rest); err != nil {
		return nil, err
	}
	return c, p.applyParams(c, params)
}

// override is an argument --name value; value is nil if there is none.
type override struct {
	name  string
	value *string
}

// split parses a command line. A word that begins with a dash and is a number is a value, not a
// name.
func split(args []string) []override {
	var out []override
	for _, a := range args {
		name, isName := strings.CutPrefix(a, "--")
		switch {
		case isName && name != "":
			o := override{name: name}
			if key, value, ok := strings.Cut(name, "="); ok {
				o = override{key, &value}
			}
			out = append(out, o)
		case len(out) > 0 && out[len(out)-1].value == nil:
			out[len(out)-1].value = &a
		}
	}
	return out
}

func (p ConfigParser) apply(c Config, overrides []override) error {
	for _, o := range overrides {
		section, key, ok := c.find(o.name)
		if !ok {
			if p.Strict {
				return argumentf("--%s: the configuration file has no such argument", o.name)
			}
			p.Logger.Warn("an argument that the configuration file does not have is passed over", "argument",
				"--"+o.name)
			continue
		}
		v, err := convert(section[key], o.value)
		if err != nil {
			return argumentf("--%s: %v", o.name, err)
		}
		section[key] = v
	}
	return nil
}

// applyParams applies the JSON object of --params, whose values are not converted.
func (p ConfigParser) applyParams(c Config, text string) error {
	params, err := torchsave.FromText([]byte(text))
	object, ok := params.(map[string]any)
	if err != nil || !ok || !json.Valid([]byte(text)) {
		return argumentf("--params is %q; want a JSON object such as {\"--tmgr.epochs\": 4}: %v", text, err)
	}
	for name, v := range object {
		key := strings.TrimLeft(name, "-")
		section, last, ok := c.find(key)
		switch {
		case ok:
			section[last] = v
		case p.Strict || strings.Contains(name, "."):
			return argumentf("--params: the configuration file has no argument %s", name)
		default: // a name without section may be new
			c[key] = v
		}
	}
	return nil
}

// find follows "section.key" and returns the innermost section itself, not a copy, and the key in
// it.
func (c Config) find(name string) (section map[string]any, key string, ok bool) {
	section = c
	parts := strings.Split(name, ".")
	for _, part := range parts[:len(parts)-1] {
		if section, ok = section[part].(map[string]any); !ok {
			return nil, "", false
		}
	}
	key = parts[len(parts)-1]
	_, ok = section[key]
	return section, key, ok
}

// switches are the words for true and false on a command line.
var switches = map[string]bool{"yes": true, "true": true, "t": true, "y": true, "1": true, "no": false, "false": false,
	"f": false, "n": false, "0": false}

// convert converts a word to the type of the file's value.
func convert(old any, word *string) (v any, err error) {
	_, isSwitch := old.(bool)
	switch {
	case word == nil && isSwitch:
		return true, nil // --flag without a value means true
	case word == nil:
		return nil, errors.New("it has no value")
	}
	ok := true
	switch old := old.(type) {
	case nil, string:
		return *word, nil
	case bool:
		v, ok = switches[strings.ToLower(*word)]
	case int:
		v, err = strconv.Atoi(*word)
	case float64:
		v, err = strconv.ParseFloat(*word, 64)
	case []any:
		return convertList(old, *word)
	default:
		return nil, fmt.Errorf("the file has %s there, which the command line cannot replace; name an argument in it",
			describe(old))
	}
	if err != nil || !ok {
		return nil, fmt.Errorf("want %s, as in the file, found %q", wants[reflect.TypeOf(old).Kind()], *word)
	}
	return v, nil
}

// convertList parses 1-2-3, [1, 2, 3] or a single value as a list, with the element type of the
// file's list.
func convertList(old []any, word string) (any, error) {
	if len(old) == 0 {
		return nil, errors.New("the file has an empty list there, so the type of its elements is not known; give it " +
			"one, such as [-1]")
	}
	words := strings.Split(word, "-")
	if strings.HasPrefix(strings.TrimSpace(word), "[") {
		words = nil
		if err := yaml.Unmarshal([]byte(word), &words); err != nil {
			return nil, fmt.Errorf("want a list, found %q", word)
		}
	}
	out := make([]any, 0, len(words))
	for _, w := range words {
		v, err := convert(old[0], &w)
		if err != nil {
			return nil, fmt.Errorf("in the list %q: %w", word, err)
		}
		out = append(out, v)
	}
	return out, nil
}

// maxConfig is far larger than any real configuration.
const maxConfig = 4 << 20

// ReadConfig reads a YAML file, or the only .yaml file in a folder.
func ReadConfig(path string) (Config, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		files, err := fs.Glob(os.DirFS(path), "*.yaml")
		if err != nil {
			return nil, fmt.Errorf("pymarlin: config: %w", err)
		}
		if len(files) != 1 {
			return nil, fmt.Errorf("pymarlin: config: the folder %s has %d .yaml files, want one: %w", path, len(files),
				fs.ErrNotExist)
		}
		path = filepath.Join(path, files[0])
	}
	text, err := regularfile.ReadFile(path, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: config: %w", err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig parses the text of a YAML file. As in Python's YAML 1.1, yes, no, on and off are
// booleans; unlike there, 1e-5 is a number.
func ParseConfig(text []byte) (Config, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("pymarlin: config: %w", err)
	}
	if doc.Kind == 0 {
		return Config{}, nil
	}
	markTypes(&doc, false, 0)
	var v any
	if err := doc.Decode(&v); err != nil {
		return nil, fmt.Errorf("pymarlin: config: %w", err)
	}
	c, ok := v.(map[string]any)
	if !ok {
		return nil, argumentf("the configuration is %s, want names and values", describe(v))
	}
	return c, nil
}

// markTypes changes the tags in a document so that it decodes into the few types of a Config: keys,
// dates and very large integers become strings, and unquoted yes, no, on and off become booleans.
// Aliases are not followed: their targets are visited where they are defined.
func markTypes(n *yaml.Node, isName bool, depth int) {
	switch value := strings.ToLower(n.Value); {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!merge":
	case isName || n.Tag == "!!timestamp" || n.Tag == "!!int" && n.Decode(new(int)) != nil:
		n.Tag = "!!str"
	case n.Tag != "!!str" || n.Style != 0: // not a plain string
	case value == "yes" || value == "on":
		n.Tag, n.Value = "!!bool", "true"
	case value == "no" || value == "off":
		n.Tag, n.Value = "!!bool", "false"
	}
	if depth > 100 {
		return
	}
	for i, child := range n.Content {
		markTypes(child, n.Kind == yaml.MappingNode && i%2 == 0, depth+1)
	}
}

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "empty"
	case map[string]any, Config:
		return "a section"
	case []any:
		return fmt.Sprintf("a list of %d", len(v))
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(v)
}
