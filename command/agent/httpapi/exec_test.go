package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// node is a node with the behaviour of serve, and the servers in front of it.
type execNode struct {
	web.RPC
	any   bool // also serves other streams
	serve func(req *message.AllocExecRequest, st *rpc.Stream) error
}

func (n execNode) Stream(_ context.Context, method string) (*rpc.Stream, error) {
	if method != "Allocations.Exec" && !n.any {
		return nil, apierror.ErrUnknownMethod
	}
	near, far := rpc.Pipe()
	go func() {
		defer far.Close()
		var req message.AllocExecRequest
		if far.Decode(&req) != nil {
			return
		}
		if err := n.serve(&req, far); err != nil {
			far.SendError(err) //nolint:errcheck // the caller may be gone
		}
	}()
	return near, nil
}

func sendPayload(st *rpc.Stream, text string) error {
	return st.Encode(&message.StreamErrWrapper{Payload: []byte(text)})
}

// execServer returns an agent in front of a node.
func execServer(t *testing.T, serve func(req *message.AllocExecRequest, st *rpc.Stream) error) (*Server, *httptest.Server) {
	t.Helper()
	s := newTestServer(t, 0)
	s = changed(s, func(c *Config) { c.RPC = execNode{RPC: c.RPC, serve: serve} })
	web := httptest.NewServer(web.Compress(s))
	t.Cleanup(web.Close)
	return s, web
}

const execPath = "/v1/client/allocation/8ba85cef-22b5-4e1d-9d8c-000000000001/exec"

// dial opens a websocket with the command and further parameters.
func dial(t *testing.T, web *httptest.Server, more string, h http.Header) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, web.URL+execPath+"?task=web&command="+url.QueryEscape(`["a","b"]`)+more,
		&websocket.DialOptions{HTTPHeader: h})
	if err == nil {
		t.Cleanup(func() { ws.CloseNow() })
	}
	return ws, resp, err
}

// receive returns the next message, or the close error of the socket.
func receive(t *testing.T, ws *websocket.Conn) (string, websocket.CloseError) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, text, err := ws.Read(ctx)
	var end websocket.CloseError
	if err != nil && !errors.As(err, &end) {
		t.Fatal(err)
	}
	return string(text), end
}

func sendText(t *testing.T, ws *websocket.Conn, text string) {
	t.Helper()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestExecSession(t *testing.T) {
	got := make(chan message.ExecInput, 10)
	asked := make(chan message.AllocExecRequest, 1)
	_, web := execServer(t, func(req *message.AllocExecRequest, st *rpc.Stream) error {
		asked <- *req
		for range 5 {
			var in message.ExecInput
			if err := st.Decode(&in); err != nil {
				return err
			}
			got <- in
		}
		for _, text := range []string{`{"stdout":{"data":"aGk="}}`, `{}`, `{"stdout":{"close":true}}`,
			`{"exited":true,"result":{"exit_code":7}}`} {
			if err := sendPayload(st, text); err != nil {
				return err
			}
		}
		return nil
	})
	ws, _, err := dial(t, web, "&tty=true", http.Header{"X-Nomad-Token": {"mine"}})
	if err != nil {
		t.Fatal(err)
	}
	if req := <-asked; strings.Join(req.Cmd, " ") != "a b" || req.Task != "web" || !req.Tty || req.AuthToken != "mine" ||
		!strings.HasPrefix(req.AllocID, "8ba85cef") {
		t.Errorf("the node was asked %+v", req)
	}
	for _, text := range []string{`{"stdin":{"data":"aGVsbG8="}}`, `{"tty_size":{"height":24,"width":80}}`, `{}`, `{"stdin":{"close":true}}`,
		`{"unknown":1}`} {
		sendText(t, ws, text)
	}
	in := []message.ExecInput{<-got, <-got, <-got, <-got, <-got}
	text, err := json.Marshal(in)
	if want := `[{"stdin":{"data":"aGVsbG8="}},{"tty_size":{"height":24,"width":80}},{},{"stdin":{"close":true}},{}]`; string(text) != want ||
		err != nil {
		t.Errorf("the node heard %s, want %s", text, want)
	}
	for _, want := range []string{`{"stdout":{"data":"aGk="}}`, `{}`, `{"stdout":{"close":true}}`,
		`{"exited":true,"result":{"exit_code":7}}`} {
		if text, end := receive(t, ws); text != want {
			t.Errorf("heard %q, %v; want %q", text, end, want)
		}
	}
	if text, end := receive(t, ws); end.Code != websocket.StatusNormalClosure {
		t.Errorf("after the exit: %q, %v", text, end)
	}
}

// An error after the upgrade closes the socket with a code and the reason.
func TestExecCloses(t *testing.T) {
	long := strings.Repeat("é", 200)
	for name, c := range map[string]struct {
		serve func(*rpc.Stream) error
		say   string
		code  websocket.StatusCode
		want  string
	}{
		"denied":     {func(*rpc.Stream) error { return apierror.ErrPermissionDenied }, "", 1008, "Permission denied"},
		"not found":  {func(*rpc.Stream) error { return apierror.UnknownAlloc("8ba") }, "", 1008, `Unknown allocation "8ba"`},
		"fault":      {func(*rpc.Stream) error { return errors.New("broken") }, "", 1011, "broken"},
		"long":       {func(*rpc.Stream) error { return errors.New(long) }, "", 1011, strings.Repeat("é", 60) + "..."},
		"cut off":    {func(*rpc.Stream) error { return nil }, "", 1011, "session ended before the command"},
		"no JSON":    {func(st *rpc.Stream) error { return st.Decode(&message.ExecInput{}) }, "stdin", 1008, "invalid JSON"},
		"wrong JSON": {func(st *rpc.Stream) error { return st.Decode(&message.ExecInput{}) }, `{"stdin":"x"}`, 1008, "invalid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			_, web := execServer(t, func(_ *message.AllocExecRequest, st *rpc.Stream) error { return c.serve(st) })
			ws, _, err := dial(t, web, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.say != "" {
				sendText(t, ws, c.say)
			}
			text, end := receive(t, ws)
			if end.Code != c.code || !strings.Contains(end.Reason, c.want) || text != "" {
				t.Errorf("closed with %v (%q heard), want %d %q", end, text, c.code, c.want)
			}
		})
	}
}

// A message that is too large ends the session before it is complete.
func TestExecHugeMessage(t *testing.T) {
	ended := make(chan error, 1)
	_, web := execServer(t, func(_ *message.AllocExecRequest, st *rpc.Stream) error {
		ended <- st.Decode(&message.ExecInput{})
		return nil
	})
	ws, _, err := dial(t, web, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ws.Write(t.Context(), websocket.MessageText,
		[]byte(`{"stdin":{"data":"`+strings.Repeat("aaaa", 1<<20)+`"}}`)) //nolint:errcheck // it is cut off
	if err := <-ended; err == nil {
		t.Error("the node got the message")
	}
	if text, _, err := ws.Read(t.Context()); err == nil {
		t.Errorf("the session goes on: %v", text)
	}
}

// An error in the request is reported in the response.
func TestExecRequestsThatAreNone(t *testing.T) {
	s, web := execServer(t, func(*message.AllocExecRequest, *rpc.Stream) error { return nil })
	for path, want := range map[string]int{
		"?task=web&command=%5B%22a%22%5D":              500, // no upgrade
		"?task=web":                                    400,
		"?task=web&command=%5B%5D":                     400,
		"?task=web&command=secret-canary":              400,
		"?task=web&command=%5B%22a%22%5D&tty=7":        400,
		"?command=%5B%22a%22%5D&ws_handshake=x&task=w": 400,
	} {
		w := do(s, "GET", execPath+path, "")
		if w.Code != want || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("GET %s = %d %q, want %d", path, w.Code, w.Body, want)
		}
	}
	// A page of another origin must not run programs with the credentials of a browser.
	if _, resp, err := dial(t, web, "", http.Header{"Origin": {"https://evil.example"}}); err == nil || resp == nil || resp.StatusCode != 403 {
		t.Errorf("from another origin: %v, %v", resp, err)
	}
	// A session ends after its request was answered.
	testpace.Until(t, "the end of the session", func() bool { return s.execs.Load() == 0 })
}

// Exec sessions and forwarded connections have a limit each: one does not exhaust the other.
func TestSessionLimits(t *testing.T) {
	s, web := execServer(t, func(*message.AllocExecRequest, *rpc.Stream) error { return nil })
	forward := web.URL + strings.TrimSuffix(execPath, "exec") + "port-forward?port=http"
	for _, c := range []struct {
		execs, forwards           int64
		wantExec, wantPortForward int
	}{
		{maxSessions - 1, maxSessions - 1, 101, 101},
		{maxSessions, 0, 429, 101},
		{0, maxSessions, 101, 429},
	} {
		s.execs.Store(c.execs)
		s.forwards.Store(c.forwards)
		for address, want := range map[string]int{web.URL + execPath + "?task=web&command=" + url.QueryEscape(`["a"]`): c.wantExec,
			forward: c.wantPortForward} {
			ws, resp, err := websocket.Dial(t.Context(), address, nil)
			if err == nil {
				ws.CloseNow()
			}
			if resp == nil || resp.StatusCode != want {
				t.Errorf("with %d exec sessions and %d forwarded connections, %s answers %v, %v; want %d", c.execs, c.forwards, address, resp, err,
					want)
			}
		}
		testpace.Until(t, "the end of the sessions", func() bool { return s.execs.Load() == c.execs && s.forwards.Load() == c.forwards })
	}
}

func TestExecHandshake(t *testing.T) {
	asked := make(chan string, 1)
	_, web := execServer(t, func(req *message.AllocExecRequest, st *rpc.Stream) error {
		asked <- req.AuthToken
		return sendPayload(st, `{"exited":true,"result":{}}`)
	})
	for name, c := range map[string]struct {
		header, hello, want string
	}{
		"token":           {"", `{"version":1,"auth_token":"secret"}`, ""},
		"none":            {"", `{"version":1}`, ""},
		"same":            {"secret", `{"version":1,"auth_token":"secret"}`, ""},
		"another":         {"mine", `{"version":1,"auth_token":"secret"}`, "differs from the token in the request header"},
		"another version": {"", `{"version":2,"auth_token":"secret"}`, "the first message must be"},
		"no handshake":    {"", `{"stdin":{"data":"aGVsbG8="}}`, "the first message must be"},
		"no JSON":         {"", `secret`, "the first message must be"},
	} {
		t.Run(name, func(t *testing.T) {
			ws, _, err := dial(t, web, "&ws_handshake=true", http.Header{"X-Nomad-Token": {c.header}})
			if err != nil {
				t.Fatal(err)
			}
			sendText(t, ws, c.hello)
			text, end := receive(t, ws)
			if c.want == "" {
				want := "secret"
				if name == "none" {
					want = ""
				}
				if token := <-asked; text == "" || token != want {
					t.Errorf("heard %q, %v, with the token %q", text, end, token)
				}
				return
			}
			if end.Code != 1008 || !strings.Contains(end.Reason, c.want) || strings.Contains(end.Reason, "secret") {
				t.Errorf("closed with %v, want 1008 %q", end, c.want)
			}
		})
	}
}

// missed reports whether a session ended because its caller was silent.
func missed(err error) bool { return apierror.HTTPStatus(err) == http.StatusRequestTimeout }

// An idle session is kept open with pings. A caller that does not respond is disconnected.
func TestExecKeepsIdleSessions(t *testing.T) {
	left := make(chan error, 1)
	s, _ := execServer(t, func(_ *message.AllocExecRequest, st *rpc.Stream) error {
		left <- st.Decode(&message.ExecInput{})
		return nil
	})
	for name, answers := range map[string]bool{"answering": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			var err error
			for range 5 { // on a busy machine an answer may be late; not each time
				err = idleSession(t, s, answers)
				<-left
				if !answers || !missed(err) {
					break
				}
			}
			if answers && !errors.Is(err, errLeft) {
				t.Errorf("an idle session, or one whose caller left, ended: %v", err)
			}
			if !answers && !missed(err) {
				t.Errorf("a silent caller: %v", err)
			}
		})
	}
}

// patientServer serves a session with a time limit for silent callers, and returns how it ended.
func patientServer(t *testing.T, s *Server, most time.Duration) (web *httptest.Server, over <-chan error) {
	t.Helper()
	ended := make(chan error, 1)
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := newExecSession(s.cfg.RPC)
		x.every, x.most = 20*time.Millisecond, most
		ws, err := websocket.Accept(w, req, &websocket.AcceptOptions{OnPongReceived: x.pong})
		if err != nil {
			ended <- err
			return
		}
		x.ws = ws
		err = x.run(req.Context(), execMethod, &message.AllocExecRequest{})
		ended <- err
		x.close(err)
	}))
	t.Cleanup(web.Close)
	return web, ended
}

// idleSession runs a session without messages, and returns how it ended. A session with responses
// is closed after three times the time limit of a silent one.
func idleSession(t *testing.T, s *Server, answers bool) error {
	t.Helper()
	web, over := patientServer(t, s, 200*time.Millisecond)
	pings := make(chan struct{}, 100)
	ws, _, err := websocket.Dial(t.Context(), web.URL, &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool {
		pings <- struct{}{}
		return answers
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	reading := ws.CloseRead(t.Context())
	if !answers {
		return <-over
	}
	for range 30 {
		select {
		case <-pings:
		case err := <-over:
			return err
		case <-reading.Done():
			if err := <-over; !errors.Is(err, errLeft) {
				return err
			}
			t.Fatal("an idle session was cut off")
		}
	}
	ws.CloseNow()
	return <-over
}

// A caller whose messages are not read is not treated as silent. Its disconnect is detected.
func TestExecBlockedCaller(t *testing.T) {
	var err error
	for range 5 { // a caller that has not come to say anything yet is silent
		if err = blockedSession(t); !missed(err) {
			break
		}
	}
	if !errors.Is(err, errLeft) {
		t.Errorf("run() = %v, want that the caller disconnected", err)
	}
}

// blockedSession runs a session whose caller sends more than is read, and then disconnects. It
// returns how the session ended.
func blockedSession(t *testing.T) error {
	t.Helper()
	release := make(chan struct{})
	defer close(release)
	s, _ := execServer(t, func(_ *message.AllocExecRequest, st *rpc.Stream) error {
		<-release
		return nil
	})
	web, over := patientServer(t, s, 400*time.Millisecond)
	ws, _, err := websocket.Dial(t.Context(), web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.CloseRead(t.Context())
	full, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	text := []byte(`{"stdin":{"data":"` + strings.Repeat("aaaa", 10_000) + `"}}`)
	for ws.Write(full, websocket.MessageText, text) == nil { // until nothing more is taken; the socket is closed then
	}
	return <-over
}

// A session is recorded at its start, when its token arrives later, and at its end. The record has
// the task, but not the command or the data.
func TestExecIsAudited(t *testing.T) {
	s, events := audited(t, true)
	serve := func(req *message.AllocExecRequest, st *rpc.Stream) error {
		if req.AuthToken != "mine" {
			return apierror.ErrPermissionDenied
		}
		return errors.Join(sendPayload(st, `{"stdout":{"data":"Y2FuYXJ5"}}`), sendPayload(st, `{"exited":true,"result":{}}`))
	}
	s = changed(s, func(c *Config) { c.RPC = execNode{RPC: c.RPC, serve: serve} })
	over := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.ServeHTTP(w, req)
		over <- struct{}{}
	}))
	defer web.Close()
	for name, c := range map[string]struct {
		header, hello string
		stages        []string
		kinds         []string
		status        int
	}{
		"begun with its token": {"mine", "", []string{"Received", "Complete"}, []string{"workload", "workload"}, 101},
		"token comes late":     {"", "mine", []string{"Received", "Received", "Complete"}, []string{"anonymous", "workload", "workload"}, 101},
		"refused":              {"", "", []string{"Received", "Complete"}, []string{"anonymous", "anonymous"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			more, h := "", http.Header{}
			if c.header != "" {
				h.Set("X-Nomad-Token", c.header)
			}
			if c.hello != "" {
				more = "&ws_handshake=true"
			}
			ws, _, err := dial(t, web, more, h)
			if err != nil {
				t.Fatal(err)
			}
			if c.hello != "" {
				sendText(t, ws, `{"version":1,"auth_token":"`+c.hello+`"}`)
			}
			for end := (websocket.CloseError{}); end.Code == 0; {
				_, end = receive(t, ws)
			}
			<-over
			got := events()
			if len(got) != len(c.stages) {
				t.Fatalf("%d events, want %v", len(got), c.stages)
			}
			for i, e := range got {
				p := e.Payload
				if string(p.Stage) != "Operation"+c.stages[i] || p.Auth.Kind != c.kinds[i] || p.Request.ID != got[0].Payload.Request.ID ||
					p.Request.Endpoint != execPath || p.Request.Object != "web" {
					t.Errorf("event %d: %+v", i, p)
				}
			}
			if last := got[len(got)-1].Payload.Response; last == nil || last.Status != c.status {
				t.Errorf("it ended as %+v, want %d", last, c.status)
			}
		})
	}
}

// Sessions that end in different ways leave no goroutine.
func TestExecLeavesNothing(t *testing.T) {
	s, web := execServer(t, func(req *message.AllocExecRequest, st *rpc.Stream) error {
		var in message.ExecInput
		if err := st.Decode(&in); err != nil {
			return nil
		}
		if in.TtySize != nil {
			return apierror.ErrPermissionDenied
		}
		return sendPayload(st, `{"exited":true,"result":{}}`)
	})
	run := func(n int) {
		for i := range n {
			ws, _, err := dial(t, web, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			switch i % 4 {
			case 0:
				sendText(t, ws, `{}`)
				receive(t, ws)
			case 1:
				sendText(t, ws, `{"tty_size":{"height":1,"width":1}}`)
				receive(t, ws)
			case 2:
				sendText(t, ws, `no JSON`)
				receive(t, ws)
			}
			ws.CloseNow()
		}
	}
	settled := func(most int) (n int) {
		testpace.Until(t, "the end of the sessions and their goroutines", func() bool {
			n = runtime.NumGoroutine()
			return n <= most && s.execs.Load() == 0
		})
		return n
	}
	run(4)
	before := settled(0x7fffffff)
	run(400)
	settled(before)
}
