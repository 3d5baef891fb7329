package instances

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/nomad"
)

// readyLimit limits how long Plugin waits for a healthy instance.
const readyLimit = time.Minute

// ErrNotFound is in the errors for a plugin without an instance on this node.
var ErrNotFound = errors.New("not found")

// missing is such an error. Its text is that of Nomad 2.0.
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == ErrNotFound }

// Plugin returns the instance of a plugin that serves. It waits a minute at most until there is one that is healthy.
func (s *Set) Plugin(ctx context.Context, kind Kind, id string) (*csi.Plugin, Instance, error) {
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
	for {
		next := s.updated.Next()
		p, i, err := s.Current(kind, id)
		if err == nil {
			return p, i, nil
		}
		select {
		case <-next:
		case <-limit.C:
			return nil, Instance{}, fmt.Errorf("%s plugin '%s' did not become ready: %w", kind, id, err)
		case <-ctx.Done():
			return nil, Instance{}, fmt.Errorf("%s plugin '%s' did not become ready: %w (%w)", kind, id, err, ctx.Err())
		}
	}
}

// Current is Plugin without waiting.
func (s *Set) Current(kind Kind, id string) (*csi.Plugin, Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key{kind, id}
	e := s.entries[k]
	switch {
	case len(s.lists[k]) == 0 && !s.any(kind):
		return nil, Instance{}, missing("no storage " + words[kind] + " plugins found")
	case len(s.lists[k]) == 0:
		return nil, Instance{}, missing("plugin " + id + " for type " + string(kind) + " not found")
	case e == nil:
		return nil, Instance{}, errors.New(initial)
	case !e.info.Healthy:
		return nil, Instance{}, errors.New(e.info.HealthDescription)
	case e.calls == nil:
		return nil, Instance{}, errors.New(initial)
	}
	return e.calls, e.instance, nil
}

// words name the kinds in messages.
var words = map[Kind]string{KindController: "controller", KindNode: "node"}

// any reports whether the node has an instance of a kind.
func (s *Set) any(kind Kind) bool {
	for k := range s.lists {
		if k.kind == kind {
			return true
		}
	}
	return false
}

// Infos returns the plugins of the node by ID, as servers store them. The caller owns the maps and their values.
func (s *Set) Infos() (controllers, nodes map[string]*nomad.CSIInfo) {
	out := map[Kind]map[string]*nomad.CSIInfo{KindController: {}, KindNode: {}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.entries {
		info := e.info
		out[k.kind][k.id] = &info
	}
	return out[KindController], out[KindNode]
}

// Ready waits until the instances of an earlier agent have been fingerprinted once, or ctx ends.
func (s *Set) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
