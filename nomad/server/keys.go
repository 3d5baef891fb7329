package server

import (
	"context"

	memdb "github.com/hashicorp/go-memdb"
	"github.com/open-nomad/open-nomad/nomad"
)

// followKeys keeps the keyring as state has the root keys, until ctx ends. What
// signs waits in the ring until its key is there.
func (s *Server) followKeys(ctx context.Context) error {
	held := map[string]bool{}
	for {
		store := s.fsm.State()
		ws := memdb.NewWatchSet()
		ws.Add(store.Abandoned())
		known := map[string]bool{}
		for key := range store.Snapshot().RootKeys(ws) {
			known[key.KeyID] = true
			if err := s.ring.Add(ctx, key); err != nil {
				s.log.Error("open root key", "key", key.KeyID, "err", err)
			}
			held[key.KeyID] = true
		}
		for id := range held {
			if !known[id] {
				s.ring.Remove(id)
				delete(held, id)
			}
		}
		if err := ws.WatchCtx(ctx); ctx.Err() != nil {
			return err
		}
	}
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
