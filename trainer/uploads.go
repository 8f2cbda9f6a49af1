package trainer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// Pusher uploads to a place where models are kept, such as the Hugging Face Hub. Push is called
// from one goroutine at a time, other than that of the training loop, and returns when the upload
// is done. [github.com/gotrainer/gotrainer/hub.Pusher] is one.
type Pusher interface {
	Push(ctx context.Context, u checkpoint.Upload) error
}

// PushStrategy says what is uploaded and when: Hugging Face's hub_strategy.
type PushStrategy int

const (
	PushEverySave PushStrategy = iota // the model of every checkpoint
	PushAtEnd                         // the model at the end of the run
	// PushLastCheckpoint uploads the model, and the whole checkpoint as last-checkpoint, from which
	// a run can be resumed elsewhere.
	PushLastCheckpoint
	PushAllCheckpoints // the model, and every whole checkpoint under its own name
)

// resolvePush refuses options with which nothing would ever be uploaded.
func (o *Options) resolvePush() error {
	switch {
	case o.PushStrategy < PushEverySave || o.PushStrategy > PushAllCheckpoints:
		return wrong("PushStrategy", int(o.PushStrategy), "PushEverySave, PushAtEnd, PushLastCheckpoint or "+
			"PushAllCheckpoints")
	case o.Pusher == nil && (o.PushStrategy != PushEverySave || o.PushAlways):
		return wrong("Pusher", "nil", "what uploads, since PushStrategy or PushAlways is set")
	case o.Pusher != nil && o.Save.kind == never:
		return wrong("Pusher", fmt.Sprintf("%T", o.Pusher), "nil, since no checkpoint is saved that it could upload")
	}
	return nil
}

const endOfTraining = "End of training"

// uploads are the uploads of a run, as Options.PushStrategy wants them.
type uploads struct {
	*session
	queue *uploadQueue        // nil without a Pusher
	left  []checkpoint.Upload // uploads of the newest checkpoint, postponed because another was running
}

// uploadQueue is processed by one goroutine while the run continues.
type uploadQueue struct {
	pusher Pusher
	ctx    context.Context // ends with the run, or when the caller of this process cancels: session.either
	stop   func()          // releases ctx
	work   sync.WaitGroup

	mu     sync.Mutex
	queue  []checkpoint.Upload // the first is being uploaded
	failed []error
	last   string // the folder whose model was uploaded last
}

// folders returns the folders that are queued or being uploaded, which must not be deleted.
func (p *uploadQueue) folders() (list []string) {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.queue {
		list = append(list, u.Folder)
	}
	return list
}

func (p *uploadQueue) add(uploads ...checkpoint.Upload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.work.Go(p.run)
	}
	p.queue = append(p.queue, uploads...)
}

func (p *uploadQueue) run() {
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
}

// push calls the user's code, whose panic must not end a run of days.
func (p *uploadQueue) push(u checkpoint.Upload) (err error) {
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

func (u *uploads) wait() {
	if u.queue != nil {
		u.queue.work.Wait()
	}
}

// close waits for the uploads and releases the context.
func (u *uploads) close() {
	if u.queue != nil {
		u.wait()
		u.queue.stop()
	}
}

// saved uploads a checkpoint that was just written, as the strategy wants it; message is that of
// its update. If another upload is running, this one is postponed to the end of the run, unless a
// newer one replaces it.
func (u *uploads) saved(path, message string) error {
	if u.queue == nil || u.o.PushStrategy == PushAtEnd || u.queue.ctx.Err() != nil {
		return nil
	}
	u.left = nil
	if len(u.queue.folders()) > 0 && !u.o.PushAlways {
		u.left = u.uploadsOf(path, message)
		return nil
	}
	return u.upload(u.uploadsOf(path, message)...)
}

// upload calls the PushBegin hooks and queues uploads.
func (u *uploads) upload(list ...checkpoint.Upload) error {
	err := fire(u.session, "PushBegin", pushBeginHook.PushBegin)
	if err == nil {
		u.queue.add(list...)
	}
	return err
}

// message returns the message for an upload of the current update.
func (u *uploads) message() string {
	if u.loop.flow.save.byUpdates() {
		return fmt.Sprintf("Training in progress, step %d", u.loop.GlobalStep)
	}
	return fmt.Sprintf("Training in progress, epoch %d", int(u.loop.Progress))
}

// uploadsOf returns what the strategy uploads of a checkpoint.
func (u *uploads) uploadsOf(path, message string) []checkpoint.Upload {
	list := []checkpoint.Upload{{Folder: path, ModelOnly: true, Message: message}}
	whole := checkpoint.Upload{Folder: path, Message: message + ", checkpoint"}
	switch u.o.PushStrategy {
	case PushLastCheckpoint:
		whole.Path = "last-checkpoint"
		list = append(list, whole)
	case PushAllCheckpoints:
		whole.Path = filepath.Base(path)
		list = append(list, whole)
	}
	return list
}

// makeUp waits for the running uploads, and then makes the one that was postponed.
func (u *uploads) makeUp() error {
	u.wait()
	if len(u.left) == 0 || u.queue.ctx.Err() != nil {
		return nil
	}
	left := u.left
	u.left = nil
	if err := u.upload(left...); err != nil {
		return err
	}
	u.wait()
	return nil
}

// end makes the postponed upload. It then uploads the model that the run ends with, if that is not
// the last one uploaded.
func (u *uploads) end(path string) error {
	if u.queue == nil {
		return nil
	}
	if err := u.makeUp(); err != nil {
		return err
	}
	wanted := u.o.PushStrategy == PushAtEnd || u.o.LoadBestAtEnd
	if wanted && u.queue.ctx.Err() == nil && path != "" && path != u.queue.last {
		err := u.upload(checkpoint.Upload{Folder: path, ModelOnly: true, Message: endOfTraining})
		if err != nil {
			return err
		}
		u.wait()
	}
	for _, err := range u.queue.failed {
		u.warn("%v; the run is not affected, and the checkpoint is still on this machine", err)
	}
	return nil
}

// Push uploads the model of the last Fit and waits for the upload: Hugging Face's push_to_hub. An
// empty message means "End of training".
func (t *core) Push(ctx context.Context, message string) error {
	unlock, err := t.lock()
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case t.options.Pusher == nil:
		return wrong("Pusher", "nil", "what uploads")
	case t.last == nil || t.last.saver.final() == "":
		return errors.New("trainer: there is no checkpoint to upload; call Fit first, with Options.Save set")
	case !t.options.Process.Main():
		return nil
	}
	r := t.newRunner(ctx, t.options)
	r.continueFrom(t.last)
	if err := fire(r.session, "PushBegin", pushBeginHook.PushBegin); err != nil {
		return err
	}
	u := checkpoint.Upload{Folder: t.last.saver.final(), ModelOnly: true, Message: cmp.Or(message, endOfTraining)}
	if err := (&uploadQueue{ctx: ctx, pusher: t.options.Pusher}).push(u); err != nil {
		return fmt.Errorf("trainer: %s could not be uploaded: %w", u.Folder, err)
	}
	return nil
}
