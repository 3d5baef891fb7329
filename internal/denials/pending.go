package denials

import (
	"bytes"

	"golang.org/x/sys/unix"
)

const (
	// maxWaiting limits denials whose process is not known yet.
	maxWaiting = 128
	// maxSeen limits the texts that identify repetitions.
	maxSeen = 512
)

// tally counts equal denials of a task; a nil tally belongs to no task.
type tally struct {
	task   *watched
	denial int // index in task.denials, -1 if the list is full
}

// waiting is a denial whose process a later record names.
type waiting struct {
	serial, domain string
	denial         Denial
}

// pending holds denials that are not attributed yet, oldest first, and the texts of known
// repetitions.
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

// pop removes and returns those that match.
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

// body returns a record's text without its time and serial.
func body(text []byte) []byte {
	_, b, _ := bytes.Cut(text, []byte("): "))
	return b
}

// seen stores the text of an attributed denial. The text contains the Landlock domain or the
// process, so it belongs to one task as long as the set of tasks does not change.
func (p *pending) seen(text []byte, t *tally) {
	if len(p.past) >= maxSeen || p.past == nil {
		p.past = map[string]*tally{}
	}
	p.past[string(body(text))] = t
}

// forget is called when a task is added or removed, since PIDs may then belong to another task.
func (p *pending) forget() { p.past = nil }

// repeated returns the tally of a denial that was attributed before, and reports whether there is
// one.
func (p *pending) repeated(kind uint16, text []byte) (*tally, bool) {
	if kind != unix.AUDIT_LANDLOCK_ACCESS && kind != unix.AUDIT_SECCOMP {
		return nil, false
	}
	t, ok := p.past[string(body(text))]
	return t, ok
}

// domainOf returns the Landlock domain of a denial without parsing the whole record.
func domainOf(text []byte) []byte {
	rest, ok := bytes.CutPrefix(body(text), []byte("domain="))
	domain, _, found := bytes.Cut(rest, []byte(" "))
	if !ok || !found {
		return nil
	}
	return domain
}
