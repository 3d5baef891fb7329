package allocs

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/logs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Has reports whether an allocation of this node has the ID.
func (s *Set) Has(id string) bool {
	_, err := s.Find(id)
	return err == nil
}

// Had reports whether an allocation with the ID is on this node, or was when the agent started.
func (s *Set) Had(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[id] != nil || s.stored[id]
}

// Inherited reports whether allocations were on this node when the agent started.
func (s *Set) Inherited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.stored) > 0
}

// Find returns an allocation of this node.
func (s *Set) Find(id string) (*Entry, error) {
	if id == "" {
		return nil, apierror.ErrMissingAllocID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil {
		return e, nil
	}
	return nil, apierror.UnknownAlloc(id)
}

// Namespace returns the namespace of an allocation of this node.
func (s *Set) Namespace(id string) (string, error) {
	e, err := s.Find(id)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.alloc.Namespace, nil
}

// Task checks that an allocation has a task of that name. started reports whether the task was
// ever started.
func (s *Set) Task(id, task string) (started bool, err error) {
	e, err := s.Find(id)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tg := e.alloc.Job.TaskGroup(e.alloc.TaskGroup)
	if tg == nil || tg.Task(task) == nil {
		return false, apierror.Errorf(http.StatusBadRequest, "unknown task name %q", task)
	}
	state := e.Runner.States()[task]
	return state != nil && !state.StartedAt.IsZero(), nil
}

// Over reports whether a task is dead or its allocation is no longer on this node.
func (s *Set) Over(id, task string) bool {
	e, err := s.Find(id)
	if err != nil {
		return true
	}
	state := e.Runner.States()[task]
	return state != nil && state.State == nomad.TaskStateDead
}

// FindTask returns an allocation and, unless task is empty, checks that it has that task.
func (s *Set) FindTask(id, task string) (*Entry, error) {
	e, err := s.Find(id)
	if err != nil || task == "" {
		return e, err
	}
	_, err = s.Task(id, task)
	return e, err
}

// JobTask returns the namespace of an allocation and one of its tasks.
func (s *Set) JobTask(id, name string) (namespace string, task *nomad.Task, err error) {
	e, err := s.Find(id)
	if err != nil {
		return "", nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := e.alloc.Job.TaskGroup(e.alloc.TaskGroup)
	if group == nil {
		return "", nil, apierror.UnknownAlloc(id)
	}
	if t := group.Task(name); t != nil {
		return e.alloc.Namespace, t, nil
	}
	var names []string
	for _, t := range group.Tasks {
		names = append(names, t.Name)
	}
	if name == "" {
		return "", nil, apierror.Errorf(http.StatusBadRequest, "must provide task name: the allocation has %s", strings.Join(names, ", "))
	}
	return "", nil, apierror.Errorf(http.StatusNotFound, "unknown task name %q: the allocation has %s", name, strings.Join(names, ", "))
}

// JobID returns the ID of an allocation's job.
func (s *Set) JobID(id string) (string, error) {
	e, err := s.Find(id)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.alloc.JobID, nil
}

// VolumeUsers returns the IDs of the allocations that use a host volume and have not ended, sorted. Those of an earlier agent
// count once they are restored.
func (s *Set) VolumeUsers(ctx context.Context, volume string) (ids []string, err error) {
	select {
	case <-s.loaded:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the allocations of the previous agent: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.entries {
		if (e.status == nil || !e.status.ClientTerminalStatus()) && e.endedAt.IsZero() && e.alloc.UsesHostVolume(volume) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Files opens the directory of an allocation.
func (s *Set) Files(id string) (*logs.Tree, error) {
	if _, err := s.Find(id); err != nil {
		return nil, err
	}
	return logs.OpenTree(filepath.Join(s.cfg.Dir, id))
}

// VaultTokens describes the tokens of the tasks of this node in Vault, in the order of the allocations.
func (s *Set) VaultTokens() []*message.VaultTokenStatus {
	var out []*message.VaultTokenStatus
	for _, e := range s.All() {
		alloc := e.Runner.Alloc()
		for _, t := range e.Runner.VaultTokens() {
			t.Namespace, t.JobID = alloc.Namespace, alloc.JobID
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b *message.VaultTokenStatus) int { return strings.Compare(a.AllocID, b.AllocID) })
	return out
}

// Busy reports whether an allocation has not ended that a drain stops.
func (s *Set) Busy(ignoreSystem bool) bool {
	for _, e := range s.All() {
		typ := e.Runner.Alloc().Job.Type
		if typ == nomad.JobTypeSysBatch || typ == nomad.JobTypeSystem && ignoreSystem {
			continue
		}
		select {
		case <-e.Runner.Done():
		default:
			return true
		}
	}
	return false
}
