package faults

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/open-nomad/open-nomad/api"
)

// Change is an object as of a log entry. One of the pointers is set.
type Change struct {
	Index uint64
	Type  string // of the event: it names the command of the log entry
	Key   string // of the object

	Job        *api.Job
	Eval       *api.Evaluation
	Alloc      *api.Allocation
	Deployment *api.Deployment
	Node       *api.Node
}

// Timeline is the history of the objects of a cluster, from the event streams of all its servers. A server that is
// down misses events; the others have them. It is safe for concurrent use.
type Timeline struct {
	mu   sync.Mutex
	seen map[place]sighting
	last map[subject]uint64
	all  []Change
}

// place is an object at an index.
type place struct {
	index uint64
	subject
}

// subject identifies an object.
type subject struct{ topic, key string }

// sighting is the event of a place as the first server reported it.
type sighting struct {
	server string
	sum    [sha256.Size]byte
}

// NewTimeline returns an empty timeline.
func NewTimeline() *Timeline {
	return &Timeline{seen: map[place]sighting{}, last: map[subject]uint64{}}
}

// Add adds an event that a server reported. It returns an error if another server reported another content for the
// same object and log entry: the servers then have different states.
func (t *Timeline) Add(server string, e *api.Event) error {
	text, err := json.Marshal(e.Payload)
	if err != nil {
		return err
	}
	at, is := place{e.Index, subject{string(e.Topic), e.Key}}, sighting{server, sha256.Sum256(append([]byte(e.Type), text...))}
	t.mu.Lock()
	defer t.mu.Unlock()
	if was, ok := t.seen[at]; ok {
		if was.sum != is.sum {
			return fmt.Errorf("%s and %s differ about %s %s at index %d", was.server, server, e.Topic, e.Key, e.Index)
		}
		return nil
	}
	c, err := changeOf(e)
	if err != nil {
		return err
	}
	t.seen[at] = is
	t.last[at.subject] = max(t.last[at.subject], e.Index)
	t.all = append(t.all, c)
	return nil
}

// changeOf decodes an event.
func changeOf(e *api.Event) (c Change, err error) {
	c = Change{Index: e.Index, Type: e.Type, Key: e.Key}
	switch e.Topic {
	case api.TopicJob:
		c.Job, err = e.Job()
	case api.TopicEvaluation:
		c.Eval, err = e.Evaluation()
	case api.TopicAllocation:
		c.Alloc, err = e.Allocation()
	case api.TopicDeployment:
		c.Deployment, err = e.Deployment()
	case api.TopicNode:
		c.Node, err = e.Node()
	}
	return c, err
}

// Last returns the index of the last change of an object, 0 if there is none.
func (t *Timeline) Last(topic api.Topic, key string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last[subject{string(topic), key}]
}

// Changes returns all changes in the order of their indexes.
func (t *Timeline) Changes() []Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.all)
	slices.SortStableFunc(out, func(a, b Change) int { return cmp.Compare(a.Index, b.Index) })
	return out
}

// replayed is the state that changes lead to, by ID.
type replayed struct {
	evals       map[string]*api.Evaluation
	allocs      map[string]*api.Allocation
	deployments map[string]*api.Deployment
	nodes       map[string]*api.Node
}

// replay applies changes, and calls check after each log entry with the state and the changes of the entry.
// It returns the state after the last entry.
func replay(changes []Change, check func(w *replayed, entry []Change) error) (*replayed, error) {
	w := &replayed{evals: map[string]*api.Evaluation{}, allocs: map[string]*api.Allocation{},
		deployments: map[string]*api.Deployment{}, nodes: map[string]*api.Node{}}
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Index == changes[0].Index {
			n++
		}
		for _, c := range changes[:n] {
			w.apply(c)
		}
		if err := check(w, changes[:n]); err != nil {
			return w, fmt.Errorf("at index %d: %w", changes[0].Index, err)
		}
		changes = changes[n:]
	}
	return w, nil
}

func (w *replayed) apply(c Change) {
	switch {
	case c.Eval != nil:
		w.evals[c.Key] = c.Eval
	case c.Alloc != nil:
		w.allocs[c.Key] = c.Alloc
	case c.Deployment != nil:
		w.deployments[c.Key] = c.Deployment
	case c.Node != nil:
		w.nodes[c.Key] = c.Node
	}
}

// ended reports whether the tasks of an allocation have ended, or never run.
func ended(a *api.Allocation) bool {
	switch a.ClientStatus {
	case api.AllocClientStatusComplete, api.AllocClientStatusFailed, api.AllocClientStatusLost:
		return true
	}
	return false
}

// live reports whether an allocation is to run, and may.
func live(a *api.Allocation) bool { return a.DesiredStatus == api.AllocDesiredStatusRun && !ended(a) }

// healthy reports whether an allocation runs, is healthy and is not asked to leave.
func healthy(a *api.Allocation) bool {
	s, leaves := a.DeploymentStatus, a.DesiredTransition.Migrate
	return live(a) && a.ClientStatus == api.AllocClientStatusRunning && s != nil && s.Healthy != nil && *s.Healthy &&
		(leaves == nil || !*leaves)
}
