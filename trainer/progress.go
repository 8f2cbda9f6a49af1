package trainer

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gotrainer/gotrainer/internal/terminal"
)

// progress shows a run to people: a header at the start, then a single redrawn line (on a terminal)
// or a line for each row of the log (in a file or pipe, where redrawing would fill it), and at the
// end a table of the evaluations with the best one and its checkpoint.
//
// The line is drawn here and not by a progress-bar library: it is a single line, drawn from the
// training goroutine between two updates, and its parts are dropped in order of importance until it
// fits the width of the terminal.
type progress struct {
	out      io.Writer
	terminal bool
	utf8     bool
	width    func() int
	now      func() time.Time

	line   progressLine
	start  time.Time
	drawn  time.Time // when the line was last drawn
	open   bool      // the line is on the screen
	evaled int       // batches evaluated so far in the current evaluation
	saved  string
}

// redrawEvery keeps a fast run from spending its time on the terminal.
const redrawEvery = 100 * time.Millisecond

func newProgress(out io.Writer) *progress {
	return &progress{out: out, now: time.Now, terminal: terminal.Is(out),
		width: func() int { return terminal.Width(out) }, utf8: terminal.IsUTF8(os.Getenv)}
}

// TrainBegin prints the header.
func (p *progress) TrainBegin(r *Run) error {
	p.start = p.now()
	p.line = progressLine{step: r.GlobalStep, total: r.MaxSteps}
	p.print(headerText(r))
	return nil
}

// StepEnd updates the line.
func (p *progress) StepEnd(r *Run) error {
	p.line.step = r.GlobalStep
	p.line.epoch = r.Epoch
	p.line.rate(p.now().Sub(p.start), r.GlobalStep-r.StartStep)
	p.draw(false)
	return nil
}

// EvalBegin resets the count, which a failed evaluation may have left.
func (p *progress) EvalBegin(*Run) error {
	p.evaled = 0
	return nil
}

// EvalStep shows the progress of an evaluation.
func (p *progress) EvalStep(r *Run) error {
	p.evaled++
	p.line.note = fmt.Sprintf("evaluating %d", p.evaled)
	if r.evalBatches > 0 {
		p.line.note += fmt.Sprintf("/%d", r.evalBatches)
	}
	p.draw(false)
	return nil
}

// EvalEnd removes the evaluation from the line, since an evaluation requested by a hook is not
// logged.
func (p *progress) EvalEnd(*Run, Metrics) error {
	p.line.note = ""
	if p.open {
		p.draw(true)
	}
	return nil
}

// AfterLog shows the row. On a terminal, the loss appears only in the progress line, and
// evaluations stay on the screen.
func (p *progress) AfterLog(r *Run, row Logs) error {
	_, training := row["loss"]
	_, ended := row["train_loss"]
	switch {
	case training:
		p.line.loss, p.line.learningRate, p.line.hasLoss = row["loss"], row["learning_rate"], true
		if p.terminal {
			p.draw(true)
			return nil
		}
	case !ended:
		name := evalPrefix + r.BestMetric()
		if v, ok := row[name]; ok {
			p.line.eval = fmt.Sprintf("%s %s", name, short(v))
		}
	}
	p.print(rowText(row, r, &p.line))
	return nil
}

// AfterSave reports where the checkpoint is.
func (p *progress) AfterSave(r *Run, checkpoint string) error {
	p.saved = checkpoint
	p.print("saved " + filepath.Base(checkpoint) + "\n")
	return nil
}

// warn shows a warning that comes up during the run. The header shows those from before its start.
func (p *progress) warn(text string) {
	if !p.start.IsZero() {
		p.print(warningText(text))
	}
}

// TrainEnd prints the table.
func (p *progress) TrainEnd(r *Run) error {
	p.erase()
	text, err := endText(r, p.saved, p.now().Sub(p.start), p.width())
	p.print(text)
	return err
}

// TrainFailed leaves the last state of the line on the screen and the cursor below it.
func (p *progress) TrainFailed(*Run, error) {
	if p.open {
		p.open = false
		p.write("\n")
	}
}

// draw redraws the line, at most once every redrawEvery unless now is set.
func (p *progress) draw(now bool) {
	t := p.now()
	if !p.terminal || !now && p.open && t.Sub(p.drawn) < redrawEvery {
		return
	}
	p.drawn, p.open = t, true
	// One column stays free: a full last column makes some terminals wrap.
	p.write("\r" + p.line.text(p.width()-1, p.utf8) + "\x1b[K")
}

// print puts text above the line, wrapped to the width of the terminal if there is one.
func (p *progress) print(text string) {
	if p.terminal {
		text = wrap(text, p.width())
	}
	wasOpen := p.open
	p.erase()
	p.write(text)
	if wasOpen {
		p.draw(true)
	}
}

func (p *progress) erase() {
	if p.open {
		p.open = false
		p.write("\r\x1b[K")
	}
}

// write ignores errors: a closed pipe or a full log disk must not end a run of days.
func (p *progress) write(text string) { _, _ = io.WriteString(p.out, text) }
