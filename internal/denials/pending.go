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

// waiting is a refusal whose process is told by a later record.
type waiting struct {
	serial, domain string
	denial         Denial
}

// pending are refusals on their way to a task, oldest first, and the texts of those
// that need not be looked at again.
type pending struct {
	list []waiting
	past map[string]struct{}
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

// seen notes the text of a refusal that is dealt with. It names the domain, so it is
// one task's.
func (p *pending) seen(text []byte) {
	if len(p.past) >= maxSeen || p.past == nil {
		p.past = map[string]struct{}{}
	}
	p.past[string(body(text))] = struct{}{}
}

// repeated says whether a refusal need not be looked at.
func (p *pending) repeated(kind uint16, text []byte) bool {
	if kind != unix.AUDIT_LANDLOCK_ACCESS {
		return false
	}
	_, ok := p.past[string(body(text))]
	return ok
}
