package rpc_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// everybody admits all callers, except those with the token "bad".
type everybody struct{}

func (everybody) Authenticate(_ context.Context, token string, rule rpc.Rule, conn *rpc.Conn) (*rbac.AuthenticatedIdentity, error) {
	id := &rbac.AuthenticatedIdentity{ClientID: token}
	switch {
	case token == "bad", rule == rpc.ServerOnly && conn != nil:
		return id, apierror.ErrPermissionDenied
	case token == "old":
		return id, fmt.Errorf("%w: %w", apierror.ErrPermissionDenied, apierror.ErrIdentityExpired)
	}
	return id, nil
}

func (everybody) Access(ctx context.Context, id *rbac.AuthenticatedIdentity) (*rpc.Access, error) {
	return rpc.TrustPeer{}.Access(ctx, id)
}

func methods() []rpc.Method {
	name := func(ctx context.Context, c *rpc.Call, req *message.NodeSpecificRequest) (*message.SingleNodeResponse, error) {
		return &message.SingleNodeResponse{Node: &nomad.Node{ID: req.NodeID, Name: c.Identity.ClientID}}, nil
	}
	return []rpc.Method{
		rpc.Handle("Test.Get", rpc.Token, rpc.Here, name).Needs(rpc.AnyToken),
		rpc.Handle("Test.Open", rpc.Anonymous, rpc.Here, name),
		rpc.Handle("Test.Server", rpc.ServerOnly, rpc.Here, name),
		rpc.Handle("Test.Register", rpc.NodeRegister, rpc.Here, name),
		rpc.Handle("Test.Bind", rpc.Token, rpc.Here,
			func(_ context.Context, c *rpc.Call, req *message.NodeSpecificRequest) (*message.GenericResponse, error) {
				c.Conn.BindNode(req.NodeID)
				return &message.GenericResponse{}, nil
			}).Needs(rpc.AnyToken),
		rpc.Handle("Test.Fail", rpc.Token, rpc.Here, func(context.Context, *rpc.Call, *message.GenericRequest) (*message.GenericResponse, error) {
			return nil, apierror.Errorf(409, "no, thanks")
		}).Needs(rpc.AnyToken),
		rpc.Handle("Test.Panic", rpc.Token, rpc.Here,
			func(context.Context, *rpc.Call, *message.GenericRequest) (*message.GenericResponse, error) {
				panic("a bug")
			}).Needs(rpc.AnyToken),
		rpc.Handle("Test.Wait", rpc.Token, rpc.Here,
			func(ctx context.Context, _ *rpc.Call, _ *message.GenericRequest) (*message.GenericResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}).Needs(rpc.AnyToken),
		rpc.Handle("Test.Leader", rpc.Token, rpc.Leader, name).Needs(rpc.AnyToken),
		rpc.HandleStream("Test.Echo", rpc.Token, rpc.Here,
			func(_ context.Context, _ *rpc.Call, req *message.FsStreamRequest, s *rpc.Stream) error {
				if req.Path == "" {
					return apierror.Errorf(404, "no path")
				}
				if err := s.Encode(&message.StreamErrWrapper{Payload: []byte(req.Path)}); err != nil {
					return err
				}
				var in message.StreamErrWrapper
				for s.Decode(&in) == nil {
					if err := s.Encode(&in); err != nil {
						return err
					}
				}
				return nil
			}).Needs(rpc.AnyToken),
	}
}

// serve starts a server with the test's methods. It ends with the test.
func serve(t testing.TB, change func(*rpc.Config)) (*rpc.Server, string) {
	t.Helper()
	cfg := rpc.Config{Methods: methods(), Auth: everybody{}}
	if change != nil {
		change(&cfg)
	}
	s, err := rpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln := testnet.Listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(ctx, ln)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s, ln.Addr().String()
}

func pool(t *testing.T, cfg rpc.PoolConfig) *rpc.Pool {
	t.Helper()
	p := rpc.NewPool(cfg)
	t.Cleanup(func() { p.Close() })
	return p
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ask(node, token string) *message.NodeSpecificRequest {
	return &message.NodeSpecificRequest{NodeID: node, QueryOptions: message.QueryOptions{AuthToken: token}}
}

// callers returns the two ways to call: over TCP and in process.
func callers(t *testing.T, change func(*rpc.Config)) map[string]message.Caller {
	s, addr := serve(t, change)
	return map[string]message.Caller{"tcp": over{pool(t, rpc.PoolConfig{}), addr}, "in process": s}
}

type over struct {
	*rpc.Pool
	addr string
}

func (o over) Call(ctx context.Context, method string, req, resp any) error {
	return o.Pool.Call(ctx, o.addr, method, req, resp)
}

func TestCall(t *testing.T) {
	for way, c := range callers(t, nil) {
		t.Run(way, func(t *testing.T) {
			var out message.SingleNodeResponse
			if err := c.Call(within(t), "Test.Get", ask("n1", "me"), &out); err != nil {
				t.Fatal(err)
			}
			if out.Node.ID != "n1" || out.Node.Name != "me" {
				t.Errorf("Call() = %+v", out.Node)
			}
			for name, c2 := range map[string]struct {
				method, token string
				req           any
				want          func(error) bool
			}{
				"bad token":     {"Test.Get", "bad", nil, is(apierror.ErrPermissionDenied)},
				"open to all":   {"Test.Open", "bad", nil, is(nil)},
				"expired":       {"Test.Get", "old", nil, is(apierror.ErrPermissionDenied)},
				"may register":  {"Test.Register", "old", nil, is(nil)},
				"handler fails": {"Test.Fail", "", &message.GenericRequest{}, coded(409)},
				"handler bug":   {"Test.Panic", "", &message.GenericRequest{}, text("internal error in Test.Panic")},
				"no method":     {"Test.No", "", nil, text("rpc: can't find method Test.No")},
				"no service":    {"No.No", "", nil, text("rpc: can't find service No.No")},
				"a stream":      {"Test.Echo", "", nil, text("rpc: can't find method Test.Echo")},
				"error value":   {"Test.No", "", nil, is(apierror.ErrNoMethod)},
			} {
				req := c2.req
				if req == nil {
					req = ask("n1", c2.token)
				}
				if err := c.Call(within(t), c2.method, req, nil); !c2.want(err) {
					t.Errorf("%s: Call(%s) = %v", name, c2.method, err)
				}
			}
		})
	}
}

func is(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
func text(want string) func(error) bool {
	return func(err error) bool { return err != nil && err.Error() == want }
}

func coded(want int) func(error) bool {
	return func(err error) bool {
		var c *apierror.Coded
		return errors.As(err, &c) && c.Code == want && c.Message == "no, thanks"
	}
}

func TestServerOnly_OverTCP(t *testing.T) {
	ways := callers(t, nil)
	if err := ways["tcp"].Call(within(t), "Test.Server", ask("", ""), nil); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("Call() over TCP = %v, want permission denied", err)
	}
	if err := ways["in process"].Call(within(t), "Test.Server", ask("", ""), nil); err != nil {
		t.Errorf("Call() in process = %v", err)
	}
}

func TestNewServer_Table(t *testing.T) {
	complete := rpc.Handle("A.B", rpc.Token, rpc.Here,
		func(context.Context, *rpc.Call, *message.GenericRequest) (*message.GenericResponse, error) {
			return nil, nil
		}).Needs(rpc.AnyToken)
	noRule := complete
	noRule.Rule = 0
	noCheck := complete
	noCheck.Check = rpc.Check{}
	for name, rows := range map[string][]rpc.Method{
		"twice": {complete, complete}, "no rule": {noRule}, "no check": {noCheck},
		"no handler": {{Name: "A.C", Rule: rpc.Token, Where: rpc.Here}},
	} {
		if _, err := rpc.NewServer(rpc.Config{Methods: rows, Auth: everybody{}}); err == nil {
			t.Errorf("%s: NewServer() accepted the table", name)
		}
	}
	if _, err := rpc.NewServer(rpc.Config{Methods: []rpc.Method{complete}}); err == nil {
		t.Error("NewServer() accepted a missing authenticator")
	}
}

func TestPool_Concurrent(t *testing.T) {
	_, addr := serve(t, nil)
	p := pool(t, rpc.PoolConfig{})
	ctx, cancel := context.WithCancel(within(t))
	waits := make(chan error, 1)
	go func() { waits <- p.Call(ctx, addr, "Test.Wait", &message.GenericRequest{}, nil) }()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := p.Call(within(t), addr, "Test.Get", ask("n", ""), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("Call() = %v, want canceled", err)
	}
	if err := p.Call(within(t), addr, "Test.Get", ask("n", ""), nil); err != nil {
		t.Errorf("Call() after a canceled one = %v", err)
	}
}

func TestStream(t *testing.T) {
	s, addr := serve(t, nil)
	p := pool(t, rpc.PoolConfig{})
	for way, open := range map[string]func(context.Context, string) (*rpc.Stream, error){
		"in process": s.Stream,
		"tcp":        func(ctx context.Context, m string) (*rpc.Stream, error) { return p.Stream(ctx, addr, m) },
	} {
		t.Run(way, func(t *testing.T) {
			st := begin(t, open, &message.FsStreamRequest{Path: "a"})
			if got := next(t, st); string(got.Payload) != "a" {
				t.Errorf("first message = %q", got.Payload)
			}
			big := []byte(strings.Repeat("x", 1<<20))
			go st.Encode(&message.StreamErrWrapper{Payload: big})
			if got := next(t, st); len(got.Payload) != len(big) {
				t.Errorf("echo of %d bytes = %d bytes", len(big), len(got.Payload))
			}
			st = begin(t, open, &message.FsStreamRequest{})
			if got := next(t, st); got.Error == nil || got.Error.Message != "no path" || *got.Error.Code != 404 {
				t.Errorf("failed handler sends %+v", got.Error)
			}
			if err := st.Decode(&message.StreamErrWrapper{}); err != io.EOF {
				t.Errorf("after the error: %v, want EOF", err)
			}
			st = begin(t, open, &message.FsStreamRequest{Path: "a", QueryOptions: message.QueryOptions{AuthToken: "bad"}})
			if got := next(t, st); got.Error == nil || got.Error.Message != "Permission denied" {
				t.Errorf("reply to a bad token: %+v", got)
			}
			if _, err := open(within(t), "Test.Get"); !errors.Is(err, apierror.ErrUnknownMethod) {
				t.Errorf("open of a method that is not a stream = %v", err)
			}
		})
	}
}

func begin(t *testing.T, open func(context.Context, string) (*rpc.Stream, error), req any) *rpc.Stream {
	t.Helper()
	st, err := open(within(t), "Test.Echo")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Encode(req); err != nil {
		t.Fatal(err)
	}
	return st
}

func next(t *testing.T, st *rpc.Stream) message.StreamErrWrapper {
	t.Helper()
	var out message.StreamErrWrapper
	if err := st.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNodeCall_Session(t *testing.T) {
	s, addr := serve(t, nil)
	node, err := rpc.NewServer(rpc.Config{Methods: methods(), Auth: rpc.TrustPeer{}})
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, rpc.PoolConfig{Serve: node})
	if err := s.NodeCall(within(t), "n1", "Test.Get", ask("x", ""), nil); !errors.Is(err, apierror.ErrNoNodeConn) {
		t.Fatalf("NodeCall() before the node connected = %v", err)
	}
	if err := p.Call(within(t), addr, "Test.Bind", ask("n1", ""), nil); err != nil {
		t.Fatal(err)
	}
	var out message.SingleNodeResponse
	if err := s.NodeCall(within(t), "n1", "Test.Get", ask("x", ""), &out); err != nil || out.Node.ID != "x" {
		t.Errorf("NodeCall() = %+v, %v", out.Node, err)
	}
	st := begin(t, func(ctx context.Context, m string) (*rpc.Stream, error) { return s.NodeStream(ctx, "n1", m) },
		&message.FsStreamRequest{Path: "p"})
	if got := next(t, st); string(got.Payload) != "p" {
		t.Errorf("NodeStream() sends %q", got.Payload)
	}
	if _, ok := s.NodeConn("n1"); !ok {
		t.Error("NodeConn() = false")
	}
	p.Close()
	if err := st.Decode(new(message.StreamErrWrapper)); !errors.Is(err, apierror.ErrLost) {
		t.Errorf("the stream ends with %v when its connection does, want that it is lost", err)
	}
	for ctx := within(t); ; {
		if err := s.NodeCall(ctx, "n1", "Test.Get", ask("x", ""), nil); errors.Is(err, apierror.ErrNoNodeConn) {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the node is still connected after its session ended")
		}
	}
}

func TestNodeCall_InProcess(t *testing.T) {
	s, _ := serve(t, nil)
	node, _ := rpc.NewServer(rpc.Config{Methods: methods(), Auth: rpc.TrustPeer{}})
	detach := s.AttachNode("n1", node)
	var out message.SingleNodeResponse
	if err := s.NodeCall(within(t), "n1", "Test.Get", ask("x", ""), &out); err != nil || out.Node.ID != "x" {
		t.Errorf("NodeCall() = %+v, %v", out.Node, err)
	}
	detach()
	if err := s.NodeCall(within(t), "n1", "Test.Get", ask("x", ""), nil); !errors.Is(err, apierror.ErrNoNodeConn) {
		t.Errorf("NodeCall() after detaching = %v", err)
	}
}

// to routes every call for the leader to one address.
type to string

func (a to) Route(_ context.Context, where rpc.Where, env message.Envelope) (string, error) {
	if where == rpc.Leader && !env.Forwarded {
		return string(a), nil
	}
	return "", nil
}

func TestForward_Leader(t *testing.T) {
	_, leader := serve(t, func(c *rpc.Config) { c.Router = to("") })
	follower, _ := serve(t, func(c *rpc.Config) { c.Router, c.Peers = to(leader), pool(t, rpc.PoolConfig{}) })
	var out message.SingleNodeResponse
	if err := follower.Call(within(t), "Test.Leader", ask("n1", "me"), &out); err != nil || out.Node.Name != "me" {
		t.Errorf("Call() = %+v, %v", out.Node, err)
	}
	// The leader authenticates the token again.
	if err := follower.Call(within(t), "Test.Leader", ask("n1", "bad"), &out); !errors.Is(err, apierror.ErrPermissionDenied) {
		t.Errorf("Call() with a bad token = %v", err)
	}
}

// TestWire_Bytes compares a call with hand-written bytes.
func TestWire_Bytes(t *testing.T) {
	_, addr := serve(t, nil)
	// {"Seq":7,"ServiceMethod":"Test.Fail"} {"AuthToken":"x"}
	request := "01" + "82" + "a3536571" + "07" + "ad536572766963654d6574686f64" + "a9546573742e4661696c" +
		"81" + "a941757468546f6b656e" + "a178"
	// {"Error":"RPC Error:: 409,no, thanks","Seq":7,"ServiceMethod":"Test.Fail"} {}
	want := "83" + "a54572726f72" + "ba525043204572726f723a3a203430392c6e6f2c207468616e6b73" +
		"a3536571" + "07" + "ad536572766963654d6574686f64" + "a9546573742e4661696c" + "80"
	conn := dial(t, addr)
	raw, err := hex.DecodeString(request)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write(raw)
	got := make([]byte, len(want)/2)
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(got) != want {
		t.Errorf("reply = %x\nwant    %s", got, want)
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return conn
}

func TestServe_Refuses(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.HandshakeTimeout = 50 * time.Millisecond })
	for name, first := range map[string][]byte{
		"no data":       nil,
		"TLS":           {0x04, 0x16, 0x03},
		"raft":          {0x02, 0x00},
		"unknown byte":  {0x47},
		"no handshake":  {0x05},
		"bad stream":    {0x05, 0x81, 0xa6, 'M', 'e', 't', 'h', 'o', 'd', 0xa2, 'N', 'o'},
		"no msgpack":    {0x01, 0xc1},
		"huge header":   {0x01, 0xdf, 0xff, 0xff, 0xff, 0xff},
		"another proto": []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			conn := dial(t, addr)
			conn.Write(first)
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
				t.Errorf("the connection stays open: %v", err)
			}
		})
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestServe_ConnsPerAddr(t *testing.T) {
	_, addr := serve(t, func(c *rpc.Config) { c.MaxConnsPerAddr = 3 })
	alive := func(conn net.Conn) bool { // answers a call with an error, or is closed
		raw, _ := hex.DecodeString("81a3536571" + "0180")
		conn.Write(raw)
		_, err := bufio.NewReader(conn).ReadByte()
		return err == nil
	}
	var open []net.Conn
	for range 3 {
		conn := dial(t, addr)
		conn.Write([]byte{0x01})
		if !alive(conn) {
			t.Fatal("a connection within the limit was closed")
		}
		open = append(open, conn)
	}
	extra := dial(t, addr)
	extra.Write([]byte{0x01})
	if alive(extra) {
		t.Error("a connection beyond the limit is answered")
	}
	open[0].Close()
	for ctx := within(t); ; {
		conn := dial(t, addr)
		conn.Write([]byte{0x01})
		if alive(conn) {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("a free slot is not used")
		}
	}
}

// handOff is a Raft layer that receives one connection.
type handOff chan net.Conn

func (h handOff) HandOff(c net.Conn) { h <- c }

func TestRaft_HandedOver(t *testing.T) {
	took := make(handOff, 1)
	_, addr := serve(t, func(c *rpc.Config) { c.Raft = took })
	conn := dial(t, addr)
	conn.Write([]byte{0x02, 'h', 'i'})
	far := <-took
	defer far.Close()
	got := make([]byte, 2)
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "hi" {
		t.Errorf("raft reads %q, %v", got, err)
	}
}

func TestPool_Reconnects(t *testing.T) {
	block := testnet.Take(t)
	p := pool(t, rpc.PoolConfig{})
	for range 3 {
		ln, err := net.Listen("tcp", block.Addr(4647))
		if err != nil {
			t.Fatal(err)
		}
		s, err := rpc.NewServer(rpc.Config{Methods: methods(), Auth: everybody{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Serve(ctx, ln)
		}()
		for limit := within(t); ; { // a read may be repeated
			err := p.Call(limit, block.Addr(4647), "Test.Get", ask("n", ""), nil)
			if err == nil {
				break
			}
			if limit.Err() != nil {
				t.Fatalf("the server that came back is not found: %v", err)
			}
		}
		cancel()
		<-done
	}
}

func TestPool_IdleSessions(t *testing.T) {
	s, addr := serve(t, nil)
	p := pool(t, rpc.PoolConfig{IdleTimeout: 20 * time.Millisecond})
	if err := p.Call(within(t), addr, "Test.Bind", ask("n1", ""), nil); err != nil {
		t.Fatal(err)
	}
	for limit := within(t); ; {
		if _, open := s.NodeConn("n1"); !open {
			break
		}
		if limit.Err() != nil {
			t.Fatal("an idle session stays open")
		}
	}
	if err := p.Call(within(t), addr, "Test.Get", ask("n", ""), nil); err != nil {
		t.Errorf("after the idle session was closed: %v", err)
	}
}
