package audit

import (
	"cmp"
	"time"

	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// Type is the kind of an event.
type Type string

// The types of events.
const (
	// HTTP is a request to the HTTP API, on a port or on a task's socket.
	HTTP Type = "HTTPEvent"
	// RPC is a call that a server received over the network.
	RPC Type = "RPCEvent"
	// Identity is a signed token.
	Identity Type = "IdentityEvent"
)

// types lists all types.
var types = []Type{HTTP, RPC, Identity}

// Stage is the point in an operation at which an event is written.
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
	// Request describes the request.
	Request Request
	// Response is the result; nil at the stage OperationReceived.
	Response *Response
	// Issued describes the token of an Identity event.
	Issued *Issued
}

// Request describes a request.
type Request struct {
	// ID is the same in both events of an operation. If empty, a new ID is used.
	ID string
	// Operation is the HTTP method; read, write or stream for RPC; sign for Identity.
	Operation string
	// Endpoint is the path without the query, the name of the RPC, or the kind of token.
	Endpoint string
	// Object is the object of an RPC if the endpoint does not contain it: a variable's path.
	Object    string
	Namespace string
	// RemoteAddress is the peer address of the connection.
	RemoteAddress string
	UserAgent     string
	// Forwarded means that the caller claims to forward the call for another caller.
	Forwarded bool
}

// Response is the result of an operation.
type Response struct {
	// Status is the HTTP status, or the equivalent for an RPC.
	Status int
	// Error is the error that the caller received.
	Error string
}

// Issued describes a signed token, without any part of the token.
type Issued struct {
	// ID is the claim jti, KeyID the header kid.
	ID, KeyID string
	Subject   string
	Audience  []string
	// TTL is zero for a token that is valid as long as its workload.
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
	// KindInvalid is a caller with an invalid token.
	KindInvalid = "invalid"
	// KindUnknown is a caller whose token could not be verified.
	KindUnknown = "unknown"
)

// Auth describes a caller. Kind is the type of an ACL token, client or management, or one of
// the kinds above.
type Auth struct {
	// AccessorID identifies the credential: a token's accessor ID, the claim jti, or the ID of
	// a node that authenticated with its secret.
	AccessorID string
	Name       string
	Kind       string
	Policies   []string
	// Roles holds the names of the roles of a token.
	Roles []string
	// AllocID is the allocation of a workload.
	AllocID string
}

// AuthOf describes an authenticated caller.
func AuthOf(id *rbac.AuthenticatedIdentity) Auth {
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

// KindOf returns the kind of subject of a signed token.
func KindOf(c *idtoken.Claims) string {
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

func allocOf(c *idtoken.Claims) string {
	if c.WorkloadIdentityClaims == nil {
		return ""
	}
	return c.AllocationID
}

// Signed returns the event for a token that was signed with the key kid.
func Signed(c *idtoken.Claims, kid string) *Event {
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
