package audit

import (
	"cmp"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
)

// Type says what kind of thing an event is about.
type Type string

// The types of events.
const (
	// HTTP is a request of the HTTP API, on a port or on a task's socket.
	HTTP Type = "HTTPEvent"
	// RPC is a call that came to a server over the network.
	RPC Type = "RPCEvent"
	// Identity is a signed token.
	Identity Type = "IdentityEvent"
)

// Types are all of them.
var types = []Type{HTTP, RPC, Identity}

// Stage says when in the life of an operation an event is written.
type Stage string

// The stages of an operation.
const (
	Received Stage = "OperationReceived"
	Complete Stage = "OperationComplete"
)

var stages = []Stage{Received, Complete}

// Event is one line of the log.
type Event struct {
	Type  Type
	Stage Stage
	Auth  Auth
	// Request is what was asked.
	Request Request
	// Response is how it ended; nil before it did.
	Response *Response
	// Issued is the token of an Identity event.
	Issued *Issued
}

// Request is what was asked for.
type Request struct {
	// ID is the same in both events of an operation; empty gets one.
	ID string
	// Operation is the HTTP method; read, write or stream for RPC; sign.
	Operation string
	// Endpoint is the path without its query, the name of the RPC, or the kind of token.
	Endpoint string
	// Object is what an RPC is about, when that is not in the endpoint: a variable's path.
	Object    string
	Namespace string
	// RemoteAddress is who asked, as the connection says.
	RemoteAddress string
	UserAgent     string
	// Forwarded says that the caller claims to have passed the call on for another.
	Forwarded bool
}

// Response is how an operation ended.
type Response struct {
	// Status is the HTTP status, that an RPC would have too.
	Status int
	// Error is what the caller was told.
	Error string
}

// Issued says what a signed token is for. It holds nothing of the token itself.
type Issued struct {
	// ID is the claim jti, KeyID the header kid.
	ID, KeyID string
	Subject   string
	Audience  []string
	// TTL is zero for a token that lives as long as its workload.
	TTL     time.Duration
	AllocID string
}

// The kinds of callers.
const (
	KindAnonymous    = "anonymous"
	KindWorkload     = "workload"
	KindNode         = "node"
	KindServer       = "server"
	KindIntroduction = "introduction"
	// KindInvalid is who showed a token that is not good.
	KindInvalid = "invalid"
	// KindUnknown is whose token nobody could look at.
	KindUnknown = "unknown"
)

// Auth is who asked. Kind is the type of an access control token, client or
// management, or one of the kinds above.
type Auth struct {
	// AccessorID names the credential: the accessor of a token, the claim jti, the ID of
	// a node that showed its secret.
	AccessorID string
	Name       string
	Kind       string
	Policies   []string
	// Roles are the names of the roles of a token.
	Roles []string
	// AllocID is the allocation of a workload.
	AllocID string
}

// AuthOf describes whom the servers found behind a credential.
func AuthOf(id *acls.AuthenticatedIdentity) Auth {
	switch {
	case id == nil:
		return Auth{Kind: KindAnonymous}
	case id.Claims != nil:
		return Auth{AccessorID: id.Claims.ID, Name: id.Claims.Subject, Kind: KindOf(id.Claims), AllocID: allocOf(id.Claims)}
	case id.ClientID != "":
		return Auth{AccessorID: id.ClientID, Kind: KindNode}
	case id.ACLToken == nil:
		return Auth{Name: id.TLSName, Kind: KindAnonymous}
	}
	t := id.ACLToken
	kind := t.Type
	if t.AccessorID == KindAnonymous {
		kind = KindAnonymous
	}
	var roles []string
	for _, r := range t.Roles {
		roles = append(roles, cmp.Or(r.Name, r.ID))
	}
	return Auth{AccessorID: t.AccessorID, Name: t.Name, Kind: kind, Policies: t.Policies, Roles: roles}
}

// KindOf is the kind of who a signed token is for.
func KindOf(c *nomad.IdentityClaims) string {
	switch {
	case c.WorkloadIdentityClaims != nil:
		return KindWorkload
	case c.NodeIdentityClaims != nil:
		return KindNode
	case c.NodeIntroductionIdentityClaims != nil:
		return KindIntroduction
	case c.ServerIdentityClaims != nil:
		return KindServer
	}
	return KindUnknown
}

func allocOf(c *nomad.IdentityClaims) string {
	if c.WorkloadIdentityClaims == nil {
		return ""
	}
	return c.AllocationID
}

// Signed is the event of a token that was signed with the key kid.
func Signed(c *nomad.IdentityClaims, kid string) *Event {
	e := &Event{Type: Identity, Stage: Complete, Auth: Auth{Kind: KindServer},
		Request:  Request{Operation: "sign", Endpoint: KindOf(c)},
		Response: &Response{Status: 200},
		Issued:   &Issued{ID: c.ID, KeyID: kid, Subject: c.Subject, Audience: c.Audience, AllocID: allocOf(c)}}
	if c.Expiry > 0 {
		e.Issued.TTL = time.Duration(c.Expiry-c.IssuedAt) * time.Second
	}
	if w := c.WorkloadIdentityClaims; w != nil {
		e.Request.Namespace = w.Namespace
	}
	return e
}
