package identity

import (
	"slices"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// isolation returns the value of the claim nomad_isolation, "" for no claim. It is the level that the
// allocation has since it was placed, and which its client enforces. For a service of the group it
// is the lowest level of the group's tasks. An allocation that was placed without levels claims none.
func (s Subject) isolation() string {
	if !s.Namespace.ClaimsIsolation(s.Identity) {
		return ""
	}
	if s.Handle.WorkloadType == message.WorkloadTypeTask {
		return s.levelOf(s.Handle.WorkloadIdentifier).String()
	}
	tg := s.Job.TaskGroup(s.Alloc.TaskGroup)
	if tg == nil || len(tg.Tasks) == 0 {
		return drivers.LevelNone.String()
	}
	var all []drivers.Level
	for _, t := range tg.Tasks {
		all = append(all, s.levelOf(t.Name))
	}
	return slices.Min(all).String()
}

// levelOf returns the level of a task of the allocation.
func (s Subject) levelOf(task string) drivers.Level {
	l, err := drivers.ParseLevel(s.Alloc.Isolation[task])
	if err != nil { // it has none, or one that this version does not have
		return drivers.LevelNone
	}
	return l
}
