package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// resumeFiles are the files of a checkpoint that only a resumed run needs.
var resumeFiles = []string{
	"optimizer*", "scheduler*", "scaler*", "rng_state*", "trainer_state.json", "gotrainer_state.json", "MANIFEST.json",
	"_*", "checkpoint-*", ".*",
}

// Pusher uploads the checkpoints of a run to one repository: the trainer's Options.Pusher. What is
// uploaded when is the trainer's business (Options.PushStrategy), as is doing it in the background.
//
//	trainer.Options{Pusher: &hub.Pusher{Repo: "me/bert-mrpc", Card: &hub.ModelCard{ModelName: "bert-mrpc"}}}
type Pusher struct {
	Client *Client // nil means the environment's
	Repo   string

	// Card becomes README.md each time the model is pushed, with the results and the table of
	// evaluations that the checkpoint's trainer_state.json holds; nil means none.
	Card *ModelCard

	// Options apply to each push. Message, PathInRepo, Delete and Card are not looked at; Ignore
	// adds to what is left out of the model's files.
	Options PushOptions
}

// Push uploads a checkpoint as one commit and waits for it. Calling it again completes what was
// interrupted.
func (p *Pusher) Push(ctx context.Context, u checkpoint.Upload) error {
	o := p.Options
	o.Message, o.PathInRepo, o.Delete, o.Card = u.Message, u.Path, nil, nil
	if u.Path != "" {
		o.Delete = []string{"*"} // what an earlier checkpoint left there and this one has not
	}
	if u.ModelOnly {
		o.Ignore = slices.Concat(resumeFiles, o.Ignore)
		if p.Card != nil && u.Path == "" { // a card stands in the root
			card, err := p.card(u.Folder)
			if err != nil {
				return err
			}
			o.Card = card
		}
	}
	c := p.Client
	if c == nil {
		c = new(Client)
	}
	_, err := c.Push(ctx, p.Repo, u.Folder, o)
	return err
}

// card adds what the run has achieved so far.
func (p *Pusher) card(folder string) (*ModelCard, error) {
	card := *p.Card
	state, err := os.ReadFile(filepath.Join(folder, "trainer_state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &card, nil
	}
	if err == nil {
		err = card.AddTrainerState(state)
	}
	if err != nil {
		return nil, fmt.Errorf("hub: the model card: %w", err)
	}
	return &card, nil
}
