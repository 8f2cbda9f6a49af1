package trainer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// Pusher uploads to where models are kept, such as the Hugging Face Hub. Push is called by one
// goroutine at a time, which is not that of the training loop; it returns when the upload is done.
// [github.com/gotrainer/gotrainer/hub.Pusher] is one.
type Pusher interface {
	Push(ctx context.Context, u Upload) error
}

// Upload is one folder to be uploaded.
type Upload = checkpoint.Upload

// PushStrategy says what is uploaded when: hub_strategy of Hugging Face.
type PushStrategy int

const (
	PushEverySave PushStrategy = iota // the model of every checkpoint
	PushAtEnd                         // the model at the end of the run
	// the model, and the whole checkpoint as last-checkpoint, from which a run can be resumed
	// elsewhere
	PushLastCheckpoint
	PushAllCheckpoints // the model, and every whole checkpoint under its own name
)

// resolvePush refuses what would never upload anything.
func (o *Options) resolvePush() error {
	switch {
	case o.PushStrategy < PushEverySave || o.PushStrategy > PushAllCheckpoints:
		return &OptionError{"PushStrategy", fmt.Sprint(int(o.PushStrategy)),
			"PushEverySave, PushAtEnd, PushLastCheckpoint or PushAllCheckpoints"}
	case o.Pusher == nil && (o.PushStrategy != PushEverySave || o.PushAlways):
		return &OptionError{"Pusher", "nil", "what uploads, since PushStrategy or PushAlways is set"}
	case o.Pusher != nil && o.Save.kind == never:
		return &OptionError{"Pusher", fmt.Sprintf("%T", o.Pusher), "nil, since no checkpoint is saved that it could " +
			"upload"}
	}
	return nil
}

// pushes are the uploads of a run: a queue that one goroutine works off while the run goes on.
type pushes struct {
	pusher Pusher
	ctx    context.Context

	mu     sync.Mutex
	idle   *sync.Cond // nothing is queued or under way any more
	queue  []Upload   // the first is under way
	failed []error
	last   string // the folder whose model was uploaded last
}

func newPushes(ctx context.Context, pusher Pusher) *pushes {
	p := &pushes{pusher: pusher, ctx: ctx}
	p.idle = sync.NewCond(&p.mu)
	return p
}

// busy reports whether an upload is queued or under way.
func (p *pushes) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue) > 0
}

// folders are those that are queued or under way, which must not be deleted.
func (p *pushes) folders() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.queue {
		list = append(list, u.Folder)
	}
	return list
}

func (p *pushes) add(uploads ...Upload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	starts := len(p.queue) == 0
	p.queue = append(p.queue, uploads...)
	if starts && len(p.queue) > 0 {
		go p.work()
	}
}

func (p *pushes) work() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 {
		u := p.queue[0]
		p.mu.Unlock()
		err := p.push(u)
		p.mu.Lock()
		switch {
		case err != nil:
			p.failed = append(p.failed, fmt.Errorf("%s could not be uploaded: %w", filepath.Base(u.Folder), err))
		case u.Path == "":
			p.last = u.Folder
		}
		p.queue = p.queue[1:]
	}
	p.idle.Broadcast()
}

// push calls the user's code, whose panic must not end a run of days.
func (p *pushes) push(u Upload) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	return p.pusher.Push(p.ctx, u)
}

// failures returns what has failed since the last call.
func (p *pushes) failures() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := p.failed
	p.failed = nil
	return failed
}

// wait returns when nothing is queued or under way any more, with the folder whose model was
// uploaded last.
func (p *pushes) wait() (last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 {
		p.idle.Wait()
	}
	return p.last
}

// pushCheckpoint uploads the checkpoint that was just written, as the strategy says.
func (f *fit[S, B]) pushCheckpoint() error {
	if f.pushes == nil || f.o.PushStrategy == PushAtEnd || f.ctx.Err() != nil || f.pushes.busy() && !f.o.PushAlways {
		return nil
	}
	if err := f.pushBegin(); err != nil {
		return err
	}
	message := fmt.Sprintf("Training in progress, epoch %d", int(f.loop.Progress))
	if f.loop.flow.save.byUpdates() {
		message = fmt.Sprintf("Training in progress, step %d", f.loop.GlobalStep)
	}
	uploads := []Upload{{Folder: f.checkpoint, ModelOnly: true, Message: message}}
	whole := Upload{Folder: f.checkpoint, Message: message + ", checkpoint"}
	switch f.o.PushStrategy {
	case PushLastCheckpoint:
		whole.Path = "last-checkpoint"
		uploads = append(uploads, whole)
	case PushAllCheckpoints:
		whole.Path = filepath.Base(f.checkpoint)
		uploads = append(uploads, whole)
	}
	f.pushes.add(uploads...)
	return nil
}

func (f *fit[S, B]) pushBegin() error {
	return fire(f, f.hooks.pushBegin, "PushBegin", PushBeginHook.PushBegin)
}

// pushEnd waits for the uploads and uploads the model that the run ends with, if it is not the one
// that was uploaded last.
func (f *fit[S, B]) pushEnd() error {
	if f.pushes == nil {
		return nil
	}
	last := f.pushes.wait()
	end := f.endCheckpoint()
	if f.ctx.Err() == nil && end != "" && end != last && (f.o.PushStrategy == PushAtEnd || f.o.LoadBestAtEnd) {
		if err := f.pushBegin(); err != nil {
			return err
		}
		f.pushes.add(Upload{Folder: end, ModelOnly: true, Message: "End of training"})
		f.pushes.wait()
	}
	f.warnOfPushes()
	return nil
}

// endCheckpoint has the model that the run ends with.
func (f *fit[S, B]) endCheckpoint() string {
	if f.o.LoadBestAtEnd && f.best.Checkpoint != "" {
		return f.best.Checkpoint
	}
	return f.checkpoint
}

func (f *fit[S, B]) warnOfPushes() {
	if f.pushes == nil {
		return
	}
	for _, err := range f.pushes.failures() {
		f.warn("%v; the run is not affected, and the checkpoint is here", err)
	}
}

// Push uploads the model that the last Fit ended with and waits for it: push_to_hub of Hugging
// Face. An empty message is "End of training".
func (t *Trainer[S, B]) Push(ctx context.Context, message string) error {
	unlock, err := t.begin()
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case t.options.Pusher == nil:
		return &OptionError{"Pusher", "nil", "what uploads"}
	case t.last == nil || t.last.endCheckpoint() == "":
		return errors.New("trainer: there is no checkpoint to upload; Fit has to come first, with Options.Save")
	case !t.options.Process.Main():
		return nil
	}
	if message == "" {
		message = "End of training"
	}
	f := &fit[S, B]{t: t, o: t.options, ctx: ctx, hooks: t.hooks}
	f.newRun()
	f.goOn(t.last)
	if err := f.pushBegin(); err != nil {
		return err
	}
	u := Upload{Folder: t.last.endCheckpoint(), ModelOnly: true, Message: message}
	if err := newPushes(ctx, t.options.Pusher).push(u); err != nil {
		return fmt.Errorf("trainer: %s could not be uploaded: %w", u.Folder, err)
	}
	return nil
}
