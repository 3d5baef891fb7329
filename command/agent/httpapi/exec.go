package httpapi

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	execMethod    = "Allocations.Exec"
	forwardMethod = "Allocations.PortForward"
	// maxSessions bounds the sessions of each kind that this agent relays.
	maxSessions = 1024
	// handshakeWithin is the timeout for the token of a caller.
	handshakeWithin = 10 * time.Second
)

func (s *Server) execRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/client/allocation/:alloc_id/exec", Handle: s.allocExec},
		{Methods: "GET", Path: "/v1/client/allocation/:alloc_id/port-forward", Handle: s.allocPortForward},
		{Methods: "GET", Path: "/v1/job/:job_id/action", Handle: s.jobAction},
		{Methods: "GET", Path: "/v1/job/:job_id/actions", Handle: web.Read("Job.GetActions", jobActions,
			func(o *message.JobActionListResponse) (any, error) { return o.Actions, nil })},
	}
}

// allocExec connects a websocket to a command in a task.
func (s *Server) allocExec(r *web.Request) (any, error) {
	if r.IsDry() {
		_, err := r.RPC().Stream(r.Context(), execMethod)
		return nil, err
	}
	return connect(r, sessionKind{execMethod, acl.AllocExec, &s.execs, &s.pending}, execRequest)
}

// allocPortForward connects a websocket to a port of an allocation.
func (s *Server) allocPortForward(r *web.Request) (any, error) {
	if r.IsDry() {
		_, err := r.RPC().Stream(r.Context(), forwardMethod)
		return nil, err
	}
	return connect(r, sessionKind{forwardMethod, acl.AllocPortForward, &s.forwards, &s.pending}, forwardRequest)
}

// forwardRequest reads the request from the path and the query.
func forwardRequest(r *web.Request) (*message.AllocPortForwardRequest, error) {
	q := &message.AllocPortForwardRequest{AllocID: r.Param, Port: r.Query.Get("port")}
	if err := r.ReadOptions(&q.QueryOptions); err != nil {
		return nil, err
	}
	q.MinQueryIndex = 0 // not a blocking query
	if q.Port == "" {
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide a port: use ?port= with its label or number")
	}
	return q, nil
}

// session is the request of a streaming method.
type session interface{ Query() *message.QueryOptions }

// connect connects a websocket to the session that read returns. Errors of the request itself are
// returned before the upgrade. Later errors are the close code and the close reason of the socket.
func connect[Q session](r *web.Request, kind sessionKind, read func(*web.Request) (Q, error)) (any, error) {
	shakes, err := r.Flag("ws_handshake")
	if err != nil {
		return nil, err
	}
	q, err := read(r)
	if err != nil {
		if denied := r.Ask(web.Somewhere(kind.right)); denied != nil && !shakes { // with a handshake the token comes later
			return nil, denied
		}
		return nil, err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return nil, apierror.Errorf(http.StatusInternalServerError, "a session requires a websocket: the request has no upgrade header")
	}
	end := func() {}
	early := false // the token is in a header and valid: the session never counts as unauthenticated
	if !shakes {
		if early, _ = kind.authenticated(r, r.Token()); early { // an error is the close reason
			if end, err = kind.begin(); err != nil {
				return nil, err
			}
		}
	}
	defer func() { end() }()
	x := newExecSession(r.RPC())
	// Browsers let any page open a websocket, so the library checks Origin again.
	ws, err := websocket.Accept(r.Reply, r.Request,
		&websocket.AcceptOptions{OnPongReceived: x.pong, InsecureSkipVerify: r.FromTrustedOrigin()})
	if err != nil {
		r.NoteError(err.Error())
		return nil, web.ErrDone // Accept has written the reply
	}
	x.ws = ws
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if !early {
		end, err = kind.admit(ctx, handshake{x, r, q, shakes})
	}
	if err == nil {
		err = x.run(ctx, kind.method, q)
	}
	if err != nil && !errors.Is(err, errLeft) {
		r.NoteEnd(err)
	}
	x.close(err)
	return nil, web.ErrDone
}

// execRequest reads the request from the path and the query.
func execRequest(r *web.Request) (*message.AllocExecRequest, error) {
	q := &message.AllocExecRequest{AllocID: r.Param}
	if err := readSession(r, q); err != nil {
		return nil, err
	}
	text := r.Query.Get("command")
	if text == "" {
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide a command: use ?command= with a JSON list of strings")
	}
	if err := json.Unmarshal([]byte(text), &q.Cmd); err != nil {
		// The error is left out because the command can contain secrets.
		return nil, apierror.Errorf(http.StatusBadRequest, "The command is not a JSON list of strings")
	}
	if len(q.Cmd) == 0 {
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide a command: the list is empty")
	}
	return q, nil
}

// readSession reads the parameters that sessions of commands and of actions share.
func readSession(r *web.Request, q *message.AllocExecRequest) (err error) {
	if err := r.ReadOptions(&q.QueryOptions); err != nil {
		return err
	}
	q.MinQueryIndex = 0 // not a blocking query
	q.Task = r.Query.Get("task")
	q.Tty, err = r.Flag("tty")
	return err
}

// handshake reads the token of a caller that cannot set a header, such as a browser.
func (x *execSession) handshake(ctx context.Context, r *web.Request, q session) error {
	// A timer is used because the end of the context would close the socket without a reason.
	late := time.AfterFunc(handshakeWithin, func() { x.close(errNoHandshake) })
	defer late.Stop()
	_, text, err := x.ws.Read(ctx)
	if err != nil {
		return errNoHandshake
	}
	var hello struct {
		Version   int    `json:"version"`
		AuthToken string `json:"auth_token"`
	}
	if err := json.Unmarshal(text, &hello); err != nil || hello.Version != 1 {
		return apierror.Errorf(http.StatusBadRequest, `the first message must be {"version":1,"auth_token":"..."}`)
	}
	token := &q.Query().AuthToken
	if *token != "" && subtle.ConstantTimeCompare([]byte(*token), []byte(hello.AuthToken)) != 1 {
		return apierror.Errorf(http.StatusBadRequest, "the token of the handshake differs from the token in the request header")
	}
	*token = hello.AuthToken
	return r.NoteCaller(hello.AuthToken)
}

var errNoHandshake = apierror.Errorf(http.StatusBadRequest, `missing handshake message {"version":1,"auth_token":"..."}`)
