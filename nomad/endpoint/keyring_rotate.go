package endpoint

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// keyringRotate makes a new root key: one that signs at once or, with a time to
// publish, one that verifiers see before it signs.
func (s *Service) keyringRotate(ctx context.Context, _ *rpc.Call, req *nomad.KeyringRotateRootKeyRequest) (*nomad.KeyringRotateRootKeyResponse, error) {
	switch {
	case req.Full && req.PublishTime != 0:
		return nil, nomad.Errorf(400, "keyring cannot be prepublished and fully rotated at the same time")
	case req.PublishTime < 0:
		return nil, nomad.Errorf(400, "the time to publish a root key is negative")
	case req.Algorithm != "" && req.Algorithm != nomad.EncryptionAlgorithmAES256GCM:
		return nil, nomad.Errorf(400, "unknown algorithm %q: %s is the only one", req.Algorithm, nomad.EncryptionAlgorithmAES256GCM)
	case req.Full && s.snapshot().ForeignVariables():
		return nil, nomad.Errorf(501, "variables are not part of this version: those that were restored cannot be encrypted anew")
	}
	now := s.cfg.Now()
	key, err := s.cfg.Keyring.NewRootKey(ctx, now)
	if err != nil {
		return nil, err
	}
	if req.PublishTime != 0 {
		key.State, key.PublishTime = nomad.RootKeyStatePrepublished, req.PublishTime
	}
	index, err := s.apply(ctx, nomad.WrappedRootKeysUpsertRequestType, &nomad.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: key, Rekey: req.Full})
	if err != nil {
		return nil, err
	}
	s.log.Info("made a root key", "key", key.KeyID, "state", key.State)
	if err := s.rotateRSA(ctx); err != nil {
		return nil, err
	}
	if req.Full {
		s.cfg.Broker.Enqueue(nomad.NewCoreEval(nomad.CoreJobVariablesRekey, index, now))
	}
	out := &nomad.KeyringRotateRootKeyResponse{Key: key.Meta()}
	if stored := s.snapshot().RootKey(nil, key.KeyID); stored != nil {
		out.Key = stored.Meta()
	}
	out.Index = index
	return out, nil
}

// rotateRSA makes a new key that signs RS256 when jobs ask for that: it is as old as
// the active one, at most.
func (s *Service) rotateRSA(ctx context.Context) error {
	if !s.snapshot().WantsRSA() {
		return nil
	}
	return s.addRSAKey(ctx)
}

// needRSA makes sure that there is a key that signs RS256, when the job asks for
// that.
func (s *Service) needRSA(ctx context.Context, job *nomad.Job) error {
	if !job.WantsRSA() || s.snapshot().NewestRSAKey() != nil {
		return nil
	}
	return s.addRSAKey(ctx)
}

func (s *Service) addRSAKey(ctx context.Context) error {
	key, err := s.cfg.Keyring.NewRSAKey(ctx, s.cfg.Now())
	if err != nil {
		return err
	}
	_, err = s.apply(ctx, nomad.WrappedRootKeysUpsertRequestType, &nomad.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: key})
	if err != nil {
		return fmt.Errorf("write the key that signs RS256: %w", err)
	}
	s.log.Info("made a root key that signs RS256", "key", key.KeyID)
	return nil
}

// keyringUpdate changes the state of a root key, for the core job that lets
// published keys sign and ends rekeying. No material is ever taken from a request.
func (s *Service) keyringUpdate(ctx context.Context, _ *rpc.Call, req *nomad.KeyringUpdateRootKeyRequest) (*nomad.KeyringUpdateRootKeyResponse, error) {
	if req.RootKey == nil || req.RootKey.Meta == nil || req.RootKey.Meta.KeyID == "" {
		return nil, nomad.Errorf(400, "root key ID is required")
	}
	if len(req.RootKey.Key) > 0 || len(req.RootKey.RSAKey) > 0 {
		return nil, nomad.Errorf(400, "the material of a root key is not taken over RPC: it is in Raft, wrapped")
	}
	snap, meta := s.snapshot(), req.RootKey.Meta
	old := snap.RootKey(nil, meta.KeyID)
	if old == nil {
		return nil, nomad.Errorf(404, "root key %s does not exist", meta.KeyID)
	}
	if !mayBecome(old.State, meta.State) {
		return nil, nomad.Errorf(400, "root key %s is %s and cannot become %s", meta.KeyID, old.State, meta.State)
	}
	key := *old
	key.State, key.PublishTime = meta.State, 0
	index, err := s.apply(ctx, nomad.WrappedRootKeysUpsertRequestType, &nomad.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: &key, Rekey: req.Rekey})
	if err != nil {
		return nil, err
	}
	if key.State == nomad.RootKeyStateActive {
		if err := s.rotateRSA(ctx); err != nil {
			return nil, err
		}
	}
	out := &nomad.KeyringUpdateRootKeyResponse{}
	out.Index = index
	return out, nil
}

// mayBecome says which moves of root keys a request may ask for; the others follow
// from these.
func mayBecome(from, to nomad.RootKeyState) bool {
	return from == nomad.RootKeyStatePrepublished && to == nomad.RootKeyStateActive ||
		from == nomad.RootKeyStateRekeying && to == nomad.RootKeyStateInactive
}
