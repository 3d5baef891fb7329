package engine

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/open-nomad/open-nomad/internal/render"
)

// item is a template and its last evaluation.
type item struct {
	index    int
	spec     render.Template
	text     string
	due      time.Time // when to evaluate it; zero is not at all
	since    time.Time // of the first change that it waits for
	rendered bool
	sum      [sha256.Size]byte // of the last rendered text
	uses     []key             // data that it has asked for
	missing  []key             // the part of uses that does not exist
}

// live reports whether the template is rendered again when its data changes.
func (it *item) live() bool { return !it.spec.Once && len(it.uses) > 0 }

// needs reports whether a change of the data matters to the template.
func (it *item) needs(k key) bool {
	return !(it.spec.Once && it.rendered) && slices.Contains(it.uses, k)
}

// use records that the template has asked for data.
func (it *item) use(k key) {
	if !slices.Contains(it.uses, k) {
		it.uses = append(it.uses, k)
	}
}

// lacks records that the data does not exist.
func (it *item) lacks(k key) {
	if !slices.Contains(it.missing, k) {
		it.missing = append(it.missing, k)
	}
}

// changed sets when the template is due after a change of its data. Before the first complete pass, that is
// at once.
func (it *item) changed(now time.Time, settle bool) {
	wait := it.spec.Wait
	if !settle || wait.Min <= 0 {
		it.due = now
		return
	}
	if it.since.IsZero() {
		it.since = now
	}
	it.due = now.Add(wait.Min)
	if latest := it.since.Add(wait.Max); wait.Max > 0 && latest.Before(it.due) {
		it.due = latest
	}
}

func hash(text []byte) [sha256.Size]byte { return sha256.Sum256(text) }
