package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Strategy says what of a run goes to the Hub, and when: Hugging Face Trainer's hub_strategy.
type Strategy string

// The strategies. The zero value means EverySave.
const (
	EverySave      Strategy = "every_save"      // the model, at each save
	LastCheckpoint Strategy = "checkpoint"      // that, and the checkpoint in the folder last-checkpoint, to resume from
	AllCheckpoints Strategy = "all_checkpoints" // that, and each checkpoint in a folder of its own name
	End            Strategy = "end"             // the model, at the end of training
)

// ParseStrategy reads one of Hugging Face's names.
func ParseStrategy(name string) (Strategy, error) {
	all := []Strategy{EverySave, LastCheckpoint, AllCheckpoints, End}
	if s := Strategy(name); slices.Contains(all, s) {
		return s, nil
	}
	return "", fmt.Errorf("hub: %.80q is no hub strategy; want one of %q: %w", name, all, ErrName)
}

// resumeFiles are the files of a checkpoint that only a resumed run needs.
var resumeFiles = []string{
	"optimizer*", "scheduler*", "scaler*", "rng_state*", "trainer_state.json", "gotrainer_state.json", "MANIFEST.json", "_*", "checkpoint-*", ".*",
}

// Pusher pushes the checkpoints of a run to one repository. Its methods wait until the push is done; [Background] does not.
type Pusher struct {
	Client   *Client // nil means the environment's
	Repo     string
	Strategy Strategy // "" means EverySave

	// Options apply to each push. Message is replaced, Delete has no meaning here; Ignore adds to what is left out of the model's
	// files. PathInRepo is the folder of the model, "" the root.
	Options PushOptions
}

// Push pushes a checkpoint's folder as the strategy says; with End it does nothing. One commit holds the model and the checkpoint.
func (p *Pusher) Push(ctx context.Context, folder, message string) error {
	model := p.model(folder)
	o := p.Options
	o.Message, o.Delete = message, nil
	folders := []pushed{model}
	name := filepath.Base(folder)
	switch p.Strategy {
	case "", EverySave:
	case LastCheckpoint:
		name = "last-checkpoint"
		fallthrough
	case AllCheckpoints:
		folders = append(folders, pushed{dir: folder, into: name})
	case End:
		return nil
	default:
		_, err := ParseStrategy(string(p.Strategy))
		return err
	}
	if p.Strategy == LastCheckpoint {
		o.Delete = []string{"last-checkpoint/*"} // files that the last one had and this one has not
		if o.PathInRepo != "" {
			return fmt.Errorf("hub: Pusher.Options.PathInRepo is %q; with the strategy %q the checkpoint lies in the root: leave it empty: %w", o.PathInRepo, p.Strategy, ErrName)
		}
	}
	_, err := p.client().push(ctx, p.Repo, folders, o)
	return err
}

// Finish pushes the model in a folder, whatever the strategy: what a run does at its end.
func (p *Pusher) Finish(ctx context.Context, folder, message string) error {
	o := p.Options
	o.Message, o.Delete = message, nil
	_, err := p.client().push(ctx, p.Repo, []pushed{p.model(folder)}, o)
	return err
}

func (p *Pusher) client() *Client {
	if p.Client != nil {
		return p.Client
	}
	return new(Client)
}

func (p *Pusher) model(folder string) pushed {
	return pushed{dir: folder, into: p.Options.PathInRepo, allow: p.Options.Allow, ignore: slices.Concat(resumeFiles, p.Options.Ignore)}
}

// stage makes a copy of a folder out of hard links, which cost nothing, so that the files stay while the folder is rotated away. Where links cannot be made
// the files are copied.
func stage(folder, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return filepath.WalkDir(folder, func(name string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o777)
		case !e.Type().IsRegular():
			return nil
		}
		if os.Link(name, target) == nil {
			return nil
		}
		return copyFile(name, target)
	})
}
