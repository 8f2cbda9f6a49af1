package lr

import "sync"

// PyTorch's schedulers are objects that take turns in changing one number, the "lr" of a parameter
// group, and many compute the next value from the previous one. Mathematically, each has a closed
// form, but in float64 its result differs from the step-by-step one in the last bits. Therefore the
// objects are reproduced here, hidden behind the function of the update number that [Schedule]
// requires: Plan runs them once, in order, and records their results.

// group holds what PyTorch's schedulers read and write in a parameter group of the optimizer.
type group struct {
	peak      float64 // peak rate of the run
	lr        float64
	initialLR *float64 // group["initial_lr"]: set by the first scheduler that is attached

	momentum float64 // for Adam: beta1
	corners  corners // written by OneCycleLR and CyclicLR, read by OneCycleLR
}

// stepper is a scheduler attached to a group: torch.optim.lr_scheduler.LRScheduler.
type stepper interface {
	step()        // LRScheduler.step
	initialStep() // LRScheduler._initial_step, which the constructor calls
	restart()     // LRScheduler._update_lr(0), which SequentialLR calls at a milestone
	undo()        // SequentialLR.recursive_undo
}

// attachable is a schedule whose rates depend on what other schedulers have written to the group.
type attachable interface {
	Schedule
	attach(g *group, updates int) stepper
}

// groupPlanner is a schedule of transformers whose lowest rate is given as a number. It divides
// that number by the rate with which the optimizer was made, optimizer.defaults["lr"], and
// multiplies the result by the group's base rate, which another scheduler may have changed.
type groupPlanner interface {
	planGroup(base, peak float64, updates int) Rate
}

// attach makes a stepper for any schedule. Like LambdaLR, a schedule that is not from PyTorch is a
// function of the step number.
func attach(s Schedule, g *group, updates int) stepper {
	if a, ok := s.(attachable); ok {
		return a.attach(g, updates)
	}
	var rate Rate
	return newScheduler(g, &scheduler{next: func(c *scheduler) float64 {
		if rate == nil {
			if p, ok := s.(groupPlanner); ok {
				rate = p.planGroup(c.base, g.peak, updates)
			} else {
				rate = s.Plan(c.base, updates)
			}
		}
		return rate(c.epoch)
	}})
}

// scheduler is a stepper defined by formulas.
type scheduler struct {
	g       *group
	base    float64 // base_lrs[0]
	epoch   int     // last_epoch: the number of the step whose rate the group has now
	steps   int     // _step_count: how often step has been called
	initial bool    // _is_initial: inside the constructor

	next   func(*scheduler) float64 // get_lr
	closed func(*scheduler) float64 // _get_closed_form_lr; nil if there is none
}

func newScheduler(g *group, s *scheduler) *scheduler {
	if g.initialLR == nil {
		g.initialLR = new(g.lr)
	}
	s.g, s.base, s.epoch = g, *g.initialLR, -1
	s.initialStep()
	return s
}

func (s *scheduler) initialStep() {
	s.initial = true
	s.step()
	s.initial = false
}

func (s *scheduler) step() {
	s.steps++
	s.epoch++
	s.g.lr = s.next(s)
}

func (s *scheduler) restart() {
	s.epoch = 0
	if s.closed != nil {
		s.g.lr = s.closed(s)
		return
	}
	s.g.lr = s.next(s)
}

func (s *scheduler) undo() { s.epoch-- }

// planStepper returns the rate and momentum functions of a schedule that must be stepped through.
// They keep 16 bytes for each update up to the latest one requested.
func planStepper(s attachable, peak float64, updates int) (rate, momentum Rate) {
	g := &group{peak: peak, lr: peak}
	t := &track{g: g, stepper: s.attach(g, updates)}
	t.record()
	return func(update int) float64 { return t.at(update).lr },
		func(update int) float64 { return t.at(update).momentum }
}

// PlanFrom returns the plan of a schedule for an optimizer that has already had another one. The
// rate is currently current, and peak is the value PyTorch keeps as initial_lr. PyTorch's
// schedulers that compute a rate from the previous one, such as StepLR, start at current; all
// others start at peak.
func PlanFrom(s Schedule, current, peak float64, updates int) Rate {
	a, ok := s.(attachable)
	if !ok || current == peak {
		return s.Plan(peak, updates)
	}
	g := &group{peak: peak, lr: current, initialLR: &peak}
	t := &track{g: g, stepper: a.attach(g, updates)}
	t.record()
	return func(update int) float64 { return t.at(update).lr }
}

// track records the past values of a stepper.
type track struct {
	mu      sync.Mutex
	g       *group
	stepper stepper
	past    []values
}

type values struct{ lr, momentum float64 }

func (t *track) record() { t.past = append(t.past, values{t.g.lr, t.g.momentum}) }

func (t *track) at(update int) values {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.past) <= update {
		t.stepper.step()
		t.record()
	}
	return t.past[max(0, update)]
}

// cycles reports whether a schedule changes the momentum.
func cycles(s Schedule) bool { return PlanMomentum(s, 1) != nil }
