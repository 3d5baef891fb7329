// Package devices holds the devices of a node: the lists and the statistics that device plugins report. It passes
// reservations for tasks on to the plugins, and stores none: client/taskhook keeps them.
//
//	plugin ──list──▶ Set ──Groups──▶ node, which the scheduler reads
//	                  ▲
//	task ──Reserve────┘──▶ plugin ──▶ variables, mounts and device nodes, checked ──▶ driver
//
// While the program of a plugin does not run, its devices stay in the list as unhealthy. The scheduler places no
// task on them, and running tasks keep theirs. If two plugins report the same device, the one whose name sorts first
// counts.
//
// A plugin is not trusted to be correct. Lists have limits and texts are clipped, so that it can fill neither the
// state of the servers nor the memory of the agent. Paths of a reservation are checked (check.go).
//
// The Set decides nothing about placement: the servers assign instances. Run starts two goroutines per plugin, one
// for the list and one for the statistics, and waits for them.
package devices

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// Plugin is a device plugin (plugins/host.DevicePlugin).
type Plugin interface {
	Name() string
	// Watch reports the devices, or the reason why there are none now, until ctx ends. An error of report
	// means that the list is invalid.
	Watch(ctx context.Context, report func(*proto.DeviceFingerprintResponse, error) error)
	Reserve(ctx context.Context, ids []string) (*proto.ContainerReservation, error)
	// Stats passes on samples until the stream ends. ok is false if the plugin has none.
	Stats(ctx context.Context, every time.Duration, take func(*proto.StatsResponse)) (ok bool, err error)
}

// Config configures a Set.
type Config struct {
	Plugins []Plugin
	Every   time.Duration // interval of statistics; 0 means 1 s
	Log     *slog.Logger
}

// Set holds the devices of a node. Its methods may be called concurrently.
type Set struct {
	cfg     Config
	changed wake.Signal

	mu     sync.Mutex
	lists  [][]*nomad.NodeDeviceResource // by index of the plugin; never modified
	stats  [][]*message.DeviceGroupStats
	silent int           // plugins that have not reported yet
	ready  chan struct{} // closed when there are none
}

// Delays before a stream of statistics is opened again.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// New returns a Set.
func New(cfg Config) *Set {
	cfg.Every = cmp.Or(cfg.Every, time.Second)
	slices.SortFunc(cfg.Plugins, func(a, b Plugin) int { return cmp.Compare(a.Name(), b.Name()) })
	n := len(cfg.Plugins)
	s := &Set{cfg: cfg, changed: wake.New(), lists: make([][]*nomad.NodeDeviceResource, n), stats: make([][]*message.DeviceGroupStats, n),
		silent: n, ready: make(chan struct{})}
	if n == 0 {
		close(s.ready)
	}
	return s
}

// Run watches the plugins until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for i, p := range s.cfg.Plugins {
		running.Go(func() { s.watch(ctx, i, p) })
		running.Go(func() { s.sample(ctx, i, p) })
	}
	running.Wait()
	<-ctx.Done()
	return ctx.Err()
}

func (s *Set) watch(ctx context.Context, i int, p Plugin) {
	first := true
	p.Watch(ctx, func(m *proto.DeviceFingerprintResponse, err error) error {
		var groups []*nomad.NodeDeviceResource
		if err == nil {
			var wrong error
			if groups, wrong = decodeGroups(m); wrong != nil {
				return wrong // the plugin then reports it as its error
			}
		} else {
			s.cfg.Log.Warn("the devices of a plugin are unhealthy", "device_plugin", p.Name(), "err", err)
		}
		s.set(i, groups, err)
		if first {
			first = false
			s.firstAnswer()
		}
		return nil
	})
}

func (s *Set) firstAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent--; s.silent == 0 {
		close(s.ready)
	}
}

// set stores the report of a plugin.
func (s *Set) set(i int, groups []*nomad.NodeDeviceResource, err error) {
	s.mu.Lock()
	if err != nil {
		groups = unhealthy(s.lists[i], err)
	}
	same := reflect.DeepEqual(s.lists[i], groups)
	s.lists[i] = groups
	s.mu.Unlock()
	if !same {
		s.changed.Send()
	}
}

// unhealthy returns a copy of the groups whose instances are unhealthy for a reason.
func unhealthy(groups []*nomad.NodeDeviceResource, why error) (out []*nomad.NodeDeviceResource) {
	for _, g := range groups {
		dead := *g
		dead.Instances = nil
		for _, i := range g.Instances {
			d := *i
			d.Healthy, d.HealthDescription = false, why.Error()
			dead.Instances = append(dead.Instances, &d)
		}
		out = append(out, &dead)
	}
	return out
}

// sample stores the statistics of a plugin until ctx ends or the plugin has none.
func (s *Set) sample(ctx context.Context, i int, p Plugin) {
	again := backoff.Backoff{Min: minBackoff, Max: maxBackoff}
	for {
		ok, err := p.Stats(ctx, s.cfg.Every, func(m *proto.StatsResponse) {
			stats := decodeStats(m)
			again.Reset()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stats[i] = stats
		})
		s.mu.Lock()
		s.stats[i] = nil
		s.mu.Unlock()
		if !ok {
			return
		}
		s.cfg.Log.Debug("the statistics of a device plugin ended", "device_plugin", p.Name(), "err", err)
		if again.Wait(ctx) != nil {
			return
		}
	}
}

// Ready waits until every plugin has reported once, or ctx ends.
func (s *Set) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Changed receives after the groups have changed.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Groups returns the devices of all plugins, in a fixed order. The caller must not modify them.
func (s *Set) Groups() []*nomad.NodeDeviceResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*nomad.NodeDeviceResource
	for i, list := range s.lists {
		for _, g := range list {
			if s.owner(g.Vendor, g.Type, g.Name) == i {
				out = append(out, g)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *nomad.NodeDeviceResource) int {
		return cmp.Or(cmp.Compare(a.Vendor, b.Vendor), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// owner returns the index of the plugin whose device counts, -1 for none. The caller holds s.mu.
func (s *Set) owner(vendor, kind, name string) int {
	return slices.IndexFunc(s.lists, func(list []*nomad.NodeDeviceResource) bool {
		return slices.ContainsFunc(list, func(g *nomad.NodeDeviceResource) bool {
			return g.Vendor == vendor && g.Type == kind && g.Name == name
		})
	})
}

// Stats returns the last sample of each device of the node.
func (s *Set) Stats() []*message.DeviceGroupStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.stats...)
}

// StatsOf returns the last sample of the instances of a task.
func (s *Set) StatsOf(assigned []*nomad.AllocatedDeviceResource) (out []*message.DeviceGroupStats) {
	if len(assigned) == 0 {
		return nil
	}
	for _, g := range s.Stats() {
		of := &message.DeviceGroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, InstanceStats: map[string]*message.DeviceStats{}}
		for _, a := range assigned {
			if a.Vendor != g.Vendor || a.Type != g.Type || a.Name != g.Name {
				continue
			}
			for _, id := range a.DeviceIDs {
				if stats := g.InstanceStats[id]; stats != nil {
					of.InstanceStats[id] = stats
				}
			}
		}
		if len(of.InstanceStats) > 0 {
			out = append(out, of)
		}
	}
	return out
}

// Reserve reserves assigned instances of a device. It checks the paths of the reservation.
func (s *Set) Reserve(ctx context.Context, a *nomad.AllocatedDeviceResource) (*Reservation, error) {
	name := a.Vendor + "/" + a.Type + "/" + a.Name
	s.mu.Lock()
	owner := s.owner(a.Vendor, a.Type, a.Name)
	have := owner >= 0 && has(s.lists[owner], a)
	s.mu.Unlock()
	if !have {
		return nil, fmt.Errorf("this node does not have the instances %q of device %s", a.DeviceIDs, name)
	}
	m, err := s.cfg.Plugins[owner].Reserve(ctx, a.DeviceIDs)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	r, err := decodeReservation(m)
	if err == nil {
		err = check(r)
	}
	if err != nil {
		return nil, fmt.Errorf("device %s: device plugin %s: %w", name, s.cfg.Plugins[owner].Name(), err)
	}
	return r, nil
}
