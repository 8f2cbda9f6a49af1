package hub

import "sync"

// Progress is the progress of a fetch or a push. Calls are made one at a time, after each piece of
// up to a few MiB.
type Progress struct {
	File        string // the file being transferred
	Done, Total int64  // its bytes; Total is -1 if the size is unknown

	AllDone, AllTotal int64 // bytes of all files to transfer, as far as they are known
	Files, AllFiles   int   // number of files that are finished, and of all files
}

// meter sums up the progress of several goroutines. Its methods may be called on a nil meter.
type meter struct {
	mu     sync.Mutex
	report func(Progress)
	now    Progress
	done   map[string]int64
	totals map[string]int64
}

func newMeter(report func(Progress), files int) *meter {
	if report == nil {
		return nil
	}
	return &meter{report: report, now: Progress{AllFiles: files}, done: map[string]int64{}, totals: map[string]int64{}}
}

// expect adds a file to be transferred.
func (m *meter) expect(file string, size int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.totals[file]; !known {
		m.totals[file] = size
		m.now.AllTotal += max(0, size)
	}
}

// set records how many bytes of a file are done. The number may be less than before if a part is
// sent again.
func (m *meter) set(file string, done int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(file, done-m.done[file])
}

// add records n more bytes of a file.
func (m *meter) add(file string, n int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(file, n)
}

func (m *meter) move(file string, n int64) {
	m.done[file] += n
	m.now.AllDone += n
	m.now.File, m.now.Done, m.now.Total = file, m.done[file], -1
	if total, ok := m.totals[file]; ok {
		m.now.Total = total
	}
	m.report(m.now)
}

// finish records that a file is done, or that nothing had to be done for it.
func (m *meter) finish(file string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Files++
	m.move(file, 0)
}
