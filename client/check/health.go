package check

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Describe sets the health of the registrations of a workload, which are in the order of its services. A service
// without checks has none. A service whose checks are not observed is critical.
func (s *Set) Describe(w *service.Workload, regs []*catalog.Registration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.allocs[w.Alloc.ID]
	for i, declared := range w.Services {
		if len(declared.Checks) == 0 || i >= len(regs) {
			continue
		}
		regs[i].Status, regs[i].Checks = catalog.Critical, nil
		if a != nil {
			regs[i].Status, regs[i].Checks = a.health(keyOf(w, declared))
		}
	}
}

// health returns the worst status of the checks of a service, and the first of the checks.
func (a *alloc) health(of Key) (catalog.Status, []*catalog.Check) {
	var worst catalog.Status
	var checks []*catalog.Check
	for _, t := range a.targets {
		if t.Of != of || a.checks[t.ID] == nil {
			continue
		}
		last := a.checks[t.ID].last
		health := healths[last.Status]
		if severity(health) > severity(worst) {
			worst = health
		}
		if len(checks) < catalog.MaxChecks {
			checks = append(checks, &catalog.Check{ID: string(t.ID), Name: line(t.Name, catalog.MaxCheckName), Type: line(t.Type, maxType),
				Status: health, Output: prefix(last.Output, catalog.MaxOutput)})
		}
	}
	return cmp.Or(worst, catalog.Critical), checks
}

// severity orders the statuses. That of no status is the lowest.
func severity(s catalog.Status) int {
	return slices.Index([]catalog.Status{catalog.Passing, catalog.Warning, catalog.Critical}, s)
}

// maxType is the maximum size of the type of a check in bytes. Those that exist are shorter.
const maxType = 16

// line returns the beginning of a text of the job in one line. The servers refuse others, and so the registration.
func line(text string, size int) string {
	return prefix(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text), size)
}

// prefix returns the beginning of a text without a part of a character.
func prefix(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// follower is one call of Follow.
type follower struct{ changed func() }

// Follow calls changed after each change of the status of a check of an allocation, until end is called. Calls may be
// concurrent, and one may begin just before end.
func (s *Set) Follow(allocID string, changed func()) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, f := s.alloc(allocID), &follower{changed}
	a.followers[f] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(a.followers, f)
		s.drop(allocID)
	}
}

// State is a check with its latest result. Neither must be modified.
type State struct {
	Target *Target
	Result *message.CheckQueryResult
}

// States returns the checks of an allocation in the order of the job.
func (s *Set) States(allocID string) []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.allocs[allocID]
	if a == nil {
		return nil
	}
	var out []State
	for _, t := range a.targets {
		if c := a.checks[t.ID]; c != nil {
			out = append(out, State{t, c.latest})
		}
	}
	return out
}
