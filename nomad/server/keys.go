package server

import (
	"context"
	"maps"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// followKeys keeps the keyring as state has the root keys, until ctx ends. What
// signs waits in the ring until its key is there.
func (s *Server) followKeys(ctx context.Context) error {
	held := map[string]bool{}
	for {
		store := s.fsm.State()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		snap := store.Snapshot()
		for id := range held { // before keys are opened, which may take its time
			if snap.RootKey(nil, id) == nil {
				s.ring.Remove(id)
				delete(held, id)
			}
		}
		maps.Copy(held, s.loadKeys(ctx, snap, ws))
		if err := ws.WatchCtx(ctx); ctx.Err() != nil {
			return err
		}
	}
}

// loadKeys puts the root keys of a snapshot into the ring and returns their IDs.
func (s *Server) loadKeys(ctx context.Context, snap *state.Snapshot, ws memdb.WatchSet) map[string]bool {
	known := map[string]bool{}
	for key := range snap.RootKeys(ws) {
		known[key.KeyID] = true
		if err := s.ring.Add(ctx, key); err != nil && ctx.Err() == nil {
			s.log.Error("open root key", "key", key.KeyID, "err", err)
		}
	}
	return known
}

// asLeader makes calls of this server's own parts: in process, in this region and,
// while this server leads, with the leader's token.
func (s *Server) asLeader() leaderCaller { return leaderCaller{s} }

type leaderCaller struct{ s *Server }

// Call runs an RPC in process.
func (c leaderCaller) Call(ctx context.Context, method string, req, resp any) error {
	if w, ok := req.(interface{ Write() *nomad.WriteRequest }); ok {
		w.Write().Region, w.Write().AuthToken = c.s.cfg.Region, c.s.authority.Token()
	}
	return c.s.rpc.Call(ctx, method, req, resp)
}
