package rpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// tlsTest is a server with TLS and its callers.
type tlsTest struct {
	t     *testing.T
	ca    *testpki.CA
	cfg   certs.Config // of the server
	store *certs.Store
	s     *rpc.Server
	addr  string
	raft  handOff
}

// overTLS starts a server in the region "global".
func overTLS(t *testing.T, edit func(*certs.Config), change func(*rpc.Config)) *tlsTest {
	t.Helper()
	x := &tlsTest{t: t, ca: testpki.New(t), raft: make(handOff, 10)}
	x.cfg = x.ca.Agent("server.global.nomad").Config()
	x.cfg.Server = true
	if edit != nil {
		edit(&x.cfg)
	}
	x.store = testpki.Open(t, x.cfg)
	x.s, x.addr = serve(t, func(c *rpc.Config) {
		c.TLS, c.Raft = x.store, x.raft
		if change != nil {
			change(c)
		}
	})
	return x
}

// pool returns a caller with a certificate for the names, or without TLS if there are none.
func (x *tlsTest) pool(names ...string) *rpc.Pool {
	x.t.Helper()
	if len(names) == 0 {
		return pool(x.t, rpc.PoolConfig{Region: "global"})
	}
	cfg := x.ca.Agent(names...).Config()
	cfg.VerifyServerHostname = false
	return pool(x.t, rpc.PoolConfig{Region: "global", TLS: testpki.Open(x.t, cfg)})
}

func (x *tlsTest) call(p *rpc.Pool) error {
	return p.Call(within(x.t), x.addr, "Test.Get", ask("n", "me"), nil)
}

// raftTaken reports whether the server accepts a Raft connection.
func (x *tlsTest) raftTaken(p *rpc.Pool) bool {
	x.t.Helper()
	conn, err := p.DialRaft(within(x.t), x.addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, conn)
	}()
	select {
	case far := <-x.raft:
		far.Close()
		return true
	case <-ended:
		return false
	}
}

func TestTLS_Everything(t *testing.T) {
	x := overTLS(t, nil, nil)
	cfg := x.ca.Agent("client.global.nomad").Config()
	node, err := rpc.NewServer(rpc.Config{Methods: methods(), Auth: rpc.TrustPeer{}})
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, rpc.PoolConfig{Serve: node, Region: "global", TLS: testpki.Open(t, cfg)})
	if err := p.Call(within(t), x.addr, "Test.Bind", ask("n1", ""), nil); err != nil {
		t.Fatal(err)
	}
	var out message.SingleNodeResponse
	if err := x.s.NodeCall(within(t), "n1", "Test.Get", ask("back", ""), &out); err != nil || out.Node.ID != "back" {
		t.Errorf("NodeCall() = %v, %v", out.Node, err)
	}
	st, err := p.Stream(within(t), x.addr, "Test.Echo")
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var got message.StreamErrWrapper
	if err := errors.Join(st.Encode(&message.FsStreamRequest{Path: "over"}), st.Decode(&got)); err != nil || string(got.Payload) != "over" {
		t.Errorf("stream = %q, %v", got.Payload, err)
	}
}

func TestTLS_Callers(t *testing.T) {
	server, client, far, alien, cli := []string{"server.global.nomad"}, []string{"client.global.nomad"}, []string{"server.far.nomad"},
		[]string{"client.far.nomad"}, []string{"cli.global.nomad"}
	var plain []string
	for name, c := range map[string]struct {
		edit  func(*certs.Config)
		calls map[bool][][]string // allowed, refused
		rafts map[bool][][]string
	}{
		"names": {nil, map[bool][][]string{true: {server, client, far}, false: {alien, cli, plain}},
			map[bool][][]string{true: {server}, false: {client, far, alien, cli, plain}}},
		"no names": {func(c *certs.Config) { c.VerifyServerHostname = false },
			map[bool][][]string{true: {server, client, alien, cli}, false: {plain}},
			map[bool][][]string{true: {server, client, cli}, false: {plain}}},
		"upgrading": {func(c *certs.Config) { c.UpgradeMode = true }, map[bool][][]string{true: {server, client, plain}, false: {alien, cli}},
			map[bool][][]string{true: {server, plain}, false: {alien}}},
		"no TLS": {func(c *certs.Config) { c.RPC = false }, map[bool][][]string{true: {plain}, false: {server, client}},
			map[bool][][]string{true: {plain}, false: {server}}},
	} {
		t.Run(name, func(t *testing.T) {
			x := overTLS(t, c.edit, nil)
			for may, all := range c.calls {
				for _, names := range all {
					if err := x.call(x.pool(names...)); (err == nil) != may {
						t.Errorf("%q calls: %v", names, err)
					}
				}
			}
			for may, all := range c.rafts {
				for _, names := range all {
					if got := x.raftTaken(x.pool(names...)); got != may {
						t.Errorf("%q may use Raft: %t", names, got)
					}
				}
			}
		})
	}
}

// The caller gets the reason, in terms that help to correct it.
func TestTLS_HandshakeError(t *testing.T) {
	x := overTLS(t, nil, nil)
	other := testpki.New(t)
	alone := func(edit func(*certs.Config)) *rpc.Pool {
		cfg := x.ca.Agent("client.global.nomad").Config()
		edit(&cfg)
		return pool(t, rpc.PoolConfig{Region: cfg.Region, TLS: testpki.Open(t, cfg)})
	}
	for name, c := range map[string]struct {
		p    *rpc.Pool
		want string
	}{
		"another role": {x.pool("cli.global.nomad"), "the server rejected this agent: remote error: tls: bad certificate"},
		"signed elsewhere": {alone(func(c *certs.Config) { f := other.Agent("client.global.nomad"); c.CertFile, c.KeyFile = f.Cert, f.Key }),
			"the server rejected this agent"},
		"another CA": {alone(func(c *certs.Config) { *c = other.Agent("client.global.nomad").Config() }),
			"certificate signed by unknown authority"},
		"another region": {alone(func(c *certs.Config) { *c = x.ca.Agent("client.far.nomad").Config(); c.Region = "far" }), `region "far"`},
	} {
		t.Run(name, func(t *testing.T) {
			if err := x.call(c.p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Call() = %v, want %q", err, c.want)
			}
			if st, err := c.p.Stream(within(t), x.addr, "Test.Echo"); err == nil {
				st.Close()
				t.Error("Stream() is open")
			}
		})
	}
}

// A server of another region must present a certificate with its own region's name.
func TestTLS_OtherRegion(t *testing.T) {
	x := overTLS(t, func(c *certs.Config) { c.Region = "far"; c.VerifyServerHostname = false }, nil)
	far := x.ca.Agent("server.far.nomad")
	cfg := x.cfg
	cfg.CertFile, cfg.KeyFile = far.Cert, far.Key
	if err := x.store.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	own := testpki.Open(t, x.ca.Agent("server.global.nomad").Config())
	for region, want := range map[string]bool{"far": true, "": false, "elsewhere": false} {
		p := pool(t, rpc.PoolConfig{Region: "global", RegionOf: func(string) string { return region }, TLS: own})
		if err := x.call(p); (err == nil) != want {
			t.Errorf("a server with the assumed region %q: %v", region, err)
		}
		if conn, err := p.DialRaft(within(t), x.addr); err == nil {
			conn.Close()
			t.Error("a Raft connection to a server of another region was opened")
		}
	}
}

func TestTLS_NoHandshake(t *testing.T) {
	x := overTLS(t, nil, func(c *rpc.Config) { c.HandshakeTimeout = 50 * time.Millisecond })
	hello := func() []byte { // the first bytes of a handshake
		near, far := net.Pipe()
		defer near.Close()
		go tls.Client(near, &tls.Config{InsecureSkipVerify: true}).Handshake()
		buf := make([]byte, 2048)
		n, _ := far.Read(buf)
		far.Close()
		return append([]byte{0x04}, buf[:n]...)
	}()
	for name, first := range map[string][]byte{
		"only the byte":     {0x04},
		"half a handshake":  hello[:40],
		"a complete hello":  hello,
		"no handshake":      append([]byte{0x04}, "GET / HTTP/1.1\r\n\r\n"...),
		"plain calls":       {0x01},
		"plain raft":        {0x02},
		"a plain session":   {0x06},
		"two TLS bytes raw": {0x04, 0x04},
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, x.addr)
			conn.Write(first)
			if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
				t.Error("the connection stays open")
			}
		})
	}
	for name, second := range map[string][]byte{"TLS inside of TLS": {0x04, 0x01}, "nothing inside": nil} {
		t.Run(name, func(t *testing.T) {
			f := x.ca.Agent("client.global.nomad")
			pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
			if err != nil {
				t.Fatal(err)
			}
			raw := dial(t, x.addr)
			raw.Write([]byte{0x04})
			conn := tls.Client(raw, &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
			conn.Write(second)
			if _, err := io.Copy(io.Discard, conn); isTimeout(err) {
				t.Error("the connection stays open")
			}
		})
	}
}

// Slow handshakes take at most the slots of their address, and only until the deadline. Other
// addresses are not affected.
func TestTLS_SlowHandshakes(t *testing.T) {
	const places, all = 30, 60
	for name, c := range map[string]struct {
		limit time.Duration
		ended int
	}{"in number": {time.Hour, all - places}, "in time": {300 * time.Millisecond, all}} {
		t.Run(name, func(t *testing.T) {
			x := overTLS(t, nil, func(cfg *rpc.Config) { cfg.HandshakeTimeout, cfg.MaxConnsPerAddr = c.limit, places })
			ended := make(chan struct{}, all)
			for i := range all {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
				conn, err := d.Dial("tcp", x.addr)
				if err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
				defer conn.Close()
				conn.Write([]byte{0x04})
				go func() {
					io.Copy(io.Discard, conn) // only the end matters
					ended <- struct{}{}
				}()
			}
			if c.limit == time.Hour { // otherwise a good handshake may be too slow as well
				if err := x.call(x.pool("client.global.nomad")); err != nil {
					t.Errorf("while another address is slow: %v", err)
				}
			}
			for n, late := 0, within(t); n < c.ended; n++ {
				select {
				case <-ended:
				case <-late.Done():
					t.Fatalf("of %d connections %d are closed, want %d", all, n, c.ended)
				}
			}
		})
	}
}

// A cluster switches to TLS and back, one agent after another, without an interruption.
func TestTLS_Upgrade(t *testing.T) {
	x := overTLS(t, func(c *certs.Config) { c.RPC = false }, nil)
	cfg := x.ca.Agent("client.global.nomad").Config()
	cfg.RPC = false
	caller := testpki.Open(t, cfg)
	p := pool(t, rpc.PoolConfig{Region: "global", TLS: caller})
	for i, step := range []struct {
		who     *certs.Store
		cfg     *certs.Config
		rpc, up bool
	}{
		{x.store, &x.cfg, false, false},
		{caller, &cfg, true, true}, // uses TLS, the server does not yet
		{x.store, &x.cfg, true, true},
		{caller, &cfg, true, false},
		{x.store, &x.cfg, true, false},
		{x.store, &x.cfg, true, true}, // and back
		{caller, &cfg, true, true},
		{x.store, &x.cfg, false, false},
		{caller, &cfg, false, false},
	} {
		step.cfg.RPC, step.cfg.UpgradeMode = step.rpc, step.up
		if err := step.who.Reload(*step.cfg); err != nil {
			t.Fatal(err)
		}
		testpace.Succeeds(t, fmt.Sprintf("step %d", i), func() error { return x.call(p) })
	}
	cfg.RPC = true // without upgrade mode, connections require TLS
	if err := caller.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "a call without TLS fails", func() bool { return x.call(p) != nil })
}

// After a server's CA was rotated, sessions with certificates of the old CA end.
func TestTLS_RotatedCAs(t *testing.T) {
	x := overTLS(t, nil, nil)
	next := testpki.New(t)
	p := x.pool("client.global.nomad")
	if err := p.Call(within(t), x.addr, "Test.Bind", ask("n1", ""), nil); err != nil {
		t.Fatal(err)
	}
	fresh := next.Agent("server.global.nomad").Config()
	fresh.Server = true
	if err := x.store.Reload(fresh); err != nil {
		t.Fatal(err)
	}
	testpace.Until(t, "the session is closed", func() bool {
		_, open := x.s.NodeConn("n1")
		return !open
	})
	if err := x.call(p); err == nil {
		t.Error("a caller of the old CA is served")
	}
}

func BenchmarkCallOverTLS(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("TLS=%t", on), func(b *testing.B) {
			ca := testpki.New(b)
			cfg := ca.Agent("server.global.nomad").Config()
			cfg.RPC = on
			store := testpki.Open(b, cfg)
			_, addr := serve(b, func(c *rpc.Config) { c.TLS = store })
			p := rpc.NewPool(rpc.PoolConfig{Region: "global", TLS: store})
			defer p.Close()
			for b.Loop() {
				if err := p.Call(context.Background(), addr, "Test.Get", ask("n", "me"), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
