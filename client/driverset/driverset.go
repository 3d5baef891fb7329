// Package driverset holds the drivers of a client. It watches their health, and provides them by name
// to task runners. A name is that of an instance: a client can have several instances of one kind of
// driver, with different names and configurations.
//
//	(registered) ──first fingerprint──▶ known ──fingerprint──▶ known ...
//	       └──────no answer in time─────▶ unhealthy
//
// It also assigns uids to tasks without a user (Users), and delivers the drivers' events about
// running tasks to listeners. It runs no task itself. All goroutines, one or two per driver,
// are inside Run.
package driverset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// ErrUnknown is wrapped if this client does not have a driver of that name.
var ErrUnknown = errors.New("no such driver on this client")

// firstAnswer is the time limit for a driver's first fingerprint.
const firstAnswer = 5 * time.Second

// Config configures a Set.
type Config struct {
	Drivers []drivers.Driver // configured; with different names
	// Backends are the kinds of the drivers by name. A driver that is missing is its own kind.
	Backends map[string]string
	Log      *slog.Logger
}

// Set holds the drivers of a client. Its methods may be called concurrently.
type Set struct {
	log      *slog.Logger
	drivers  map[string]drivers.Driver // never changes
	backends map[string]string         // by name of the driver; never changes

	changed wake.Signal   // an info changed since it was last read
	ready   chan struct{} // closed when every driver has been fingerprinted once

	mu    sync.Mutex
	infos map[string]*nomad.DriverInfo
	// schemas are those of the tasks of detected drivers, by name.
	schemas map[string]schema.Schema

	listenMu  sync.RWMutex
	listeners map[string]*listener // by task ID
}

// New returns a Set. Two drivers with one name are an error.
func New(cfg Config) (*Set, error) {
	s := &Set{
		log: cfg.Log, drivers: map[string]drivers.Driver{}, backends: map[string]string{}, infos: map[string]*nomad.DriverInfo{},
		schemas: map[string]schema.Schema{},
		changed: wake.New(), ready: make(chan struct{}), listeners: map[string]*listener{},
	}
	for _, d := range cfg.Drivers {
		name := d.Name()
		if s.drivers[name] != nil {
			return nil, fmt.Errorf("two drivers have the name %q", name)
		}
		s.drivers[name] = d
		s.backends[name] = cmp.Or(cfg.Backends[name], name)
	}
	return s, nil
}

// Driver returns the driver of that name, healthy or not.
func (s *Set) Driver(name string) (drivers.Driver, error) {
	if d := s.drivers[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("driver %q: %w", name, ErrUnknown)
}

// Names returns the sorted names of the drivers.
func (s *Set) Names() []string { return slices.Sorted(maps.Keys(s.drivers)) }

// Run watches the drivers until ctx ends.
func (s *Set) Run(ctx context.Context) error {
	var watchers, first sync.WaitGroup
	for _, d := range s.drivers {
		first.Add(1)
		watchers.Go(func() { s.watch(ctx, d, sync.OnceFunc(first.Done)) })
		if r, ok := d.(drivers.Reporter); ok {
			watchers.Go(func() { s.report(ctx, d.Name(), r) })
		}
	}
	first.Wait() // bounded: each watcher calls it within firstAnswer
	close(s.ready)
	watchers.Wait()
	return ctx.Err()
}

// Ready waits until every driver has been fingerprinted once, or ctx ends.
func (s *Set) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Infos returns the fingerprints of the drivers. The caller owns the map.
func (s *Set) Infos() map[string]*nomad.DriverInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.infos)
}

// Changed receives after a fingerprint has changed.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// watch receives a driver's fingerprints until ctx ends.
func (s *Set) watch(ctx context.Context, d drivers.Driver, done func()) {
	defer done()
	late := time.NewTimer(firstAnswer)
	defer late.Stop()
	prints := d.Fingerprint(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			s.set(d.Name(), drivers.Fingerprint{
				Health: drivers.HealthUnhealthy, Description: "the driver did not send a fingerprint in time",
			})
		case fp, open := <-prints:
			if !open {
				prints = nil // the driver sends no more fingerprints
				continue
			}
			late.Stop()
			s.set(d.Name(), fp)
		}
		done()
	}
}

// attributes returns the attributes of a fingerprint, with the kind of the driver, the digest of its
// schema, its isolation level and its rules on privilege while it is detected.
func (s *Set) attributes(name string, fp drivers.Fingerprint) map[string]string {
	if fp.Health == drivers.HealthUndetected {
		return fp.Attributes
	}
	out := map[string]string{}
	maps.Copy(out, fp.Attributes)
	delete(out, drivers.Attribute(name, drivers.LacksKey))
	out[drivers.Attribute(name, drivers.BackendKey)] = s.backends[name]
	if digest := s.describe(name, s.drivers[name]); digest != "" {
		out[drivers.Attribute(name, drivers.SchemaKey)] = digest
	}
	maps.Copy(out, s.levels(name))
	drivers.PrivilegeOf(s.drivers[name]).Attributes(name, out)
	return out
}

// levels returns the attributes of the isolation level of a driver. A driver that cannot show how it
// isolates tasks has level none, whatever its own attributes are.
func (s *Set) levels(name string) map[string]string {
	level, lacks := drivers.LevelNone, ""
	if d, ok := s.drivers[name].(drivers.Isolator); ok {
		i, err := d.Isolates("", nil)
		if err != nil {
			lacks = err.Error()
		} else {
			level, lacks = i.Level(), drivers.Texts(i.Lacks(drivers.LevelStrict))
		}
	}
	out := map[string]string{drivers.Attribute(name, drivers.LevelKey): level.String()}
	if lacks != "" {
		out[drivers.Attribute(name, drivers.LacksKey)] = lacks
	}
	return out
}

// set stores a fingerprint, and notifies the receiver of Changed if it differs from the last.
func (s *Set) set(name string, fp drivers.Fingerprint) {
	info := &nomad.DriverInfo{
		Attributes:        s.attributes(name, fp),
		Detected:          fp.Health != drivers.HealthUndetected,
		Healthy:           fp.Health == drivers.HealthHealthy,
		HealthDescription: fp.Description,
		UpdateTime:        time.Now(),
	}
	s.mu.Lock()
	old := s.infos[name]
	same := old != nil && old.Detected == info.Detected && old.Healthy == info.Healthy &&
		old.HealthDescription == info.HealthDescription && maps.Equal(old.Attributes, info.Attributes)
	if !same {
		s.infos[name] = info
	}
	s.mu.Unlock()
	if same {
		return
	}
	s.log.Debug("driver health", "driver", name, "health", fp.Health, "description", fp.Description)
	s.changed.Send()
}
