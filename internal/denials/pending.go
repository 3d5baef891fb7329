package denials

import (
	"bytes"

	"golang.org/x/sys/unix"
)

const (
	// maxWaiting bounds refusals whose process is not known yet.
	maxWaiting = 128
	// maxSeen bounds the texts by which repetitions are told.
	maxSeen = 512
)

// tally counts the refusals of a task that are equal; nil for those of no task.
type tally struct {
	task   *watched
	denial int // index in task.denials, -1 when the list is full
}

// waiting is a refusal whose process is told by a later record.
type waiting struct {
	serial, domain string
	denial         Denial
}

// pending are refusals on their way to a task, oldest first, and the texts of those
// that need not be looked at again.
type pending struct {
	list []waiting
	past map[string]*tally
}

func (p *pending) push(w waiting) {
	if len(p.list) == maxWaiting {
		p.list = append(p.list[:0], p.list[1:]...)
	}
	p.list = append(p.list, w)
}

// pop takes those that match.
func (p *pending) pop(match func(waiting) bool) []waiting {
	var out []waiting
	rest := p.list[:0]
	for _, w := range p.list {
		if match(w) {
			out = append(out, w)
		} else {
			rest = append(rest, w)
		}
	}
	p.list = rest
	return out
}

// body is a record's text without its time and serial.
func body(text []byte) []byte {
	_, b, _ := bytes.Cut(text, []byte("): "))
	return b
}

// seen notes the text of a refusal that is attributed. It names the Landlock domain or the
// process, so it is one task's for as long as the tasks are the same.
func (p *pending) seen(text []byte, t *tally) {
	if len(p.past) >= maxSeen || p.past == nil {
		p.past = map[string]*tally{}
	}
	p.past[string(body(text))] = t
}

// forget is called when a task comes or goes: another one may have its process numbers.
func (p *pending) forget() { p.past = nil }

// repeated returns the tally of a refusal that was attributed before, and whether there is one.
func (p *pending) repeated(kind uint16, text []byte) (*tally, bool) {
	if kind != unix.AUDIT_LANDLOCK_ACCESS && kind != unix.AUDIT_SECCOMP {
		return nil, false
	}
	t, ok := p.past[string(body(text))]
	return t, ok
}

// domainOf is the Landlock domain of a refusal, read without the rest of the record.
func domainOf(text []byte) []byte {
	rest, ok := bytes.CutPrefix(body(text), []byte("domain="))
	domain, _, found := bytes.Cut(rest, []byte(" "))
	if !ok || !found {
		return nil
	}
	return domain
}
