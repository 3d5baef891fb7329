package rootkeys

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// List lists the metadata of the root keys.
func (s *Service) List(ctx context.Context, _ *rpc.Call,
	req *message.KeyringListRootKeyMetaRequest) (*message.KeyringListRootKeyMetaResponse, error) {
	return handler.ReadList(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.KeyringListRootKeyMetaResponse) error {
			out.Keys = []*rootkey.Meta{}
			for k := range snap.RootKeys(ws) {
				meta := k.Meta()
				meta.Closed = s.cfg.Keyring.Closed(k.KeyID)
				for range snap.VariablesByKey(nil, k.KeyID) {
					meta.Variables++
				}
				for range snap.CSIVolumesByKey(nil, k.KeyID) {
					meta.Volumes++
				}
				out.Keys = append(out.Keys, meta)
			}
			out.Index = snap.TableIndex(state.TableRootKeys)
			return nil
		})
}

// ListPublic returns the public keys that verify tokens.
func (s *Service) ListPublic(ctx context.Context, _ *rpc.Call, req *message.GenericRequest) (*message.KeyringListPublicResponse, error) {
	return handler.Read(ctx, s.Core, &req.QueryOptions,
		func(snap *state.Snapshot, ws memdb.WatchSet, out *message.KeyringListPublicResponse) error {
			published := map[string]bool{}
			for k := range snap.RootKeys(ws) {
				published[k.KeyID] = k.State != rootkey.Deprecated
			}
			out.PublicKeys = []*rootkey.PublicKey{}
			for _, k := range s.cfg.Keyring.PublicKeys() {
				if published[k.KeyID] {
					out.PublicKeys = append(out.PublicKeys, k)
				}
			}
			out.RotationThreshold = s.cfg.RotationThreshold
			out.Index = snap.TableIndex(state.TableRootKeys)
			return nil
		})
}

// GetConfig returns the OIDC discovery document. It is nil without an issuer.
func (s *Service) GetConfig(context.Context, *rpc.Call, *message.GenericRequest) (*message.KeyringGetConfigResponse, error) {
	return &message.KeyringGetConfigResponse{OIDCDiscovery: s.Issuer.Discovery()}, nil
}

// Delete deletes a root key that is not in use. With Force it deletes an inactive key
// that is in use.
func (s *Service) Delete(ctx context.Context, _ *rpc.Call,
	req *message.KeyringDeleteRootKeyRequest) (*message.KeyringDeleteRootKeyResponse, error) {
	if req.KeyID == "" {
		return nil, apierror.Errorf(400, "root key ID is required")
	}
	snap := s.Snapshot()
	key := snap.RootKey(nil, req.KeyID)
	out := &message.KeyringDeleteRootKeyResponse{}
	switch {
	case key == nil:
		return nil, apierror.Errorf(404, "root key %q does not exist", req.KeyID)
	case key.State == rootkey.Active:
		return nil, apierror.Errorf(400, "active root key cannot be deleted - call rotate first")
	case !req.Force && snap.RootKeyInUse(req.KeyID):
		return nil, apierror.Errorf(400, "root key in use, cannot delete")
	}
	index, err := s.Apply(ctx, message.WrappedRootKeysDeleteRequestType, &message.KeyringDeleteRootKeyRequest{KeyID: req.KeyID})
	if err != nil {
		return nil, err
	}
	s.cfg.Keyring.Remove(req.KeyID) // after the response, this server rejects its tokens
	out.Index = index
	return out, nil
}
