package server

import (
	"context"
	"time"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/nomad/claims"
	"github.com/open-nomad/open-nomad/nomad/csicall"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// openVolumes creates what calls CSI plugins and releases claims on their volumes.
func (s *Server) openVolumes() {
	s.secrets = csisecret.New(csisecret.Config{Store: s.fsm.State, Keyring: s.ring, Within: s.cfg.SignWithin})
	s.csi = csicall.New(csicall.Config{Region: s.cfg.Region, Nodes: func() csicall.Nodes { return s.rpc }, Peers: peers{s},
		Store: s.fsm.State, Log: s.log})
	s.claims = claims.New(claims.Config{Store: s.fsm.State, Raft: s.raft, Plugins: s.csi, Secrets: s.secrets,
		GoneAfter: s.cfg.CSIClaimGCThreshold, Log: s.log})
}

// sealEvery is the interval of sealSecrets.
const sealEvery = 10 * time.Minute

// sealSecrets encrypts the secrets of volumes that servers of other builds stored in plain text: at the start of a term, after
// a restore, and at times. It does not while such servers may be part of the region, because they could not read the secrets.
func (s *Server) sealSecrets(ctx context.Context) error {
	again := backoff.Backoff{Min: time.Second, Max: time.Minute}
	for ctx.Err() == nil {
		store, wait := s.fsm.State(), sealEvery
		if s.sealAll(ctx, store.Snapshot()) {
			again.Reset()
		} else {
			wait = again.Next()
		}
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		state.Wait(ctx, ws, time.Now().Add(wait))
	}
	return ctx.Err()
}

// sealAll reports whether no volume has plain secrets any more.
func (s *Server) sealAll(ctx context.Context, snap *state.Snapshot) bool {
	all := true
	for v := range snap.UnsealedCSIVolumes() {
		if s.onlyOurs("the encryption of secrets of CSI volumes") != nil {
			return false
		}
		req := &message.CSIVolumeResealRequest{VolumeID: v.ID, WriteRequest: message.WriteRequest{Namespace: v.Namespace}}
		if err := s.asLeader().Call(ctx, "CSIVolume.Reseal", req, nil); err != nil {
			s.log.Warn("encrypt the secrets of a CSI volume that are stored in plain text", "namespace", v.Namespace, "volume", v.ID, "err", err)
			all = false
		}
	}
	return all
}
