package web

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// pipes is a listener for in-memory connections, which use the clock of the test.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// servers answers all calls. The caller is a task.
type servers struct{}

func (servers) Call(_ context.Context, _ string, _, resp any) error {
	if who, ok := resp.(*message.ACLWhoAmIResponse); ok {
		who.Identity = &rbac.AuthenticatedIdentity{Claims: &idtoken.Claims{}}
	}
	return nil
}

func (servers) Stream(context.Context, string) (*rpc.Stream, error) {
	return nil, apierror.ErrUnknownMethod
}

// newTestServer serves a route with a JSON body, one with a raw body and one without.
func newTestServer(maxBody int64, more ...Route) *Server {
	routes := append([]Route{
		{Methods: "GET", Path: "/v1/jobs", Handle: func(*Request) (any, error) { return nil, nil }},
		{Methods: "PUT", Path: "/v1/jobs", Call: Call{"Job.Register", func(r *Request) (any, error) {
			return nil, r.Decode(&struct{ Job struct{ ID, Name string } }{})
		}}},
		{Methods: "PUT", Path: "/v1/job/:job_id/dispatch/payload", Handle: func(r *Request) (any, error) {
			_, err := io.ReadAll(r.Body)
			return nil, cmp.Or(BodyFault(err), err)
		}},
	}, more...)
	return New(Config{RPC: servers{}, Region: "global", MaxBody: maxBody, Log: slog.New(slog.DiscardHandler)}, routes, nil)
}

// serveHere serves h and returns a function that connects to it.
func serveHere(t *testing.T, h http.Handler) func() net.Conn {
	t.Helper()
	l := pipes{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: h}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		close(l.done)
		srv.Close() //nolint:errcheck // the listener has no error
		<-ended
	})
	return func() net.Conn {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		l.conns <- server
		return client
	}
}

// head returns the header of a request.
func head(route string, size string) string {
	return route + " HTTP/1.1\r\nHost: 127.0.0.1:4646\r\nX-Nomad-Token: mine\r\n" + size + "\r\n\r\n"
}

// answerTo reads a response and returns its body.
func answerTo(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// A body that stops arriving ends its request, on the port and on the task sockets, and whether the
// handler reads the body or not.
func TestBodiesThatNeverEnd(t *testing.T) {
	const slow = "did not arrive in time"
	for name, tt := range map[string]struct {
		sent string
		task bool
		code int
		want string
	}{
		"job":               {head("PUT /v1/jobs", "Content-Length: 1000") + `{"Job":`, false, 408, slow},
		"nothing sent":      {head("PUT /v1/jobs", "Content-Length: 1000"), false, 408, slow},
		"chunks":            {head("PUT /v1/jobs", "Transfer-Encoding: chunked") + "7\r\n{\"Job\":\r\n", false, 408, slow},
		"payload":           {head("PUT /v1/job/j/dispatch/payload", "Content-Length: 1000") + "x", false, 408, slow},
		"reason":            {head("PUT /v1/jobs", "X-Nomad-Acl-Reason: 1\r\nContent-Length: 1000") + "x", false, 408, slow},
		"unused":            {head("GET /v1/jobs", "Content-Length: 1000") + "x", false, 408, slow},
		"no route":          {head("PUT /v1/nothing", "Content-Length: 1000") + "x", false, 404, ""},
		"not read":          {head("DELETE /v1/jobs", "Content-Length: 1000") + "x", false, 405, "Invalid method"},
		"a task's socket":   {head("PUT /v1/jobs", "Content-Length: 1000") + `{"Job":`, true, 408, slow},
		"a task, no caller": {"PUT /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", true, 401, "Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(1 << 20)
				var h http.Handler = Compress(s)
				if tt.task {
					h = s.TaskSocket()
				}
				c := serveHere(t, h)()
				begun := time.Now()
				if _, err := io.WriteString(c, tt.sent); err != nil {
					t.Fatal(err)
				}
				resp, text := answerTo(t, c)
				if resp.StatusCode != tt.code || !strings.Contains(text, tt.want) || !resp.Close {
					t.Errorf("answer = %d %q, closed: %v; want %d, %q and closed", resp.StatusCode, text, resp.Close, tt.code, tt.want)
				}
				if took := time.Since(begun); took < bodyTimeout || took > bodyTimeout+time.Second {
					t.Errorf("the answer took %v, want %v", took, bodyTimeout)
				}
			})
		})
	}
}

// A large body may take longer than a small one if it has the minimum rate.
func TestLargeBodiesAtARate(t *testing.T) {
	const step = 64 << 10
	for name, tt := range map[string]struct {
		rate int // bytes a second
		code int
	}{
		"fast enough": {bodyRate, 200},
		"too slow":    {bodyRate / 4, 408},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestServer(32 << 20)
				c := serveHere(t, s)()
				const size = 20 << 20
				front, back := `{"Job":{"ID":"a","Name":"`, `"}}`
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					body := front + strings.Repeat("x", size-len(front)-len(back)) + back
					_, err := io.WriteString(c, head("PUT /v1/jobs", fmt.Sprint("Content-Length: ", size)))
					for len(body) > 0 && err == nil {
						n := min(step, len(body))
						_, err = io.WriteString(c, body[:n])
						body = body[n:]
						<-time.After(step * time.Second / time.Duration(tt.rate))
					}
				}()
				if resp, text := answerTo(t, c); resp.StatusCode != tt.code {
					t.Errorf("answer = %d %q, want %d", resp.StatusCode, text, tt.code)
				}
				c.Close()
				<-sent
			})
		})
	}
}

// The body of a request with a streamed response does not end the stream. Connections are reused.
func TestStreamsOutliveTheirBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(1<<20, Route{Methods: "GET", Path: "/v1/lasting", Handle: func(r *Request) (any, error) {
			http.NewResponseController(r.Reply).Flush() //nolint:errcheck // the answer shows it
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(time.Hour):
				io.WriteString(r.Reply, "whole") //nolint:errcheck // the answer shows it
				return nil, ErrDone
			}
		}})
		c := serveHere(t, s)()
		for range 2 {
			if _, err := io.WriteString(c, head("GET /v1/lasting", "Content-Length: 2")+"{}"); err != nil {
				t.Fatal(err)
			}
			if resp, text := answerTo(t, c); text != "whole" {
				t.Errorf("answer = %d %q, want the complete stream", resp.StatusCode, text)
			}
		}
		if _, err := io.WriteString(c, head("PUT /v1/jobs", "Content-Length: 18")+`{"Job":{"ID":"a"}}`); err != nil {
			t.Fatal(err)
		}
		if resp, text := answerTo(t, c); resp.StatusCode != http.StatusOK || resp.Close {
			t.Errorf("answer = %d %q", resp.StatusCode, text)
		}
	})
}

// unauthenticatedCallers accepts only the token "mine".
type unauthenticatedCallers struct{}

func (unauthenticatedCallers) AccessNow(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	return unauthenticatedCallers{}.Access(ctx, token)
}

func (unauthenticatedCallers) Access(_ context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	if token != "mine" {
		return nil, nil, apierror.ErrPermissionDenied
	}
	return &rbac.AuthenticatedIdentity{}, &rpc.Access{}, nil
}

// The bodies of all requests share memory. Unauthenticated callers cannot use the share of the
// others, and a request releases its share.
func TestBodiesShareMemory(t *testing.T) {
	s := newTestServer(64 << 20)
	s.cfg.Callers, s.cfg.ACL = unauthenticatedCallers{}, true
	open := func(token string) *intake {
		body := strings.NewReader(strings.Repeat("x", 32<<20))
		req, err := http.NewRequest("PUT", "/v1/jobs", body) //nolint:noctx // is not sent
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Nomad-Token", token)
		s.newIntake(nowhere{}, req)
		in, _ := req.Body.(*intake)
		return in
	}
	read := func(in *intake) error {
		_, err := io.Copy(io.Discard, struct{ io.Reader }{in})
		return err
	}
	first, second, known := open("other"), open(""), open("mine")
	if err := read(first); err != nil {
		t.Errorf("the first stranger: %v", err)
	}
	if err := read(second); !errors.Is(err, errBodiesBusy) {
		t.Errorf("the second stranger: %v, want %v", err, errBodiesBusy)
	}
	if err := read(known); err != nil {
		t.Errorf("a known caller: %v", err)
	}
	for _, in := range []*intake{first, second, known} {
		in.release()
	}
	if !s.bodies.unauthenticated.TryAcquire(bodiesUnauthenticated) || !s.bodies.proven.TryAcquire(bodiesAll) {
		t.Error("the requests did not release their memory")
	}
}
