package pymarlin

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// Checkpointer keeps checkpoints: AbstractCheckpointer.
type Checkpointer interface {
	// Save writes a checkpoint under a number, that of the epoch, if one is due or if forced. path
	// is empty if nothing was written. The tensors are the live ones: they must be copied or
	// written before Save returns.
	Save(c Checkpoint, index int, force bool) (path string, err error)
	// SaveModel writes only the state of the module, at the end of training.
	SaveModel(state State, index int) (path string, err error)
	// Load is called once, by New. An empty Checkpoint means that there is nothing to continue
	// from. Its tensors are freed after they have been loaded.
	Load() (Checkpoint, error)
}

// CheckpointerArguments configure a [DefaultCheckpointer]: DefaultCheckpointerArguments. The zero
// value has PyMarlin's defaults.
type CheckpointerArguments struct {
	NoCheckpoint bool `config:"!checkpoint"` // write nothing
	// remove the files in SaveDir with extension FileExt at the start
	DeleteExistingCheckpoints bool `config:"delete_existing_checkpoints"`
	// save every Period epochs, starting with epoch 0; zero: 1. The last epoch is always saved
	Period            int    `config:"period"`
	SaveDir           string `config:"save_dir"`             // empty: checkpoints
	ModelStateSaveDir string `config:"model_state_save_dir"` // for the final model; empty: checkpoints
	NoModelState      bool   // do not write the final model: model_state_save_dir=None
	// where to look for a checkpoint to continue from; empty: do not look
	LoadDir      string `config:"load_dir"`
	LoadFilename string `config:"load_filename"` // empty: the newest in LoadDir and the folders below
	// files are PREFIX_EPOCH.EXT and PREFIX_model_EPOCH.EXT; empty: model
	FilePrefix string `config:"file_prefix"`

	// FileExt is the extension of the files and decides their format: "safetensors" makes
	// safetensors files, anything else files as written by torch.save. Empty: pt.
	FileExt string `config:"file_ext"`

	// Exact finds files as PyMarlin does. Without LoadFilename it loads the file with the greatest
	// last number in its path among those whose name starts with FilePrefix and ends with FileExt,
	// or the one that the file system lists first if there are several. This may be a file of
	// SaveModel, which is not a checkpoint. If LoadFilename is missing, a new run starts; a
	// damaged file is an error; and DeleteExistingCheckpoints removes script.xpt beside
	// model_0.pt.
	Exact bool
}

func (a CheckpointerArguments) withDefaults() CheckpointerArguments {
	a.Period = cmp.Or(a.Period, 1)
	a.SaveDir, a.ModelStateSaveDir = cmp.Or(a.SaveDir, "checkpoints"), cmp.Or(a.ModelStateSaveDir, "checkpoints")
	a.FilePrefix = cmp.Or(a.FilePrefix, "model")
	a.FileExt = strings.TrimPrefix(cmp.Or(a.FileExt, "pt"), ".")
	return a
}

// DefaultCheckpointer keeps one file per saved epoch. A file appears atomically: it is written
// under another name, flushed and renamed.
type DefaultCheckpointer struct {
	args   CheckpointerArguments
	logger *slog.Logger
}

// NewDefaultCheckpointer makes a DefaultCheckpointer, and removes old files if args say so. A nil
// logger means the default of slog.
func NewDefaultCheckpointer(args CheckpointerArguments, logger *slog.Logger) (*DefaultCheckpointer, error) {
	args = args.withDefaults()
	if args.Period < 0 {
		return nil, argumentf("CheckpointerArguments.Period is %d; want at least 1, or 0 for 1", args.Period)
	}
	if logger == nil {
		logger = slog.Default()
	}
	c := &DefaultCheckpointer{args, logger}
	if !args.DeleteExistingCheckpoints {
		return c, nil
	}
	entries, err := os.ReadDir(args.SaveDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("pymarlin: delete existing checkpoints: %w", err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && (filepath.Ext(e.Name()) == "."+args.FileExt || args.Exact &&
			strings.HasSuffix(e.Name(), args.FileExt)) {
			logger.Warn("deleting a checkpoint", "file", filepath.Join(args.SaveDir, e.Name()))
			if err := os.Remove(filepath.Join(args.SaveDir, e.Name())); err != nil {
				return nil, fmt.Errorf("pymarlin: delete existing checkpoints: %w", err)
			}
		}
	}
	return c, nil
}

// Save writes SaveDir/PREFIX_INDEX.EXT if index is a multiple of the period, or if forced.
func (c *DefaultCheckpointer) Save(checkpoint Checkpoint, index int, force bool) (string, error) {
	if c.args.NoCheckpoint || !force && index%c.args.Period != 0 {
		return "", nil
	}
	return c.write(c.args.SaveDir, fmt.Sprintf("%s_%d.%s", c.args.FilePrefix, index, c.args.FileExt),
		State{moduleKey: checkpoint.ModuleInterfaceState, trainerKey: checkpoint.TrainerState,
			backendKey: checkpoint.TrainerBackendState})
}

// SaveModel writes ModelStateSaveDir/PREFIX_model_INDEX.EXT.
func (c *DefaultCheckpointer) SaveModel(state State, index int) (string, error) {
	if c.args.NoCheckpoint || c.args.NoModelState {
		return "", nil
	}
	return c.write(c.args.ModelStateSaveDir, fmt.Sprintf("%s_model_%d.%s", c.args.FilePrefix, index, c.args.FileExt),
		state)
}

func (c *DefaultCheckpointer) write(dir, name string, s State) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("pymarlin: save: %w", err)
	}
	path := filepath.Join(dir, name)
	if err := WriteState(path, s); err != nil {
		return "", err
	}
	c.logger.Debug("saved a checkpoint", "file", path)
	return path, nil
}

// Load reads LoadDir/LoadFilename, or the newest checkpoint below LoadDir. If LoadDir has none, a
// new run starts. A missing LoadFilename is an error, unlike in PyMarlin, which would start a new
// run and overwrite files. If a damaged file was not named explicitly, the one before it is used,
// with a warning. CheckpointerArguments.Exact behaves like PyMarlin.
func (c *DefaultCheckpointer) Load() (Checkpoint, error) {
	if c.args.LoadDir == "" {
		return Checkpoint{}, nil
	}
	files, err := c.candidates()
	if err != nil {
		return Checkpoint{}, fmt.Errorf("pymarlin: look for checkpoints: %w", err)
	}
	for _, path := range files {
		checkpoint, err := readCheckpoint(path)
		switch {
		case err == nil:
			c.logger.Info("loaded a checkpoint", "file", path)
			return checkpoint, nil
		case c.args.Exact && errors.Is(err, fs.ErrNotExist):
			c.logger.Error("no checkpoint to continue from", "error", err)
			return Checkpoint{}, nil
		case c.args.Exact || c.args.LoadFilename != "" || !damaged(err):
			return Checkpoint{}, err
		}
		c.logger.Warn("a damaged checkpoint is passed over", "file", path, "error", err)
	}
	if len(files) > 0 {
		return Checkpoint{}, fmt.Errorf("pymarlin: none of the %d checkpoints below %s is whole; remove them to "+
			"begin a new run", len(files), c.args.LoadDir)
	}
	c.logger.Info("no checkpoint to continue from", "folder", c.args.LoadDir)
	return Checkpoint{}, nil
}

// candidates returns the files that may be loaded, best first.
func (c *DefaultCheckpointer) candidates() ([]string, error) {
	switch dir, prefix, ext := c.args.LoadDir, c.args.FilePrefix, c.args.FileExt; {
	case c.args.LoadFilename != "":
		return []string{filepath.Join(dir, c.args.LoadFilename)}, nil
	case c.args.Exact:
		return greatestNumber(dir, prefix, ext)
	default:
		return checkpointFiles(dir, prefix, ext)
	}
}

func damaged(err error) bool {
	return errors.As(err, new(*pickle.FormatError)) || errors.As(err, new(*safetensors.FormatError))
}

// LatestFile returns the checkpoint with the highest number below a folder, or the empty string if
// there is none: get_latest_file. It ignores numbers elsewhere in the path and files of SaveModel,
// which PyMarlin takes for checkpoints.
func LatestFile(dir, prefix, ext string) (string, error) {
	files, err := checkpointFiles(dir, prefix, strings.TrimPrefix(ext, "."))
	if err != nil {
		return "", fmt.Errorf("pymarlin: look for checkpoints: %w", err)
	}
	return append(files, "")[0], nil
}

// checkpointFiles lists the files named PREFIX_NUMBER.EXT below a folder, highest number first.
func checkpointFiles(dir, prefix, ext string) ([]string, error) {
	var paths []string
	numbers := map[string]int{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == dir {
			return fs.SkipAll
		}
		if err != nil || e.IsDir() {
			return err
		}
		rest, ok := strings.CutPrefix(e.Name(), prefix+"_")
		digits, ok2 := strings.CutSuffix(rest, "."+ext)
		if n, err := strconv.Atoi(digits); ok && ok2 && err == nil && n >= 0 {
			paths, numbers[path] = append(paths, path), n
		}
		return nil
	})
	slices.SortStableFunc(paths, func(a, b string) int { return numbers[b] - numbers[a] })
	return paths, err
}

func readCheckpoint(path string) (Checkpoint, error) {
	s, err := ReadState(path)
	if err != nil {
		return Checkpoint{}, err
	}
	var c Checkpoint
	for key, to := range map[string]*State{moduleKey: &c.ModuleInterfaceState, trainerKey: &c.TrainerState,
		backendKey: &c.TrainerBackendState} {
		v, there := s[key]
		part, ok := v.(State)
		if !there || !ok && v != nil {
			free(s)
			return Checkpoint{}, fmt.Errorf("pymarlin: %s is no checkpoint: want a dictionary %s in it, found %T; a "+
				"file of the model alone is loaded by the module itself", path, key, v)
		}
		*to = part
	}
	return c, nil
}

var digits = regexp.MustCompile(`[0-9]+`)

// greatestNumber behaves exactly like get_latest_file: see CheckpointerArguments.Exact.
func greatestNumber(dir, prefix, ext string) (path []string, err error) {
	greatest := new(big.Int)
	for _, candidate := range walk(dir) {
		if name := filepath.Base(candidate); !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, ext) {
			continue
		}
		numbers := digits.FindAllString(candidate, -1)
		if len(numbers) == 0 {
			return nil, fmt.Errorf("%s has no number in its path; name a LoadFilename", candidate)
		}
		number, _ := new(big.Int).SetString(numbers[len(numbers)-1], 10)
		if path == nil || number.Cmp(greatest) > 0 {
			path, greatest = []string{candidate}, number
		}
	}
	return path, nil
}

// walk lists the files below a folder in the order of Python's os.walk: the files of a folder
// before those of its subfolders, both in the order of the file system. What cannot be read is
// skipped.
func walk(dir string) (files []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	// Not sorted, unlike the result of os.ReadDir; entries read before an error count.
	entries, _ := f.ReadDir(-1)
	_ = f.Close()
	var folders []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			folders = append(folders, path)
		} else if info, err := os.Stat(path); err != nil || !info.IsDir() { // a symbolic link to a folder is not listed
			files = append(files, path)
		}
	}
	for _, folder := range folders {
		files = append(files, walk(folder)...)
	}
	return files
}
