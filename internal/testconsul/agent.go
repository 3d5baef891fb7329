package testconsul

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/testfault"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// port is the port of HTTP.
const port = 8500

// firstIndex is the index of an agent without any write. Consul has written its own objects by then.
const firstIndex = 10

// Config configures an agent. The zero value is an agent without ACLs.
type Config struct {
	Node    string // default: node1
	Version string // default: 1.22.1
	ACL     bool   // ACLs are enabled, with the default policy deny
	Manual  bool   // checks run in Advance only
	TLS     *tls.Config
	Self    func(self Self) // changes the answer of /v1/agent/self
}

// Self is the answer of /v1/agent/self.
type Self map[string]map[string]any

// Mode is how the agent serves requests. The zero value serves them correctly.
type Mode struct {
	Refuse    bool          // connections are refused
	Hang      bool          // requests wait until the mode changes
	Slow      time.Duration // each request waits
	Fail      bool          // each request gets status 500
	PollLimit time.Duration // a blocking query that waits longer loses its connection, as behind a proxy
	TokenLag  time.Duration // tokens of a login are unknown for this time
}

// Agent is a running agent.
type Agent struct {
	cfg    Config
	addr   string
	routes *http.ServeMux
	faults testfault.List
	serve  struct { // serializes stopping and starting the listener
		sync.Mutex
		listener net.Listener // nil while connections are refused
		server   *http.Server
		done     chan struct{} // closed when server ended
	}
	probing sync.Mutex // serializes runs of checks

	mu       sync.Mutex
	mode     Mode
	changed  chan struct{} // closed and replaced when state, mode or clock change
	offset   time.Duration // of the clock
	index    uint64
	base     uint64            // the index of what was never written
	touched  map[string]uint64 // indexes by subject, such as "service/web" and "kv/a/b"
	services map[string]*api.AgentService
	checks   map[string]*check
	keys     map[string]*api.KVPair
	config   map[string]map[string]any // config entries by kind/name
	acl      directory
	calls    []string
}

// Start runs an agent until the test ends.
func Start(t testing.TB, cfg Config) *Agent {
	t.Helper()
	if cfg.Node == "" {
		cfg.Node = "node1"
	}
	if cfg.Version == "" {
		cfg.Version = "1.22.1"
	}
	a := &Agent{cfg: cfg, addr: testnet.Take(t).Addr(port), changed: make(chan struct{}), index: firstIndex}
	a.acl.declare()
	a.reset()
	a.routes = a.table()
	if err := a.listen(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	if !cfg.Manual {
		wg.Go(func() { a.runChecks(stop) })
	}
	t.Cleanup(func() {
		close(stop)
		a.halt()
		wg.Wait()
		for _, f := range a.faults.Unexpected() {
			t.Error("testconsul: " + f)
		}
	})
	return a
}

// Expect accepts faults that contain a text. The test fails if none occurs.
func (a *Agent) Expect(text string) { a.faults.Expect(text) }

// Faults returns all faults so far.
func (a *Agent) Faults() []string { return a.faults.All() }

// Addr returns its address as "host:port".
func (a *Agent) Addr() string { return a.addr }

// Set sets the mode of further requests, and of requests that wait.
func (a *Agent) Set(m Mode) error {
	a.mu.Lock()
	a.mode = m
	a.wake()
	a.mu.Unlock()
	if m.Refuse {
		a.halt()
		return nil
	}
	return a.listen()
}

// Restart drops all connections and all state. Only the tokens that the test made remain, as if they were configured.
func (a *Agent) Restart() error {
	a.halt()
	a.mu.Lock()
	a.index = firstIndex
	a.reset()
	a.wake()
	a.mu.Unlock()
	return a.listen()
}

// LoseServices removes all services and checks of the agent, as a lost data directory does. Its servers keep the rest.
func (a *Agent) LoseServices() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, s := range a.services {
		names = append(names, s.Service)
	}
	clear(a.services)
	clear(a.checks)
	a.touchServices(names...)
}

// listen accepts connections, unless it does already.
func (a *Agent) listen() error {
	a.serve.Lock()
	defer a.serve.Unlock()
	if a.serve.listener != nil {
		return nil
	}
	ln, err := testnet.ListenAgain(a.addr)
	if err != nil {
		return err
	}
	if a.cfg.TLS != nil {
		ln = tls.NewListener(ln, a.cfg.TLS)
	}
	s, done := &http.Server{Handler: a, ErrorLog: log.New(io.Discard, "", 0)}, make(chan struct{})
	a.serve.listener, a.serve.server, a.serve.done = ln, s, done
	go func() {
		defer close(done)
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			a.faults.Add("serve: %v", err)
		}
	}()
	return nil
}

// halt closes the listener and all connections.
func (a *Agent) halt() {
	a.serve.Lock()
	defer a.serve.Unlock()
	if a.serve.listener == nil {
		return
	}
	_ = a.serve.server.Close()   // the next line closes what it could not
	_ = a.serve.listener.Close() // again, or before Serve had it
	a.serve.listener = nil
	<-a.serve.done
}

// reset makes the state empty.
func (a *Agent) reset() {
	a.base, a.touched = a.index, map[string]uint64{}
	a.services, a.checks = map[string]*api.AgentService{}, map[string]*check{}
	a.keys, a.config = map[string]*api.KVPair{}, map[string]map[string]any{}
	a.acl.reset()
}

// wake wakes all that wait for a change. The caller holds mu.
func (a *Agent) wake() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// touch records a write of subjects. The caller holds mu.
func (a *Agent) touch(subjects ...string) uint64 {
	a.index++
	for _, s := range subjects {
		a.touched[s] = a.index
	}
	a.wake()
	return a.index
}

// touchServices records a write of the services with the names. The caller holds mu.
func (a *Agent) touchServices(names ...string) uint64 {
	subjects := []string{"services"}
	for _, n := range names {
		subjects = append(subjects, "service/"+n)
	}
	return a.touch(subjects...)
}

// at returns the index of the last change of a subject. The caller holds mu.
func (a *Agent) at(subject string) uint64 { return max(a.base, a.touched[subject]) }

// now returns the time of the agent's clock. The caller holds mu.
func (a *Agent) now() time.Time { return time.Now().Add(a.offset) }

// Services returns the registered services by ID.
func (a *Agent) Services() map[string]api.AgentService {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]api.AgentService{}
	for id, s := range a.services {
		out[id] = *s
	}
	return out
}

// Checks returns the registered checks by ID.
func (a *Agent) Checks() map[string]api.AgentCheck {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]api.AgentCheck{}
	for id, c := range a.checks {
		out[id] = a.listed(c)
	}
	return out
}

// IDs returns the exact set of registrations: the IDs of all services and checks, sorted.
func (a *Agent) IDs() (out []string) {
	for id := range a.Services() {
		out = append(out, id)
	}
	for id := range a.Checks() {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// Calls returns how often a method and path, such as "PUT /v1/acl/login", was requested.
func (a *Agent) Calls(methodAndPath string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.calls {
		if c == methodAndPath {
			n++
		}
	}
	return n
}

// ConfigEntry returns the config entry of a kind and name, nil if it does not exist.
func (a *Agent) ConfigEntry(kind, name string) map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config[kind+"/"+name]
}
