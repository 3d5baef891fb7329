package rpc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// Rule says what kind of caller may use a method. The zero Rule is refused by
// NewServer.
type Rule uint8

// The kinds of callers (compat/identity.md section 5).
const (
	// Anonymous admits everybody; a bad token is ignored.
	Anonymous Rule = 1
	// Token admits callers whose token, if any, is good, and who have what the Check of
	// the method asks for.
	Token Rule = 2
	// NodeOnly admits clients: a node identity or a node's secret ID.
	NodeOnly Rule = 3
	// NodeRegister admits what may register a node: nothing, a node's secret ID,
	// a node identity even after its time, an introduction token.
	NodeRegister Rule = 4
	// NodeStatus admits what NodeRegister does, but no token after its time.
	NodeStatus Rule = 5
	// ServerOnly admits servers.
	ServerOnly Rule = 6
	// Management admits callers with every right.
	Management Rule = 7
	// ServerOrCertificate admits the callers of ServerOnly. At the server that answers it also admits
	// callers whose TLS certificate is that of a server of the region, which is the only proof that
	// servers of Nomad 2.0 have.
	ServerOrCertificate Rule = 8
)

var ruleNames = map[Rule]string{Anonymous: "anonymous", Token: "token", NodeOnly: "node", NodeRegister: "node register",
	NodeStatus: "node status", ServerOnly: "server", Management: "management", ServerOrCertificate: "server or certificate"}

// String names the rule.
func (r Rule) String() string { return ruleNames[r] }

// ofServers reports whether the rule admits servers only.
func (r Rule) ofServers() bool { return r == ServerOnly || r == ServerOrCertificate }

// Where says which server answers a method.
type Where uint8

const (
	// Here never forwards.
	Here Where = 1
	// Leader goes to the leader of the request's region; a read that allows
	// stale answers stays in the region's nearest server.
	Leader Where = 2
	// Region goes to any server of the request's region.
	Region Where = 3
)

// Request is what the transport needs of every request: all that embed
// nomad.QueryOptions or nomad.WriteRequest have it.
type Request interface {
	Envelope() nomad.Envelope
	MarkForwarded()
}

// Call is one running call, as its handler sees it.
type Call struct {
	// Method is the name of the row.
	Method string
	// Identity is who calls; never nil.
	Identity *acls.AuthenticatedIdentity
	// Access is what the caller may do, for the rules Token and Management; never nil.
	Access *Access
	// Conn is the connection that the call came over, nil in this process.
	Conn *Conn
	// Expired says that the token's time is over (NodeRegister only).
	Expired bool
	// Forwarded says that another server passed the call on.
	Forwarded bool

	rule    Rule
	refused error                                // what is wrong with the token
	renew   func(context.Context) (*Call, error) // of a stream
}

// ByCertificate reports whether another agent made the call and its TLS certificate is the only proof
// that it is a server.
func (c *Call) ByCertificate() bool {
	return c.rule == ServerOrCertificate && c.Conn != nil && c.Identity.Claims == nil
}

// Renewed returns a streaming call as it would be begun now. The error is a
// nomad.ErrPermissionDenied for who may no longer make it.
func (c *Call) Renewed(ctx context.Context) (*Call, error) {
	now, err := c.renew(ctx)
	switch {
	case err != nil:
		return nil, err
	case now == nil:
		return nil, fmt.Errorf("%s: nobody can tell now whether the token is still good", c.Method)
	}
	return now, nil
}

// Method is one row of a table of methods. Handle and HandleStream make it.
type Method struct {
	Name  string
	Rule  Rule
	Where Where
	// Check is what a method with the rule Token asks of its callers; no other has one.
	Check Check
	// Stream says that the method is a streaming one.
	Stream bool
	// Home says which requests the authoritative region answers, whichever region they
	// name; nil says none.
	Home func(Request) bool

	requires func() error // must return nil before the handler runs; nil for no condition
	request  func() Request
	response func() any
	call     func(ctx context.Context, c *Call, req Request) (any, error)
	assign   func(dst, src any) error
	serve    func(ctx context.Context, c *Call, req Request, s *Stream) error
	failure  func(*nomad.RpcError) any
	size     footprint // of a request
}

// Handle makes the row of a method that takes a Req and answers with a Resp.
// The handler never writes to the request of an in-process caller.
func Handle[Req, Resp any, P interface {
	*Req
	Request
}](name string, rule Rule, where Where, fn func(ctx context.Context, c *Call, req *Req) (*Resp, error)) Method {
	return Method{
		Name: name, Rule: rule, Where: where,
		request:  func() Request { return P(new(Req)) },
		response: func() any { return new(Resp) },
		call: func(ctx context.Context, c *Call, req Request) (any, error) {
			in, ok := req.(P)
			if !ok {
				return nil, fmt.Errorf("rpc: %s takes a %T, not a %T", name, in, req)
			}
			out, err := fn(ctx, c, in)
			if out == nil {
				return nil, err
			}
			return out, err
		},
		assign: func(dst, src any) error {
			to, ok := dst.(*Resp)
			if !ok {
				return fmt.Errorf("rpc: %s answers with a %T, not a %T", name, to, dst)
			}
			*to = *src.(*Resp)
			return nil
		},
	}
}

// HandleStream makes the row of a streaming method. The request that follows the
// handshake is read, authenticated and routed before fn runs. An error that fn
// returns goes to the caller as a nomad.StreamErrWrapper; the stream is closed
// when fn returns.
func HandleStream[Req any, P interface {
	*Req
	Request
}](name string, rule Rule, where Where, fn func(ctx context.Context, c *Call, req *Req, s *Stream) error) Method {
	return Method{
		Name: name, Rule: rule, Where: where, Stream: true,
		request: func() Request { return P(new(Req)) },
		serve: func(ctx context.Context, c *Call, req Request, s *Stream) error {
			in, ok := req.(P)
			if !ok {
				return fmt.Errorf("rpc: %s takes a %T, not a %T", name, in, req)
			}
			return fn(ctx, c, in, s)
		},
	}
}

// FailingAs returns the row of a streaming method whose errors go to the caller as
// what reply makes of them, not as a nomad.StreamErrWrapper.
func (m Method) FailingAs(reply func(*nomad.RpcError) any) Method {
	m.failure = reply
	return m
}

// AtHome returns the row of a method whose requests the authoritative region answers
// when the condition holds, whichever region they name. The first server that a request
// comes to decides.
func (m Method) AtHome(when func(Request) bool) Method {
	m.Home = when
	return m
}

// Requires returns the row of a method whose calls fail with the error of check, if it
// returns one. The server that runs the handler calls it, after the caller was authorized.
func (m Method) Requires(check func() error) Method {
	m.requires = check
	return m
}

// available returns the error of what the method requires.
func (m Method) available() error {
	if m.requires == nil {
		return nil
	}
	return m.requires()
}

// NewRequest returns an empty request of the method.
func (m Method) NewRequest() Request { return m.request() }

// NewResponse returns an empty reply of the method, nil for a streaming one.
func (m Method) NewResponse() any {
	if m.response == nil {
		return nil
	}
	return m.response()
}

// Refuse makes the row of a method that fails with err for every caller that may call it.
func Refuse(name string, rule Rule, err error) Method {
	return Method{
		Name: name, Rule: rule, Where: Here,
		request: func() Request { return &nomad.GenericRequest{} },
		call:    func(context.Context, *Call, Request) (any, error) { return nil, err },
	}
}

// RefuseStream is Refuse for a streaming method.
func RefuseStream(name string, rule Rule, err error) Method {
	return Method{
		Name: name, Rule: rule, Where: Here, Stream: true,
		request: func() Request { return &nomad.GenericRequest{} },
		serve:   func(context.Context, *Call, Request, *Stream) error { return err },
	}
}
