package rootkeys

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Rotate creates a new root key. The key is active immediately. With PublishTime it is
// published first and becomes active later.
func (s *Service) Rotate(ctx context.Context, _ *rpc.Call,
	req *message.KeyringRotateRootKeyRequest) (*message.KeyringRotateRootKeyResponse, error) {
	switch {
	case req.Full && req.PublishTime != 0:
		return nil, apierror.Errorf(400, "keyring cannot be prepublished and fully rotated at the same time")
	case req.PublishTime < 0:
		return nil, apierror.Errorf(400, "negative publish time of a root key")
	case req.Algorithm != "" && req.Algorithm != rootkey.EncryptionAlgorithmAES256GCM:
		return nil, apierror.Errorf(400, "unknown algorithm %q: use %s", req.Algorithm, rootkey.EncryptionAlgorithmAES256GCM)
	}
	now := s.Now()
	key, err := s.cfg.Keyring.NewRootKey(ctx, now)
	if err != nil {
		return nil, err
	}
	second, err := s.nextRSA(ctx) // made before the first write, since wrapping may fail
	if err != nil {
		return nil, err
	}
	index, err := s.introduce(ctx, key, req)
	if err != nil {
		return nil, err
	}
	s.Log.Info("created root key", "key", key.KeyID, "state", key.State)
	if err := s.writeRSA(ctx, second); err != nil {
		return nil, err
	}
	if req.Full {
		s.Broker.Enqueue(nomad.NewCoreEval(nomad.CoreJobVariablesRekey, index, now))
	}
	out := &message.KeyringRotateRootKeyResponse{Key: key.Meta()}
	if stored := s.Snapshot().RootKey(nil, key.KeyID); stored != nil {
		out.Key = stored.Meta()
	}
	out.Index = index
	return out, nil
}

// introduce writes a new key. It publishes the key to all reachable servers before
// activating it, so that no server rejects a token of another.
func (s *Service) introduce(ctx context.Context, key *rootkey.Key, req *message.KeyringRotateRootKeyRequest) (uint64, error) {
	known := *key
	known.State, known.PublishTime = rootkey.Prepublished, cmp.Or(req.PublishTime, key.CreateTime)
	index, err := s.Apply(ctx, message.WrappedRootKeysUpsertRequestType, &message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: &known})
	if err != nil || req.PublishTime != 0 {
		key.State, key.PublishTime = known.State, known.PublishTime
		return index, err
	}
	s.awaitKey(ctx, key.KeyID)
	index, err = s.Apply(ctx, message.WrappedRootKeysUpsertRequestType,
		&message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: key, Rekey: req.Full})
	if err != nil {
		return 0, err
	}
	// Wait, so that identities requested after the response are signed with the new key.
	ctx, cancel := context.WithTimeout(ctx, keyKnownWithin)
	defer cancel()
	if err := s.cfg.Keyring.AwaitActive(ctx, key.KeyID); err != nil {
		s.Log.Warn("rotated root key", "err", err)
	}
	return index, nil
}

// How long to wait for the other servers to load a new key, and how often to poll them.
const (
	keyKnownWithin = 2 * time.Second
	keyKnownPoll   = 5 * time.Millisecond
)

// awaitKey waits until every reachable server of the region can verify with a key.
func (s *Service) awaitKey(ctx context.Context, kid string) {
	ctx, cancel := context.WithTimeout(ctx, keyKnownWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, m := range s.Cluster.Members() {
		if m.Tags["region"] != s.Region || m.Tags["id"] == s.Raft.ID() || m.Status != gossip.Alive {
			continue
		}
		all.Go(func() {
			addr := net.JoinHostPort(m.Addr.String(), m.Tags["port"])
			for !s.knowsKey(ctx, addr, kid) {
				select {
				case <-ctx.Done():
					s.Log.Warn("a server has not received the new root key yet: it rejects tokens signed by it until then", "server", m.Name, "key", kid)
					return
				case <-time.After(keyKnownPoll):
				}
			}
		})
	}
	all.Wait()
}

// knowsKey reports whether another server can verify with a key.
func (s *Service) knowsKey(ctx context.Context, addr, kid string) bool {
	var out message.KeyringListPublicResponse
	req := &message.GenericRequest{QueryOptions: message.QueryOptions{Region: s.Region, AllowStale: true}}
	return s.Peers.Call(ctx, addr, "Keyring.ListPublic", req, &out) == nil &&
		slices.ContainsFunc(out.PublicKeys, func(k *rootkey.PublicKey) bool { return k.KeyID == kid })
}

// nextRSA returns a new RS256 key if jobs need one, otherwise nil. It ensures that the RSA
// key rotates with the active key.
func (s *Service) nextRSA(ctx context.Context) (*rootkey.Key, error) {
	if !s.Snapshot().WantsRSA() {
		return nil, nil
	}
	return s.cfg.Keyring.NewRSAKey(ctx, s.Now())
}

// EnsureRSA creates an RS256 key if none exists.
func (s *Service) EnsureRSA(ctx context.Context) error {
	if s.Snapshot().NewestRSAKey() != nil {
		return nil
	}
	key, err := s.cfg.Keyring.NewRSAKey(ctx, s.Now())
	if err != nil {
		return err
	}
	return s.writeRSA(ctx, key)
}

// writeRSA writes an RS256 key. It does nothing if key is nil.
func (s *Service) writeRSA(ctx context.Context, key *rootkey.Key) error {
	if key == nil {
		return nil
	}
	_, err := s.Apply(ctx, message.WrappedRootKeysUpsertRequestType, &message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: key})
	if err != nil {
		return fmt.Errorf("write RS256 root key: %w", err)
	}
	s.awaitKey(ctx, key.KeyID)
	s.Log.Info("created RS256 root key", "key", key.KeyID)
	return nil
}

// Update changes the state of a root key. The core job uses it to activate published
// keys and to end a rekey. It never accepts key material.
func (s *Service) Update(ctx context.Context, _ *rpc.Call,
	req *message.KeyringUpdateRootKeyRequest) (*message.KeyringUpdateRootKeyResponse, error) {
	if req.RootKey == nil || req.RootKey.Meta == nil || req.RootKey.Meta.KeyID == "" {
		return nil, apierror.Errorf(400, "root key ID is required")
	}
	if len(req.RootKey.Key) > 0 || len(req.RootKey.RSAKey) > 0 {
		return nil, apierror.Errorf(400, "key material is not accepted over RPC: it is stored in Raft, wrapped")
	}
	snap, meta := s.Snapshot(), req.RootKey.Meta
	old := snap.RootKey(nil, meta.KeyID)
	if old == nil {
		return nil, apierror.Errorf(404, "root key %s does not exist", meta.KeyID)
	}
	if !mayBecome(old.State, meta.State) {
		return nil, apierror.Errorf(400, "root key %s is %s and cannot become %s", meta.KeyID, old.State, meta.State)
	}
	key := *old
	key.State, key.PublishTime = meta.State, 0
	var second *rootkey.Key
	if key.State == rootkey.Active {
		var err error
		if second, err = s.nextRSA(ctx); err != nil {
			return nil, err
		}
	}
	index, err := s.Apply(ctx, message.WrappedRootKeysUpsertRequestType,
		&message.KeyringUpsertWrappedRootKeyRequest{WrappedRootKeys: &key, Rekey: req.Rekey})
	if err != nil {
		return nil, err
	}
	if err := s.writeRSA(ctx, second); err != nil {
		return nil, err
	}
	out := &message.KeyringUpdateRootKeyResponse{}
	out.Index = index
	return out, nil
}

// mayBecome reports whether a request may change the state of a root key from one state to
// another. Other changes follow from these.
func mayBecome(from, to rootkey.State) bool {
	return from == rootkey.Prepublished && to == rootkey.Active ||
		from == rootkey.Rekeying && to == rootkey.Inactive
}
