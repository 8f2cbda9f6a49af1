package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// resumeFiles matches the files of a checkpoint that only a resumed run needs.
var resumeFiles = []string{
	"optimizer*", "scheduler*", "scaler*", "rng_state*", "trainer_state.json", "gotrainer_state.json", "MANIFEST.json",
	"_*", "checkpoint-*", ".*",
}

// Pusher uploads the checkpoints of a run to a repository: the trainer's Options.Pusher. The
// trainer decides what is uploaded and when (Options.PushStrategy), and uploads in the background.
//
//	trainer.Options{Pusher: new(hub.Pusher)} // push_to_hub=True
//	trainer.Options{Pusher: &hub.Pusher{Repo: "me/bert-mrpc", Card: &hub.ModelCard{ModelName: "bert-mrpc"}}}
//
// Before the first update of a run, [Pusher.Start] checks the token and the name. One Pusher may
// serve several runs: without Repo, each run is uploaded to the repository named after its output
// folder.
type Pusher struct {
	Client *Client // nil means the environment's
	// Repo is the repository, "me/bert-mrpc"; a name without a namespace belongs to the token's
	// user. If empty, it is the name of the run's output folder.
	Repo string

	// Card becomes README.md each time the model is pushed, with the results and the table of
	// evaluations from the checkpoint's trainer_state.json. Nil means a card with the name of the
	// repository and the hyperparameters of the run, unless the folder has a README.md.
	Card   *ModelCard
	NoCard bool // push no card if Card is nil

	// Options apply to each push. Message, PathInRepo, Delete and Card are ignored; Ignore
	// excludes additional files of the model.
	Options PushOptions

	mu   sync.Mutex
	runs map[string]startedRun // started runs, by the absolute path of their output folder
}

// startedRun is a run that has started.
type startedRun struct {
	repo string
	card *ModelCard // nil if none was generated
}

// Start creates the repository of a run if it does not exist. A missing token, one without write
// access, or a name that the Hub does not accept thus shows before the first update. If the Hub
// cannot be reached, that is not an error: the uploads try again, and warn.
func (p *Pusher) Start(ctx context.Context, run checkpoint.UploadRun) error {
	dir, err := filepath.Abs(run.OutputDir)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	repo := cmp.Or(p.Repo, filepath.Base(dir))
	if _, err := parseRepo(p.Options.Type, repo); err != nil {
		return fmt.Errorf("%w; set Pusher.Repo", err)
	}
	p.mu.Lock()
	if p.runs == nil {
		p.runs = map[string]startedRun{}
	}
	p.runs[dir] = startedRun{repo, p.newCard(repo, run)}
	p.mu.Unlock()
	once := *p.client()
	once.Retries = -1
	err = once.CreateRepo(ctx, repo, &CreateOptions{Type: p.Options.Type, Private: p.Options.Private, ExistOK: true})
	for _, permanent := range []error{ErrUnauthorized, ErrForbidden, ErrName, ErrOffline} {
		if errors.Is(err, permanent) {
			return err
		}
	}
	return nil
}

// newCard returns a generated card for a run, or nil if the program has set Card or NoCard.
func (p *Pusher) newCard(repo string, run checkpoint.UploadRun) *ModelCard {
	if p.Card != nil || p.NoCard {
		return nil
	}
	card := &ModelCard{ModelName: path.Base(repo)}
	for _, h := range run.Hyperparameters {
		card.Hyperparameters = append(card.Hyperparameters, Value(h))
	}
	return card
}

// target returns the repository to which a folder is pushed, and its card.
func (p *Pusher) target(folder string) (repo string, card *ModelCard, err error) {
	run, runs := p.runOf(folder)
	repo, card = cmp.Or(p.Repo, run.repo), cmp.Or(p.Card, run.card)
	switch {
	case repo != "":
		return repo, card, nil
	case runs == 0:
		return "", nil, errors.New("hub: Pusher.Repo is empty; it is the name of the repository, or left to Start")
	}
	return "", nil, fmt.Errorf("hub: Pusher.Repo is empty, %d runs have started, and %s lies in the output folder of "+
		"none of them: give each run a Pusher of its own, with Repo", runs, folder)
}

// runOf returns the run whose output folder contains a folder, or the only run, and the number of
// runs.
func (p *Pusher) runOf(folder string) (run startedRun, runs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir, err := filepath.Abs(folder); err == nil {
		for {
			if run, ok := p.runs[dir]; ok {
				return run, len(p.runs)
			}
			above := filepath.Dir(dir)
			if above == dir {
				break
			}
			dir = above
		}
	}
	if len(p.runs) == 1 {
		for _, run = range p.runs {
		}
	}
	return run, len(p.runs)
}

func (p *Pusher) client() *Client {
	if p.Client == nil {
		return new(Client)
	}
	return p.Client
}

// Push uploads a checkpoint as a single commit and waits for it. Calling it again completes an
// interrupted upload.
func (p *Pusher) Push(ctx context.Context, u checkpoint.Upload) error {
	o := p.Options
	o.Message, o.PathInRepo, o.Delete, o.Card = u.Message, u.Path, nil, nil
	if u.Path != "" {
		o.Delete = []string{"*"} // files of an earlier checkpoint that this one lacks
	}
	repo, card, err := p.target(u.Folder)
	if err != nil {
		return err
	}
	if u.ModelOnly {
		o.Ignore = slices.Concat(resumeFiles, o.Ignore)
		if card != nil && u.Path == "" && !p.ownCard(u.Folder) { // a card belongs in the root
			done, err := finish(card, u.Folder)
			if err != nil {
				return err
			}
			o.Card = done
		}
	}
	_, err = p.client().Push(ctx, repo, u.Folder, o)
	return err
}

// ownCard reports whether the folder has a README.md, which takes precedence over a generated card.
func (p *Pusher) ownCard(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "README.md"))
	return p.Card == nil && err == nil
}

// finish returns a copy of the card with the results of the run so far.
func finish(begun *ModelCard, folder string) (*ModelCard, error) {
	card := *begun
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
