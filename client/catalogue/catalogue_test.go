package catalogue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/catalogue"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// servers is a server with a catalog.
type servers struct {
	mu      sync.Mutex
	changed chan struct{}
	index   int
	version map[string]int // by namespace/name
	down    bool
	contact time.Duration
	calls   int
	asked   int // names of the last call
}

func newServers() *servers {
	return &servers{changed: make(chan struct{}), version: map[string]int{}}
}

// edit changes the server, and wakes up blocking calls.
func (s *servers) edit(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index++
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

// set gives a service a new instance with port n.
func (s *servers) set(service string, n int) { s.edit(func() { s.version[service] = n }) }

func (s *servers) read(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

func (s *servers) Call(ctx context.Context, method string, request, response any) error {
	req, resp := request.(*message.ServiceWatchRequest), response.(*message.ServiceWatchResponse)
	if method != "ServiceRegistration.Watch" || !req.AllowStale {
		return fmt.Errorf("unexpected call of %s", method)
	}
	s.read(func() { s.calls++; s.asked = len(req.Services) })
	timeout := time.After(req.MaxQueryTime)
	for {
		s.mu.Lock()
		changed, down := s.changed, s.down
		resp.KnownLeader, resp.LastContact = true, s.contact
		for _, v := range req.Services {
			n := s.version[v.Namespace+"/"+v.Name]
			if version := fmt.Sprint("v", n); version != v.Version {
				state := &message.ServiceState{Namespace: v.Namespace, Name: v.Name, Version: version}
				if n > 0 {
					state.Instances = []*catalog.Instance{{Registration: catalog.Registration{Port: n}}}
				}
				resp.Services = append(resp.Services, state)
			}
		}
		s.mu.Unlock()
		if down {
			return errors.New("connection refused")
		}
		if len(resp.Services) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return nil
		case <-changed:
		}
	}
}

// start runs a cache in the bubble of the test.
func start(t *testing.T, s *servers, maxStale time.Duration) *catalogue.Cache {
	c := catalogue.New(catalogue.Config{Servers: s, MaxStale: maxStale, Log: slog.New(slog.DiscardHandler)})
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() { c.Run(ctx) }) //nolint:errcheck // ends with ctx
	t.Cleanup(func() { cancel(); wg.Wait() })
	return c
}

// port returns the port of the only instance of a service, 0 for none, -1 for an error.
func port(t *testing.T, c *catalogue.Cache, service string) int {
	t.Helper()
	found, err := c.Instances(t.Context(), "default", service)
	switch {
	case errors.Is(err, catalogue.ErrUnavailable):
		return -1
	case err != nil:
		t.Fatal(err)
	case len(found) == 0:
		return 0
	}
	return found[0].Port
}

func TestInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		s.set("default/web", 1)
		c := start(t, s, 0)
		for range 3 {
			if got := port(t, c, "web"); got != 1 {
				t.Fatalf("port = %d, want 1", got)
			}
			if got := port(t, c, "none"); got != 0 {
				t.Fatalf("port of a missing service = %d, want 0", got)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.read(func() {
			if s.asked != 2 {
				t.Errorf("the blocking call has %d names, want 2", s.asked)
			}
			s.calls = 0
		})
		s.set("default/web", 2)
		s.set("default/none", 3)
		synctest.Wait()
		if web, none := port(t, c, "web"), port(t, c, "none"); web != 2 || none != 3 {
			t.Errorf("ports = %d and %d, want 2 and 3", web, none)
		}
		s.read(func() {
			if s.calls > 4 {
				t.Errorf("%d calls for two changes", s.calls)
			}
		})
	})
}

// A name that nobody asks for is dropped, one in use is not.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		c := start(t, s, 0)
		port(t, c, "idle")
		for range 13 {
			port(t, c, "used")
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if got := c.Size(); got != 1 {
			t.Errorf("Size() = %d, want 1", got)
		}
	})
}

// The least recently used name is evicted. It is fetched again by the next question.
func TestMaxNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		c := start(t, s, 0)
		port(t, c, "first")
		for i := range catalogue.MaxNames {
			port(t, c, fmt.Sprint("n", i))
			port(t, c, "n0") // stays in use
		}
		if got := c.Size(); got != catalogue.MaxNames {
			t.Errorf("Size() = %d, want %d", got, catalogue.MaxNames)
		}
		var before int
		s.read(func() { before = s.calls })
		port(t, c, "n0")
		s.read(func() {
			if s.calls != before {
				t.Error("a name in use was evicted")
			}
		})
		s.set("default/first", 7)
		if got := port(t, c, "first"); got != 7 {
			t.Errorf("port of an evicted name = %d, want 7", got)
		}
	})
}

// Random names without instances do not evict a service. They do not keep a full cache from having new services either.
func TestRandomNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		s.set("default/web", 1)
		c := start(t, s, 0)
		port(t, c, "web")
		for i := range catalogue.MaxNames + 10 {
			port(t, c, fmt.Sprint("random", i))
		}
		synctest.Wait()
		var before int
		s.read(func() { before = s.calls })
		if got := port(t, c, "web"); got != 1 {
			t.Errorf("port = %d, want 1", got)
		}
		s.read(func() {
			if s.calls != before {
				t.Error("random names evicted a service with instances")
			}
		})
		s.edit(func() {
			for i := range catalogue.MaxNames {
				s.version[fmt.Sprint("default/new", i)] = 5
			}
		})
		for i := range catalogue.MaxNames {
			if got := port(t, c, fmt.Sprint("new", i)); got != 5 {
				t.Fatalf("port of new service %d = %d, want 5", i, got)
			}
		}
		if got := c.Size(); got != catalogue.MaxNames {
			t.Errorf("Size() = %d, want %d", got, catalogue.MaxNames)
		}
	})
}

// A service that lost its instances and nobody asks for is dropped, also if the order of questions changed the lists.
func TestIdleAfterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		s.set("default/web", 1)
		c := start(t, s, 0)
		port(t, c, "web")
		for range 13 {
			port(t, c, "used")
			time.Sleep(time.Minute)
			s.edit(func() { s.version["default/web"] = 1 - s.version["default/web"] })
		}
		synctest.Wait()
		if got := c.Size(); got != 1 {
			t.Errorf("Size() = %d, want 1", got)
		}
	})
}

// During an outage the last answer is used for MaxStale, counted from the last successful call.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		s.set("default/web", 1)
		c := start(t, s, 10*time.Minute)
		port(t, c, "web")
		time.Sleep(3 * time.Minute)
		s.edit(func() { s.down = true })
		for minute := range 9 {
			if got := port(t, c, "web"); got != 1 {
				t.Fatalf("port after %d minutes = %d, want 1", minute, got)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(2 * time.Minute)
		if got := port(t, c, "web"); got != -1 {
			t.Errorf("port after 11 minutes = %d, want an error", got)
		}
		if got := port(t, c, "new"); got != -1 {
			t.Errorf("port of a new name = %d, want an error", got)
		}
		began := time.Now()
		if port(t, c, "other"); time.Since(began) > 0 {
			t.Errorf("a question took %s while the servers are known to fail", time.Since(began))
		}
		s.edit(func() { s.down = false; s.version["default/web"] = 2 })
		time.Sleep(10 * time.Second)
		if got := port(t, c, "web"); got != 2 {
			t.Errorf("port after the outage = %d, want 2", got)
		}
		if got := port(t, c, "new"); got != 0 {
			t.Errorf("port of the new name after the outage = %d, want 0", got)
		}
	})
}

// A server without contact to the leader makes answers older.
func TestLastContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServers()
		s.set("default/web", 1)
		s.edit(func() { s.contact = 20 * time.Minute })
		c := start(t, s, 10*time.Minute)
		if got := port(t, c, "web"); got != -1 {
			t.Errorf("port = %d, want an error", got)
		}
	})
}

// hanging servers never answer.
type hanging struct{}

func (hanging) Call(ctx context.Context, _ string, _, _ any) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestFirstQuestionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := catalogue.New(catalogue.Config{Servers: hanging{}, Log: slog.New(slog.DiscardHandler)})
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { c.Run(ctx) }) //nolint:errcheck // ends with ctx
		defer wg.Wait()
		defer cancel()
		began := time.Now()
		if got := port(t, c, "web"); got != -1 || time.Since(began) != 2*time.Second {
			t.Errorf("port = %d after %s, want an error after 2 s", got, time.Since(began))
		}
	})
}
