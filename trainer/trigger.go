package trainer

import (
	"fmt"
	"math"
)

// Unit is what a [Trigger] counts.
type Unit int

const (
	Update Unit = iota + 1 // optimizer updates, or what semantics.Rules.Steps counts instead
	Epoch                  // passes over the training set
)

// Trigger says when something is done. The zero value means the default given for the option.
type Trigger struct {
	kind  triggerKind
	unit  Unit
	n     int
	share float64
	also  int // for intervals in updates: also at the end of every also-th epoch; 0: no
}

type triggerKind int

const (
	unset triggerKind = iota
	never
	every
	everyShare
	atBest
)

// Never disables something.
var Never = Trigger{kind: never}

// AtBest, for Save only, saves whenever an evaluation is the best so far: Hugging Face's
// save_strategy "best".
var AtBest = Trigger{kind: atBest}

// Every triggers after every n updates, or at the end of every n-th epoch.
func Every(n int, unit Unit) Trigger { return Trigger{kind: every, unit: unit, n: n} }

// EveryShare triggers after every given share of the run's updates, rounded up: with
// EveryShare(0.1) about ten times per run, with EveryShare(1) after the last update. It is what a
// number below 1 means in Hugging Face's logging_steps, eval_steps and save_steps.
func EveryShare(share float64) Trigger { return Trigger{kind: everyShare, share: share} }

// AndEpochs returns a trigger that counts updates and also fires at the end of every n-th epoch:
// Every(100, Update).AndEpochs(1). If the last update of an epoch has already saved, the end of the
// epoch does not save again.
func (t Trigger) AndEpochs(n int) Trigger {
	t.also = n
	return t
}

// String returns the Go expression for the trigger.
func (t Trigger) String() string {
	if t.also != 0 {
		updates := t
		updates.also = 0
		return fmt.Sprintf("%s.AndEpochs(%d)", updates.String(), t.also)
	}
	switch t.kind {
	case never:
		return "Never"
	case atBest:
		return "AtBest"
	case every:
		unit := "Update"
		if t.unit == Epoch {
			unit = "Epoch"
		}
		return fmt.Sprintf("Every(%d, %s)", t.n, unit)
	case everyShare:
		return fmt.Sprintf("EveryShare(%v)", t.share)
	default:
		return "default"
	}
}

// words describes the trigger for people; step is the word for an update.
func (t Trigger) words(step string) string {
	each := func(n int, unit string) string {
		if n == 1 {
			return "every " + unit
		}
		return fmt.Sprintf("every %d %s", n, plural(unit))
	}
	switch {
	case t.kind == atBest:
		return "at each new best"
	case t.kind != every:
		return "never"
	case t.unit == Epoch:
		return each(t.n, "epoch")
	case t.also > 0:
		return each(t.n, step) + " and " + each(t.also, "epoch")
	default:
		return each(t.n, step)
	}
}

func (t Trigger) validate(field string) error {
	switch {
	case t.kind == every && t.n < 1:
		return wrong(field, t.String(), "a number of at least 1, or Never")
	case t.kind == every && t.unit != Update && t.unit != Epoch:
		return wrong(field, fmt.Sprintf("Every(%d, %d)", t.n, t.unit), "the unit Update or Epoch")
	case t.kind == everyShare && !(t.share > 0 && t.share <= 1):
		return wrong(field, t.String(), "a share above 0 and at most 1")
	case t.also != 0 && (t.also < 0 || !t.byUpdates()):
		return wrong(field, t.String(), "a positive number of epochs, and a trigger that counts updates before AndEpochs")
	case t.kind == atBest && field != "Save":
		return wrong(field, t.String(), "Every, EveryShare or Never; only Save can be AtBest")
	}
	return nil
}

// orElse returns the trigger, or the default if it is unset.
func (t Trigger) orElse(d Trigger) Trigger {
	if t.kind == unset {
		return d
	}
	return t
}

// resolve turns a share of the run into a number of updates.
func (t Trigger) resolve(maxSteps int) Trigger {
	if t.kind == everyShare {
		return Trigger{kind: every, unit: Update, n: int(math.Ceil(float64(maxSteps) * t.share)), also: t.also}
	}
	return t
}

func (t Trigger) byUpdates() bool { return t.kind == everyShare || t.kind == every && t.unit == Update }

func (t Trigger) due(n int, unit Unit) bool {
	if t.also > 0 && unit == Epoch {
		return n%t.also == 0
	}
	return t.kind == every && t.unit == unit && n%t.n == 0
}
