package testvault

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testfault"
	"github.com/open-nomad/open-nomad/internal/testnet"
)

// port is the port of HTTP.
const port = 8200

// Config configures a Vault. The zero value is an unsealed one.
type Config struct {
	Version   string // default: 1.21.1
	Namespace string // that all calls must have, except those without a token and those about the namespace
	Absent    bool   // Namespace does not exist until a call creates it
	// Enterprise means that there is a license. The description of a namespace is served without it too, as by OpenBao.
	Enterprise bool
	TLS        *tls.Config
}

// Mode is how requests are served. The zero value serves them correctly.
type Mode struct {
	Refuse bool          // connections are refused
	Hang   bool          // requests wait until the mode changes
	Slow   time.Duration // each request waits
	Status int           // each request gets this status, such as 429 or 502
}

// Vault is a running Vault.
type Vault struct {
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

	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed and replaced when mode or clock change
	offset  time.Duration // of the clock
	sealed  bool
	calls   []string
	root    string // the token of the test
	state
}

// state is what survives a restart.
type state struct {
	tokens   map[string]*token // by ID
	policies map[string]document
	mounts   map[string]*mount // by path with a slash at its end
	auths    map[string]*auth  // auth methods, the same
	aliases  map[string]*alias // by the accessor of the auth method and the name
	leases   map[string]*lease // by ID
	namespace
	dynamic map[string]Dynamic
	records map[string]*Record // of tokens of logins, by ID; they stay
}

// Start runs a Vault until the test ends.
func Start(t testing.TB, cfg Config) *Vault {
	t.Helper()
	if cfg.Version == "" {
		cfg.Version = "1.21.1"
	}
	v := &Vault{cfg: cfg, addr: testnet.Take(t).Addr(port), changed: make(chan struct{}), state: state{
		tokens: map[string]*token{}, policies: map[string]document{}, auths: map[string]*auth{}, aliases: map[string]*alias{}, leases: map[string]*lease{},
		dynamic: map[string]Dynamic{}, records: map[string]*Record{},
		mounts: map[string]*mount{"secret/": newMount("kv", 2), "kv/": newMount("kv", 1), "pki/": newMount("pki", 0)},
	}}
	v.namespace.exists = !cfg.Absent
	v.standard()
	v.root = v.issue(token{policies: []string{"root"}, kind: "service"}).id
	v.routes = v.table()
	if err := v.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		v.halt()
		for _, f := range v.faults.Unexpected() {
			t.Error("testvault: " + f)
		}
	})
	return v
}

// Addr returns its URL.
func (v *Vault) Addr() string {
	if v.cfg.TLS != nil {
		return "https://" + v.addr
	}
	return "http://" + v.addr
}

// Root returns a token that may do everything.
func (v *Vault) Root() string { return v.root }

// Expect accepts faults that contain a text. The test fails if none occurs.
func (v *Vault) Expect(text string) { v.faults.Expect(text) }

// Allow accepts faults that contain a text. None need occur.
func (v *Vault) Allow(text string) { v.faults.Allow(text) }

// Faults returns all faults so far.
func (v *Vault) Faults() []string { return v.faults.All() }

// Set sets the mode of further requests, and of requests that wait.
func (v *Vault) Set(m Mode) error {
	v.mu.Lock()
	v.mode = m
	v.wake()
	v.mu.Unlock()
	if m.Refuse {
		v.halt()
		return nil
	}
	return v.listen()
}

// Restart drops all connections. The state stays, as that of a Vault with storage and automatic unsealing.
func (v *Vault) Restart() error {
	v.halt()
	return v.listen()
}

// Seal seals the Vault. Requests then get status 503.
func (v *Vault) Seal() { v.setSealed(true) }

// Unseal ends a seal.
func (v *Vault) Unseal() { v.setSealed(false) }

func (v *Vault) setSealed(on bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sealed = on
}

// Advance moves the clock. Tokens and leases that end by then are gone.
func (v *Vault) Advance(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.offset += d
	v.wake()
}

// Calls returns how often a method and path, such as "PUT /v1/auth/jwt-nomad/login", was requested.
func (v *Vault) Calls(methodAndPath string) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.calls {
		if c == methodAndPath {
			n++
		}
	}
	return n
}

// Lost revokes a token behind the back of its owner.
func (v *Vault) Lost(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(id, Lost)
}

// Tokens returns the IDs of all tokens that are valid, without those of the test. They are sorted.
func (v *Vault) Tokens() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expire()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(v.tokens)), func(id string) bool { return id == v.root })
}

// Leases returns the IDs of all leases that have not ended, sorted.
func (v *Vault) Leases() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expire()
	return slices.Sorted(maps.Keys(v.leases))
}

// listen accepts connections, unless it does already.
func (v *Vault) listen() error {
	v.serve.Lock()
	defer v.serve.Unlock()
	if v.serve.listener != nil {
		return nil
	}
	ln, err := testnet.ListenAgain(v.addr)
	if err != nil {
		return err
	}
	if v.cfg.TLS != nil {
		ln = tls.NewListener(ln, v.cfg.TLS)
	}
	s, done := &http.Server{Handler: v, ErrorLog: log.New(io.Discard, "", 0)}, make(chan struct{})
	v.serve.listener, v.serve.server, v.serve.done = ln, s, done
	go func() {
		defer close(done)
		if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			v.faults.Add("serve: %v", err)
		}
	}()
	return nil
}

// halt closes the listener and all connections.
func (v *Vault) halt() {
	v.serve.Lock()
	defer v.serve.Unlock()
	if v.serve.listener == nil {
		return
	}
	_ = v.serve.server.Close()   // the next line closes what it could not
	_ = v.serve.listener.Close() // again, or before Serve had it
	v.serve.listener = nil
	<-v.serve.done
}

// wake wakes all that wait for a change. The caller holds mu.
func (v *Vault) wake() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// now returns the time of the clock. The caller holds mu.
func (v *Vault) now() time.Time { return time.Now().Add(v.offset) }
