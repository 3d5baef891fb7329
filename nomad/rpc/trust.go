package rpc

import (
	"context"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// TrustPeer is the Authenticator of a client agent. It is called only over sessions that the
// agent itself opened to servers that it trusts.
type TrustPeer struct{}

// Authenticate admits every caller.
func (TrustPeer) Authenticate(_ context.Context, _ string, _ Rule, conn *Conn) (*rbac.AuthenticatedIdentity, error) {
	id := &rbac.AuthenticatedIdentity{}
	if conn != nil {
		id.RemoteIP = conn.RemoteIP()
	}
	return id, nil
}

// Access allows everything: the servers have checked the rights.
func (TrustPeer) Access(context.Context, *rbac.AuthenticatedIdentity) (*Access, error) {
	return &Access{Rights: everything, Disabled: true}, nil
}

var everything = acl.New(true)
