package client

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// readmission is how often the servers look at the token of a stream again.
const readmission = time.Second

// ownMethods lists what the API of an agent asks of nodes, by the names that servers
// have for it. What is about this node is answered here, servers or not; all else goes
// to the servers. The access rule is the servers': a token is shown to them first, so
// with a token and no server nothing is told. Callers without one are everybody, as
// long as there is no access control.
func (c *Client) ownMethods() []rpc.Method {
	return []rpc.Method{
		own(c, "ClientAllocations.Checks", func(r *nomad.AllocChecksRequest) bool { return c.HasAlloc(r.AllocID) }, c.allocChecks),
		own(c, "ClientAllocations.GarbageCollect", func(r *nomad.AllocSpecificRequest) bool { return c.HasAlloc(r.AllocID) }, c.allocCollect),
		own(c, "ClientAllocations.GarbageCollectAll", func(r *nomad.NodeSpecificRequest) bool { return r.NodeID == c.id.id }, c.allocCollectAll),
		own(c, "ClientAllocations.Restart", func(r *nomad.AllocRestartRequest) bool { return c.HasAlloc(r.AllocID) }, c.allocRestart),
		own(c, "ClientAllocations.Signal", func(r *nomad.AllocSignalRequest) bool { return c.HasAlloc(r.AllocID) }, c.allocSignal),
		own(c, "ClientAllocations.Stats", func(r *nomad.AllocStatsRequest) bool { return c.HasAlloc(r.AllocID) }, c.allocStats),
		own(c, "ClientStats.Stats", func(r *nomad.NodeSpecificRequest) bool { return r.NodeID == c.id.id }, c.clientStats),
		own(c, "FileSystem.List", func(r *nomad.FsListRequest) bool { return c.HasAlloc(r.AllocID) }, c.fsList),
		own(c, "FileSystem.Stat", func(r *nomad.FsStatRequest) bool { return c.HasAlloc(r.AllocID) }, c.fsStat),
		own(c, "NodeIdentity.Get", func(r *nomad.NodeIdentityGetReq) bool { return r.NodeID == c.id.id }, c.identityGet),
		own(c, "NodeIdentity.Renew", func(r *nomad.NodeIdentityRenewReq) bool { return r.NodeID == c.id.id }, c.identityRenew),
		ownStream(c, "FileSystem.Logs", func(r *nomad.FsLogsRequest) bool { return c.HasAlloc(r.AllocID) }, c.fsLogs),
		ownStream(c, "FileSystem.Stream", func(r *nomad.FsStreamRequest) bool { return c.HasAlloc(r.AllocID) }, c.fsStream),
	}
}

// own makes the row of a method that is answered here when mine says so.
func own[Req, Resp any, P interface {
	*Req
	rpc.Request
}](c *Client, name string, mine func(*Req) bool, here func(context.Context, *rpc.Call, *Req) (*Resp, error)) rpc.Method {
	return rpc.Handle[Req, Resp, P](name, rpc.Token, rpc.Here, func(ctx context.Context, call *rpc.Call, req *Req) (*Resp, error) {
		if env := P(req).Envelope(); !c.inRegion(env) || !mine(req) {
			out := new(Resp)
			return out, c.servers.Call(ctx, name, req, out)
		} else if err := c.admit(ctx, env.AuthToken); err != nil {
			return nil, err
		}
		return here(ctx, call, req)
	}).Needs(rpc.Good)
}

// ownStream is own for a streaming method.
func ownStream[Req any, P interface {
	*Req
	rpc.Request
}](c *Client, name string, mine func(*Req) bool, here func(context.Context, *rpc.Call, *Req, *rpc.Stream) error) rpc.Method {
	return rpc.HandleStream[Req, P](name, rpc.Token, rpc.Here, func(ctx context.Context, call *rpc.Call, req *Req, s *rpc.Stream) error {
		if env := P(req).Envelope(); c.inRegion(env) && mine(req) {
			if err := c.admit(ctx, env.AuthToken); err != nil {
				return err
			}
			ctx, stop := s.While(ctx, readmission, func(ctx context.Context) error { return c.admit(ctx, env.AuthToken) })
			defer stop()
			return here(ctx, call, req, s)
		}
		next, err := c.servers.Stream(ctx, name)
		if err != nil {
			return err
		}
		defer next.Close()
		if err := next.Encode(req); err != nil {
			return err
		}
		rpc.Bridge(s, next)
		return nil
	}).Needs(rpc.Good)
}

func (c *Client) inRegion(env nomad.Envelope) bool {
	return env.Region == "" || env.Region == c.cfg.Region
}

// admit has the servers look at a token.
func (c *Client) admit(ctx context.Context, token string) error {
	if token == "" {
		return nil
	}
	req := nomad.GenericRequest{QueryOptions: nomad.QueryOptions{Region: c.cfg.Region, AuthToken: token, AllowStale: true}}
	return c.servers.Call(ctx, "ACL.WhoAmI", &req, &nomad.ACLWhoAmIResponse{})
}
