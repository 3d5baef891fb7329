package allocs

import (
	"context"
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/nomad"
)

// restorePatience bounds the work before the registration: recovering tasks and ending
// processes without an allocation. Both continue after it.
const restorePatience = 5 * time.Second

// Stored returns the allocations of the previous agent. Those that cannot be read are removed when their processes have
// ended.
func (s *Set) Stored() []*nomad.Allocation {
	allocs, errs := s.db.Allocs()
	for _, err := range errs {
		s.log.Error("restore allocation", "err", err)
		if bad, ok := errors.AsType[*state.AllocError](err); ok {
			s.setUnrestored(bad.ID)
			s.setStored(bad.ID)
		}
	}
	for _, a := range allocs {
		s.setStored(a.ID)
	}
	return allocs
}

// setStored records that the previous agent had an allocation.
func (s *Set) setStored(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[id] = true
}

// Restore resumes the allocations of the previous agent. It returns when every runner has read its stored state. None
// runs earlier: the users of its tasks are assigned to others only when all have reserved theirs.
func (s *Set) Restore(allocs []*nomad.Allocation) {
	defer s.setLoaded()
	var resume []func()
	for _, a := range allocs {
		if state.Abandoned(a) {
			s.setUnrestored(a.ID)
			resume = append(resume, func() { s.take(a) })
			continue
		}
		r, err := s.cfg.Node.NewRunner(a)
		if err == nil {
			err = r.Restore()
		}
		if err != nil {
			s.setUnrestored(a.ID)
			resume = append(resume, func() { s.refuse(a, err) })
			continue
		}
		resume = append(resume, func() { s.run(a, r) })
	}
	for _, f := range resume {
		f()
	}
}

// RestoreLater lets Follow restore the allocations: after a reboot, another node may have replaced this one.
func (s *Set) RestoreLater(allocs []*nomad.Allocation) { s.waiting = allocs }

// AwaitRestore waits until the drivers have been asked once to recover the tasks of every allocation, and the orphans have
// ended, for at most restorePatience.
func (s *Set) AwaitRestore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, restorePatience)
	defer cancel()
	for _, e := range s.All() {
		e.Runner.AwaitRecovery(ctx)
	}
	select {
	case <-s.orphans:
	case <-ctx.Done():
	}
}
