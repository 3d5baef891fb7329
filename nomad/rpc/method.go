package rpc

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// Rule is the kind of callers that may use a method. NewServer refuses the zero Rule.
type Rule uint8

// The kinds of callers.
const (
	// Anonymous admits every caller and ignores invalid tokens.
	Anonymous Rule = 1
	// Token admits callers without a token or with a valid one, if they have the rights that
	// the Check of the method requires.
	Token Rule = 2
	// NodeOnly admits clients that send a node identity or a node's secret ID.
	NodeOnly Rule = 3
	// NodeRegister admits clients that register: without a token, or with a node's secret ID, a
	// node identity (even an expired one) or an introduction token.
	NodeRegister Rule = 4
	// NodeStatus admits the same callers as NodeRegister, but no expired tokens.
	NodeStatus Rule = 5
	// ServerOnly admits servers.
	ServerOnly Rule = 6
	// Management admits callers with all rights.
	Management Rule = 7
	// ServerOrCertificate admits the callers of ServerOnly. At the server that answers, it also
	// admits callers with the TLS certificate of a server of the region. Servers of Nomad 2.0
	// authenticate only that way.
	ServerOrCertificate Rule = 8
)

var ruleNames = map[Rule]string{Anonymous: "anonymous", Token: "token", NodeOnly: "node", NodeRegister: "node register",
	NodeStatus: "node status", ServerOnly: "server", Management: "management", ServerOrCertificate: "server or certificate"}

// String returns the name of the rule.
func (r Rule) String() string { return ruleNames[r] }

// ofServers reports whether the rule admits servers only.
func (r Rule) ofServers() bool { return r == ServerOnly || r == ServerOrCertificate }

// Where is the server that answers a method.
type Where uint8

const (
	// Here is the server that received the call. It never forwards.
	Here Where = 1
	// Leader is the leader of the request's region. A read that allows stale answers goes to
	// the nearest server of the region.
	Leader Where = 2
	// Region is any server of the request's region.
	Region Where = 3
)

// Request is the transport's view of a request. Types that embed nomad.QueryOptions or
// nomad.WriteRequest implement it.
type Request interface {
	Envelope() message.Envelope
	MarkForwarded()
}

// ServerCall is a request between servers, or of a server to a node. Its token is that of the calling server.
type ServerCall interface {
	Request
	Caller() *message.NodeCall
}

// Call is one running call, as seen by its handler.
type Call struct {
	// Method is the method's name.
	Method string
	// Identity is the caller; never nil.
	Identity *rbac.AuthenticatedIdentity
	// Access holds the caller's rights under the rules Token and Management; never nil.
	Access *Access
	// Conn is the connection of the call, nil for in-process calls.
	Conn *Conn
	// Expired means that the token has expired (NodeRegister only).
	Expired bool
	// Forwarded means that another server forwarded the call.
	Forwarded bool

	rule    Rule
	refused error                                // the authentication error
	renew   func(context.Context) (*Call, error) // for streams
}

// ByCertificate reports whether another agent made the call and only its TLS certificate proves
// that it is a server.
func (c *Call) ByCertificate() bool {
	return c.rule == ServerOrCertificate && c.Conn != nil && c.Identity.Claims == nil
}

// Renewed authenticates the caller of a stream again and returns a new Call. It returns
// apierror.ErrPermissionDenied if the caller may no longer make the call.
func (c *Call) Renewed(ctx context.Context) (*Call, error) {
	now, err := c.renew(ctx)
	switch {
	case err != nil:
		return nil, err
	case now == nil:
		return nil, fmt.Errorf("%s: the token cannot be verified at the moment", c.Method)
	}
	return now, nil
}

// Method is one row of a method table. Handle and HandleStream create rows.
type Method struct {
	Name  string
	Rule  Rule
	Where Where
	// Check is the access check of a method with the rule Token. Methods with other rules have
	// none.
	Check Check
	// Stream marks a streaming method.
	Stream bool
	// Home selects the requests that the authoritative region answers, whatever region they
	// name. Nil selects none.
	Home func(Request) bool

	requires func() error // must return nil before the handler runs; nil for no condition
	request  func() Request
	takes    func(Request) bool    // reports whether the request has the type of the method
	clone    func(Request) Request // a shallow copy
	response func() any
	call     func(ctx context.Context, c *Call, req Request) (any, error)
	assign   func(dst, src any) error
	serve    func(ctx context.Context, c *Call, req Request, s *Stream) error
	failure  func(*message.RpcError) any
	size     wire.Footprint // of a request
}

// Handle returns the row of a method with request type Req and reply type Resp. The handler
// must not write to the request of an in-process caller.
func Handle[Req, Resp any, P interface {
	*Req
	Request
}](name string, rule Rule, where Where, fn func(ctx context.Context, c *Call, req *Req) (*Resp, error)) Method {
	m := row[Req, P](name, rule, where)
	m.response = func() any { return new(Resp) }
	m.call = func(ctx context.Context, c *Call, req Request) (any, error) {
		out, err := fn(ctx, c, req.(P))
		if out == nil {
			return nil, err
		}
		return out, err
	}
	m.assign = func(dst, src any) error {
		to, ok := dst.(*Resp)
		if !ok {
			return fmt.Errorf("rpc: %s answers with a %T, not a %T", name, to, dst)
		}
		*to = *src.(*Resp)
		return nil
	}
	return m
}

// row returns a row for requests of type Req, without a handler.
func row[Req any, P interface {
	*Req
	Request
}](name string, rule Rule, where Where) Method {
	return Method{
		Name: name, Rule: rule, Where: where,
		request: func() Request { return P(new(Req)) },
		takes: func(req Request) bool {
			_, ok := req.(P)
			return ok
		},
		clone: func(req Request) Request {
			next := *req.(P)
			return P(&next)
		},
	}
}

// HandleStream returns the row of a streaming method. The request after the handshake is read,
// authenticated and routed before fn runs. The caller receives an error of fn as a
// message.StreamErrWrapper. The stream is closed when fn returns.
func HandleStream[Req any, P interface {
	*Req
	Request
}](name string, rule Rule, where Where, fn func(ctx context.Context, c *Call, req *Req, s *Stream) error) Method {
	m := row[Req, P](name, rule, where)
	m.Stream = true
	m.serve = func(ctx context.Context, c *Call, req Request, s *Stream) error { return fn(ctx, c, req.(P), s) }
	return m
}

// FailingAs returns the row with another format for errors: the caller receives the result of
// reply instead of a message.StreamErrWrapper.
func (m Method) FailingAs(reply func(*message.RpcError) any) Method {
	m.failure = reply
	return m
}

// InAuthoritativeRegion returns the row with a condition for the authoritative region. If it is true, that
// region answers, whatever region the request names. The first server that receives the request
// decides.
func (m Method) InAuthoritativeRegion(when func(Request) bool) Method {
	m.Home = when
	return m
}

// Requires returns the row with a precondition. If check returns an error, the call fails with
// it. The server that runs the handler calls check after the caller was authorized.
func (m Method) Requires(check func() error) Method {
	m.requires = check
	return m
}

// NewRequest returns an empty request of the method.
func (m Method) NewRequest() Request { return m.request() }

// NewResponse returns an empty reply of the method, or nil for a streaming method.
func (m Method) NewResponse() any {
	if m.response == nil {
		return nil
	}
	return m.response()
}

// Refuse returns the row of a method that fails with err for every caller that may call it.
func Refuse(name string, rule Rule, err error) Method {
	m := row[message.GenericRequest](name, rule, Here)
	m.takes = func(Request) bool { return true }
	m.call = func(context.Context, *Call, Request) (any, error) { return nil, err }
	return m
}
