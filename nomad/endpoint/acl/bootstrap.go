package acl

import (
	"context"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Bootstrap creates the first management token. It succeeds once. To repeat it, an
// operator writes the index of the last bootstrap to a file next to the leader's log.
func (s *Service) Bootstrap(
	ctx context.Context, _ *rpc.Call, req *message.ACLTokenBootstrapRequest,
) (*message.ACLTokenUpsertResponse, error) {
	if req.BootstrapSecret != "" && !nomad.IsUUID(req.BootstrapSecret) {
		return nil, apierror.Errorf(400, "invalid acl token") // tools match this text
	}
	entry := &message.ACLTokenBootstrapRequest{Token: &rbac.Token{SecretID: req.BootstrapSecret, Name: "Bootstrap Token",
		Type: rbac.ManagementToken, Global: true}}
	if index, done := s.Snapshot().ACLBootstrapped(); done {
		reset, err := s.cfg.BootstrapReset()
		switch {
		case err != nil:
			return nil, apierror.Errorf(400, "%s (reset index: %d): %s", apierror.ErrACLBootstrapped, index, err)
		case reset == 0:
			return nil, apierror.Errorf(400, "%s (reset index: %d)", apierror.ErrACLBootstrapped, index)
		case reset != index:
			return nil, apierror.Errorf(400, "%s (specified %d, reset index: %d)", apierror.ErrACLBootstrapReset, reset, index)
		}
		entry.ResetIndex = reset
	}
	entry.Token.Canonicalize(s.Now())
	entry.Token.SetHash()
	out, err := s.writeTokens(ctx, message.ACLTokenBootstrapRequestType, entry, []*rbac.Token{entry.Token})
	if err == nil {
		s.Log.Info("created the first management token", "accessor", entry.Token.AccessorID, "again", entry.ResetIndex > 0)
	}
	return out, err
}
