package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Background pushes while training goes on. Its Push never waits and never fails: what goes wrong is logged, and the next push makes up
// for it, since a push sends whatever the Hub has not got. While one is under way, only the newest of those that follow is kept.
type Background struct {
	ctx    context.Context
	cancel context.CancelFunc
	pusher *Pusher
	log    *slog.Logger

	mu      sync.Mutex
	busy    bool
	waiting *job
	idle    chan struct{} // closed when nothing is under way
	err     error         // of the last push; nil after one that succeeded
	held    int           // how many jobs there were
}

// job is a push that waits for its turn, with its own hold on the files.
type job struct {
	slot            string // the folder that is removed afterwards
	folder, message string
}

// files is where the job's files are. The folder keeps its name, which [AllCheckpoints] uses.
func (j *job) files() string { return filepath.Join(j.slot, filepath.Base(j.folder)) }

// NewBackground starts nothing yet. A nil logger means [slog.Default]. Close it, or cancel ctx, to give up what is under way.
func NewBackground(ctx context.Context, p *Pusher, log *slog.Logger) *Background {
	if log == nil {
		log = slog.Default()
	}
	ctx, cancel := context.WithCancel(ctx)
	idle := make(chan struct{})
	close(idle)
	return &Background{ctx: ctx, cancel: cancel, pusher: p, log: log, idle: idle}
}

// Push hands over a checkpoint and returns at once. The folder may be deleted afterwards: its files are held by hard links in the hidden folder
// .hub-push beside it, which is removed after the push. The error is always nil; the signature is that of [Pusher.Push].
func (b *Background) Push(ctx context.Context, folder, message string) error {
	if b.pusher.Strategy == End || ctx.Err() != nil || b.ctx.Err() != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	j, err := b.hold(filepath.Clean(folder), message)
	if err != nil {
		b.err = fmt.Errorf("hub: cannot hold the files of %s for the push: %w", folder, err)
		b.log.Warn("hub: not pushed; training goes on", "folder", folder, "error", b.err)
		return nil
	}
	if b.busy {
		if b.waiting != nil {
			b.drop(b.waiting) // it never began, and the newer one has all that it had
		}
		b.waiting = j
		return nil
	}
	b.busy, b.idle = true, make(chan struct{})
	go b.run(j)
	return nil
}

// hold links the files of a folder to where they stay until they are pushed. What a killed process left there is removed first.
func (b *Background) hold(folder, message string) (*job, error) {
	base := filepath.Join(filepath.Dir(folder), ".hub-push")
	if b.held == 0 {
		if err := os.RemoveAll(base); err != nil {
			return nil, err
		}
	}
	b.held++
	j := &job{slot: filepath.Join(base, strconv.Itoa(b.held)), folder: folder, message: message}
	if err := stage(folder, j.files()); err != nil {
		b.drop(j)
		return nil, err
	}
	return j, nil
}

// drop lets go of a job's files.
func (b *Background) drop(j *job) {
	if err := os.RemoveAll(j.slot); err != nil {
		b.log.Warn("hub: cannot remove the links to what was pushed", "error", err)
	}
	_ = os.Remove(filepath.Dir(j.slot)) // succeeds when no other job is there
}

// run pushes until nothing waits.
func (b *Background) run(j *job) {
	for j != nil {
		err := b.pusher.Push(b.ctx, j.files(), j.message)
		if err != nil {
			b.log.Warn("hub: not pushed; training goes on, and the next push makes up for it", "folder", j.folder, "error", err)
		} else {
			b.log.Info("hub: pushed", "repository", b.pusher.Repo, "folder", j.folder)
		}
		b.mu.Lock()
		b.drop(j)
		b.err = err
		j, b.waiting = b.waiting, nil
		if j == nil {
			b.busy = false
			close(b.idle)
		}
		b.mu.Unlock()
	}
}

// Wait waits until nothing is under way, and returns the error of the last push.
func (b *Background) Wait(ctx context.Context) error {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	select {
	case <-idle:
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.err
	case <-ctx.Done():
		return fmt.Errorf("hub: a push is still under way: %w", context.Cause(ctx))
	}
}

// Finish waits for what is under way and pushes the model in a folder, as the end of a run does. It waits for that push too.
func (b *Background) Finish(ctx context.Context, folder, message string) error {
	if err := b.Wait(ctx); err != nil && ctx.Err() != nil {
		return err
	}
	return b.pusher.Finish(ctx, folder, message)
}

// Close gives up what is under way and waits until it has stopped. The next push completes it.
func (b *Background) Close() error {
	b.cancel()
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	<-idle
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
