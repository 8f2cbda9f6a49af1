package trainer

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// The texts of a run's progress, as pure functions.

type progressLine struct {
	step, total        int
	epoch              float64
	hasLoss            bool
	loss, learningRate float64
	perSecond          float64 // updates; 0: not known yet
	left               time.Duration
	eval               string // deciding metric of the last evaluation
	note               string // what is being done instead of training
}

// rate computes the speed and the time left from the updates of this session.
func (l *progressLine) rate(elapsed time.Duration, updates int) {
	if elapsed <= 0 || updates <= 0 {
		return
	}
	l.perSecond = float64(updates) / elapsed.Seconds()
	l.left = time.Duration(float64(l.total-l.step) / l.perSecond * float64(time.Second))
}

// text fits the line into the given number of columns: parts are dropped, least important first,
// and the bar takes the space that is left.
func (l *progressLine) text(columns int, unicode bool) string {
	type part struct {
		text       string
		importance int
	}
	parts := []part{{fmt.Sprintf("%d/%d", l.step, l.total), 9}}
	if l.note != "" {
		parts = append(parts, part{l.note, 8})
	}
	if l.hasLoss {
		parts = append(parts, part{"loss " + short(l.loss), 7}, part{"lr " + short(l.learningRate), 2})
	}
	if l.perSecond > 0 {
		parts = append(parts, part{speedText(l.perSecond), 3}, part{"ETA " + clock(l.left), 6})
	}
	if l.eval != "" {
		parts = append(parts, part{l.eval, 5})
	}
	share := 0.0
	if l.total > 0 {
		share = min(1, float64(l.step)/float64(l.total))
	}
	head := fmt.Sprintf("%3d%%", int(share*100))
	const shortest, longest = 6, 30
	for {
		length := utf8.RuneCountInString(head)
		for _, p := range parts {
			length += 1 + utf8.RuneCountInString(p.text)
		}
		room := columns - length - 1
		if room >= shortest || len(parts) == 1 {
			out := head
			if room >= shortest {
				out += " " + bar(share, min(room, longest), unicode)
			}
			for _, p := range parts {
				out += " " + p.text
			}
			return cut(out, columns)
		}
		least := 1
		for i := range parts {
			if parts[i].importance < parts[least].importance {
				least = i
			}
		}
		parts = append(parts[:least], parts[least+1:]...)
	}
}

func bar(share float64, width int, unicode bool) string {
	full, empty := "#", "-"
	if unicode {
		full, empty = "━", "─"
	}
	done := int(share * float64(width))
	return strings.Repeat(full, done) + strings.Repeat(empty, width-done)
}

func cut(s string, columns int) string {
	runes := []rune(s)
	return string(runes[:max(0, min(len(runes), columns))])
}

// wrap breaks long lines at two spaces if possible, otherwise at a single one, and indents the rest
// to the second column of the header. Table lines have no such place and stay as they are.
func wrap(text string, columns int) string {
	const indent = "           "
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for utf8.RuneCountInString(line) > columns && columns > 2*len(indent) {
			head := cut(line, columns+1)
			at := strings.LastIndex(head, "  ")
			if at <= len(indent) {
				at = strings.LastIndex(head, " ")
			}
			if at <= len(indent) {
				break
			}
			out.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = indent + strings.TrimLeft(line[at:], " ")
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

func short(v float64) string {
	if a := math.Abs(v); a != 0 && (a < 1e-3 || a >= 1e6) && !math.IsInf(v, 0) && !math.IsNaN(v) {
		return strconv.FormatFloat(v, 'e', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func speedText(perSecond float64) string {
	if perSecond < 1 {
		return fmt.Sprintf("%.3g s/it", 1/perSecond)
	}
	return fmt.Sprintf("%.3g it/s", perSecond)
}

// clock prints 0:48, 12:05, 3:12:05.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// rowText formats a row of the log as a plain line.
func rowText(row Logs, r *Run, l *progressLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d/%d  epoch %s", r.Info.unit(), int(row["step"]), r.MaxSteps, short(row["epoch"]))
	_, training := row["loss"]
	for _, k := range row.Keys() {
		switch {
		case k == "step" || k == "epoch" || k == "total_flos":
		case isTiming(k) && (k != "train_runtime" || training):
		default:
			fmt.Fprintf(&b, "  %s %s", k, short(row[k]))
		}
	}
	if training && l.perSecond > 0 {
		fmt.Fprintf(&b, "  %s  ETA %s", speedText(l.perSecond), clock(l.left))
	}
	return b.String() + "\n"
}

func epochs(n float64) string {
	if n == 1 {
		return "1 epoch"
	}
	return short(n) + " epochs"
}

// counted formats a count: "1 update", "2 micro-batches".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %s", n, plural(thing))
}

func plural(unit string) string {
	if strings.HasSuffix(unit, "batch") || strings.HasSuffix(unit, "process") {
		return unit + "es"
	}
	return unit + "s"
}

func headerText(r *Run) string {
	i := &r.Info
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("training", "%s", i.Step)
	samples, length := counted(i.TrainSamples, "sample"), fmt.Sprintf("%s of %d", epochs(i.Epochs), i.StepsPerEpoch)
	if i.TrainSamples == 0 {
		samples, length = "a stream", "in as many passes as it takes"
	}
	if i.EvalSamples > 0 {
		samples += fmt.Sprintf(", %d for validation", i.EvalSamples)
	}
	line("data", "%s", samples)
	batch := fmt.Sprintf("batches of %d", i.BatchSize)
	if i.Accumulate > 1 {
		batch = fmt.Sprintf("batches of %d x %d accumulated", i.BatchSize, i.Accumulate)
	}
	line("plan", "%s, %s, %s", counted(r.MaxSteps, i.unit()), length, batch)
	line("rate", "%s, %s", short(i.LearningRate), i.Schedule)
	line("when", "log %s, evaluate %s, save %s", i.Log.words(i.unit()), i.Eval.words(i.unit()), i.Save.words(i.unit()))
	seed := fmt.Sprintf("%d", i.Seed)
	if i.DataSeed != i.Seed {
		seed += fmt.Sprintf(", data %d", i.DataSeed)
	}
	line("seed", "%s; semantics %s", seed, i.Semantics.Name)
	if i.OutputDir != "" {
		line("output", "%s", i.OutputDir)
	}
	if i.ResumedFrom != "" {
		line("resumed", "%s, %s %d", filepath.Base(i.ResumedFrom), i.unit(), r.GlobalStep)
	}
	for _, w := range i.Warnings {
		b.WriteString(warningText(w))
	}
	return b.String()
}

func warningText(text string) string { return fmt.Sprintf("%-10s %s\n", "warning", text) }

// endText returns the report of a finished run: its evaluations, the best one and where that was
// saved.
func endText(r *Run, saved string, took time.Duration, columns int) (string, error) {
	var b strings.Builder
	best, hasBest := r.Best()
	if hasBest {
		table, omitted, err := evalTable(r.History(), best, columns)
		if err != nil {
			return "", err
		}
		b.WriteString(table)
		if len(omitted) > 0 {
			where := "Result.History"
			if r.Info.OutputDir != "" {
				where = metricsTable
			}
			fmt.Fprintf(&b, "besides    %s, in %s\n", strings.Join(omitted, "  "), where)
		}
		fmt.Fprintf(&b, "best       %s %s after %s %d", best.Metric, short(best.Value), r.Info.unit(), best.GlobalStep)
		if best.Checkpoint != "" {
			fmt.Fprintf(&b, ": %s", best.Checkpoint)
		}
		b.WriteByte('\n')
	}
	if saved != "" && saved != best.Checkpoint {
		fmt.Fprintf(&b, "last       %s\n", saved)
	}
	fmt.Fprintf(&b, "finished   %s, %s in %s", counted(r.GlobalStep, r.Info.unit()), epochs(r.Epoch), clock(took))
	if reason := r.StopReason(); reason != "" {
		fmt.Fprintf(&b, "; stopped: %s", reason)
	}
	b.WriteByte('\n')
	b.WriteString(lossHint(r))
	return b.String(), nil
}

// lossHint explains to a new user why no loss was shown: the run was over before the first log was
// due. Users who chose the semantics of another trainer know its interval.
func lossHint(r *Run) string {
	i := &r.Info
	if i.Semantics.Name != semantics.Default.Name || r.GlobalStep == 0 || i.Log.kind != every || i.Log.unit != Update ||
		i.Log.n <= r.GlobalStep {
		return ""
	}
	for _, row := range r.History() {
		if _, training := row["loss"]; training {
			return ""
		}
	}
	return fmt.Sprintf("%-10s the loss is logged %s; to see it during the run, set Options.Log: trainer.Every(%d, "+
		"trainer.Update)\n", "hint", i.Log.words(i.unit()), max(1, r.GlobalStep/10))
}

// evalTable formats the evaluations of a run, with the best one marked: the newest ten, and the
// best. The deciding metric comes first. The names of columns that do not fit are returned.
func evalTable(history []Logs, best Best, columns int) (table string, omitted []string, err error) {
	rows := evaluations(history)
	const most = 10
	if skip := len(rows) - most; skip > 0 {
		kept := rows[skip:]
		for _, row := range rows[:skip] {
			if int(row["step"]) == best.GlobalStep {
				kept = append([]Logs{row}, kept...)
			}
		}
		rows = kept
	}
	if len(rows) == 0 {
		return "", nil, nil
	}
	names := []string{"step", "epoch"}
	step, epoch := len(names[0]), len(names[1])
	for _, row := range rows {
		step, epoch = max(step, len(strconv.Itoa(int(row["step"])))), max(epoch, len(short(row["epoch"])))
	}
	width := 1 + len("best") + step + epoch + 9 // each column has two spaces and a border
	all := Logs{}
	for _, row := range rows {
		maps.Copy(all, row)
	}
	for _, k := range tableNames(all, best.Metric) {
		if w := max(len(k), 8) + 3; width+w <= columns {
			width += w
			names = append(names, k)
		} else {
			omitted = append(omitted, k)
		}
	}
	var b strings.Builder
	// Header formatting would turn eval_loss into EVAL LOSS; the option must come last.
	t := tablewriter.NewTable(&b, tablewriter.WithRowAlignment(tw.AlignRight), tablewriter.WithHeaderAutoFormat(tw.Off))
	t.Header(append([]string{""}, names...))
	for _, row := range rows {
		cells := []string{""}
		if int(row["step"]) == best.GlobalStep {
			cells[0] = "best"
		}
		for _, k := range names {
			cell := ""
			if v, ok := row[k]; ok {
				cell = short(v)
			}
			if k == "step" {
				cell = strconv.Itoa(int(row[k]))
			}
			cells = append(cells, cell)
		}
		if err := t.Append(cells); err != nil {
			return "", nil, fmt.Errorf("table of evaluations: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return "", nil, fmt.Errorf("table of evaluations: %w", err)
	}
	return b.String(), omitted, nil
}

// evaluations returns the rows of evaluations in a log, merging the sets of one evaluation into one
// row.
func evaluations(history []Logs) (rows []Logs) {
	for _, row := range history {
		names := tableNames(row, "")
		if _, training := row["loss"]; training || len(names) == 0 {
			continue
		}
		last := len(rows) - 1
		known := func(name string) bool { _, ok := rows[last][name]; return ok }
		if last < 0 || rows[last]["step"] != row["step"] || slices.ContainsFunc(names, known) {
			rows = append(rows, maps.Clone(row))
			continue
		}
		maps.Copy(rows[last], row)
	}
	return rows
}

// tableNames returns the metrics of an evaluation, with first, the deciding one, before the others.
func tableNames(row Logs, first string) []string {
	names := slices.DeleteFunc(row.Keys(), func(k string) bool {
		return !strings.HasPrefix(k, evalPrefix) || isTiming(k)
	})
	if i := slices.Index(names, first); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, first)
	}
	return names
}
