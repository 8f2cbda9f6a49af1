package trainer

import (
	"context"
	"errors"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// Sharded steps, of which each process has a part (About.Sharded). The main process creates the
// folder of a checkpoint and finally renames it; in between, all processes write to it.

func (s *session) sharded() bool { return s.step.About().Sharded }

// checkSharded refuses options that do not work if each process has only a part of the step.
func (o *Options) checkSharded() error {
	for _, c := range []struct {
		refused             bool
		option, value, want string
	}{
		{o.Group == nil, "Group", "nil", "what dist.Init returns, since the step shares its model out among processes"},
		{o.Saver != nil, "Saver", "set", "nil, since the step shares its model out: it writes whole states"},
		{o.Pusher != nil, "Pusher", "set", "nil, since the step shares its model out: a checkpoint has no " +
			"model.safetensors; upload what Trainer.SaveModel writes"},
		{o.Semantics.CarriesWindows() && o.Accumulate > 1 && o.Save.kind != never, "Semantics", o.Semantics.Name,
			"one whose windows end with the epoch, Accumulate 1, or Save Never, since the step shares its model out: its " +
				"checkpoints have no gradients of an open window"},
		{o.TransformersFiles, "TransformersFiles", "set", "false, since the step shares the state of its optimizer out"},
	} {
		if c.refused {
			return &OptionError{c.option, c.value, c.want}
		}
	}
	return nil
}

// shareFolder passes the folder that the main process has created to all processes; empty: it has
// failed.
func (s *session) shareFolder(dir string) (string, error) {
	all, err := s.o.Group.AllGather(context.WithoutCancel(s.ctx), []byte(dir))
	if err != nil {
		return "", s.stepError("save", err)
	}
	return string(all[0]), nil
}

// noFolder tells the other processes that the main one has failed before it created a folder. It
// returns the error.
func (s *session) noFolder(err error) error {
	if err == nil || !s.sharded() {
		return err
	}
	_, shareErr := s.shareFolder("")
	return errors.Join(err, shareErr)
}

// savePart writes the part of a process other than the main one.
func (s *saver) savePart(v *saving) error {
	dir, err := s.shareFolder("")
	if err != nil || dir == "" {
		return err
	}
	o := SaveOptions{WeightsOnly: s.o.SaveOnlyModel}
	var later writes
	if v.async {
		o.Later = later.add
		v.finish = func() error {
			_, err := later.run()
			return err
		}
	}
	return s.step.Save(dir, o)
}

// writes are the writes that a save leaves to another goroutine.
type writes []func() (nonFinite []string, err error)

func (w *writes) add(write func() ([]string, error)) { *w = append(*w, write) }

// run makes the writes, until one fails.
func (w *writes) run() (nonFinite []string, err error) {
	for _, write := range *w {
		names, err := write()
		nonFinite = append(nonFinite, names...)
		if err != nil {
			return nonFinite, err
		}
	}
	return nonFinite, nil
}

// givenUp returns the error of a save of the main process. In an asynchronous save of a sharded
// step, v.finish returns it instead: the other processes are writing on goroutines of their own by
// then, and wait for the main one there. It joins them, finds that the folder is gone, and then
// fails.
func (s *saver) givenUp(v *saving, later *writes, err error) error {
	if err == nil || !v.async || !s.sharded() {
		return err
	}
	v.finish = func() error {
		_, writeErr := later.run()
		return errors.Join(err, writeErr)
	}
	return nil
}

// saveStep writes the step's files into the folder of a checkpoint, on the main process.
func (s *saver) saveStep(dir string, o SaveOptions) error {
	if s.sharded() {
		if _, err := s.shareFolder(dir); err != nil {
			return err
		}
	}
	return s.step.Save(dir, o)
}

// retryWithRoom reports whether the save is tried again because the main process has made room.
func (s *saver) retryWithRoom(err error) bool {
	full, ok := errors.AsType[*checkpoint.SpaceError](err)
	made := ok && s.makeRoom(full)
	if !s.sharded() {
		return made
	}
	own := []byte{0}
	if made {
		own[0] = 1
	}
	all, groupErr := s.o.Group.AllGather(context.WithoutCancel(s.ctx), own)
	return groupErr == nil && all[0][0] == 1
}
