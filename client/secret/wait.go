package secret

import (
	"sync"
	"time"
)

// waiting reports why a fetch waits, once it has waited for a while, and again when the reason changes.
type waiting struct {
	report func(string)

	mu       sync.Mutex
	timer    *time.Timer
	due      bool
	text     string // the newest reason
	reported string
}

// reason sets the reason, which begins in lower case as the text of an error.
func (w *waiting) reason(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = text
	if w.timer == nil {
		w.timer = time.AfterFunc(quiet, w.late)
	}
	w.flush()
}

func (w *waiting) late() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = true
	w.flush()
}

// flush reports the reason unless it was reported. The caller holds mu, so that nothing is reported after end.
func (w *waiting) flush() {
	if w.due && w.report != nil && w.text != w.reported {
		w.reported = w.text
		w.report(w.text)
	}
}

func (w *waiting) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report = nil
	if w.timer != nil {
		w.timer.Stop()
	}
}
