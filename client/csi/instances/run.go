package instances

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/nomad"
)

// The intervals of probes.
const (
	interval      = 30 * time.Second
	retryInterval = 5 * time.Second // while the instance is not healthy
)

// maxEnded limits the plugins that have ended and are still on the node's record.
const maxEnded = 64

// describer are the calls that fingerprint a plugin.
type describer interface {
	Probe(ctx context.Context) (bool, error)
	Traits(ctx context.Context) (csi.Traits, error)
	ControllerInfo(ctx context.Context) (*nomad.CSIControllerInfo, error)
	NodeInfo(ctx context.Context) (*nomad.CSINodeInfo, error)
	NodeCapabilities(ctx context.Context, earlier *nomad.CSINodeInfo) (*nomad.CSINodeInfo, error)
	Close() error
}

// dialer connects to a plugin. Tests replace it; their calls are nil.
type dialer func(ctx context.Context, s csi.Socket) (describer, *csi.Plugin, error)

func dialPlugin(ctx context.Context, s csi.Socket) (describer, *csi.Plugin, error) {
	p, err := csi.Dial(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	return p, p, nil
}

// watch is the goroutine of an instance that serves.
type watch struct {
	instance Instance
	cancel   context.CancelFunc
	first    func() // called once, after the first fingerprint or when the watch ends
}

// Run watches the instances until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	var watches sync.WaitGroup
	running := map[key]*watch{}
	for {
		s.follow(ctx, running, &watches)
		select {
		case <-ctx.Done():
			watches.Wait()
			return ctx.Err()
		case <-s.registered:
		}
	}
}

// report is a change of what Infos returns, with the events of the node.
type report struct {
	changed bool
	events  []nomad.NodeEvent
}

// follow starts a watch for each instance that serves now, and ends the others.
func (s *Set) follow(ctx context.Context, running map[key]*watch, watches *sync.WaitGroup) {
	var out report
	var started []*watch
	s.mu.Lock()
	for k, w := range running {
		list := s.lists[k]
		if len(list) > 0 && list[0] == w.instance {
			continue
		}
		w.cancel()
		delete(running, k)
		if len(list) == 0 {
			s.end(k, &out)
		}
	}
	for k, list := range s.lists {
		if running[k] == nil {
			running[k] = s.begin(list[0])
			started = append(started, running[k])
		}
	}
	if s.restored != nil {
		s.expect(started)
	}
	s.mu.Unlock()
	for _, w := range started {
		var watched context.Context
		watched, w.cancel = context.WithCancel(ctx)
		watches.Go(func() {
			defer w.first()
			s.watch(watched, w)
		})
	}
	s.publish(&out)
}

// expect makes Ready wait for the first fingerprints of the instances of an earlier agent.
func (s *Set) expect(started []*watch) {
	started = slices.DeleteFunc(slices.Clone(started), func(w *watch) bool { return !s.restored[w.instance] })
	s.restored, s.pending = nil, len(started)
	if s.pending == 0 {
		close(s.ready)
	}
	for _, w := range started {
		s.entries[w.instance.key()].emitted = healthy // by the earlier agent
		w.first = sync.OnceFunc(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.pending--; s.pending == 0 {
				close(s.ready)
			}
		})
	}
}

// begin makes an instance the one that serves. It has the health and the description of an earlier instance of the plugin until
// it has been probed, so that an update of the plugin's job does not stop the placement of its volumes.
func (s *Set) begin(i Instance) *watch {
	w := &watch{instance: i, first: func() {}}
	e := &entry{owner: w, info: nomad.CSIInfo{HealthDescription: initial, UpdateTime: time.Now()}}
	if before := s.entries[i.key()]; before != nil {
		e.info, e.emitted = before.info, before.emitted
	}
	e.info.PluginID, e.info.AllocID, e.info.Provider, e.info.ProviderVersion = i.ID, i.AllocID, i.Provider, i.Version
	s.entries[i.key()] = e
	return w
}

// end marks a plugin without instances as unhealthy. Its description stays on the node's record: servers find the node's ID in
// the storage system there.
func (s *Set) end(k key, out *report) {
	e := &entry{info: s.entries[k].info, emitted: s.entries[k].emitted}
	e.info.Healthy, e.info.HealthDescription, e.info.UpdateTime = false, unhealthy, time.Now()
	s.entries[k] = e
	e.emit(k, out)
	s.prune()
}

// prune removes the plugins that ended first, if there are too many.
func (s *Set) prune() {
	ended := slices.DeleteFunc(slices.Collect(maps.Keys(s.entries)), func(k key) bool { return s.entries[k].owner != nil })
	if len(ended) <= maxEnded {
		return
	}
	slices.SortFunc(ended, func(a, b key) int { return s.entries[a].info.UpdateTime.Compare(s.entries[b].info.UpdateTime) })
	for _, k := range ended[:len(ended)-maxEnded] {
		delete(s.entries, k)
	}
}

// emit adds a change to a report, with an event if the text of the health is another one than that of the last event.
func (e *entry) emit(k key, out *report) {
	out.changed = true
	if e.emitted == e.info.HealthDescription {
		return
	}
	e.emitted = e.info.HealthDescription
	out.events = append(out.events, nomad.NodeEvent{Subsystem: nomad.NodeEventSubsystemCSI, Message: e.emitted,
		Timestamp: e.info.UpdateTime, Details: map[string]string{"plugin": k.id, "type": words[k.kind]}})
}

// publish calls the functions of the configuration for a change.
func (s *Set) publish(r *report) {
	if !r.changed {
		return
	}
	s.updated.Send()
	s.cfg.Changed()
	for _, e := range r.events {
		s.cfg.Emit(e)
	}
}
