package client

import "github.com/open-nomad/open-nomad/internal/rpc"

// methods lists every RPC that a node answers. Servers call them over the
// sessions that the node opened, and the agent of this process calls them
// directly; either has checked who asks.
func (c *Client) methods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Allocations.Checks", rpc.Token, rpc.Here, c.allocChecks),
		rpc.Handle("Allocations.GarbageCollect", rpc.Token, rpc.Here, c.allocCollect),
		rpc.Handle("Allocations.GarbageCollectAll", rpc.Token, rpc.Here, c.allocCollectAll),
		rpc.Handle("Allocations.Restart", rpc.Token, rpc.Here, c.allocRestart),
		rpc.Handle("Allocations.Signal", rpc.Token, rpc.Here, c.allocSignal),
		rpc.Handle("Allocations.Stats", rpc.Token, rpc.Here, c.allocStats),
		rpc.Handle("ClientStats.Stats", rpc.Token, rpc.Here, c.clientStats),
		rpc.Handle("FileSystem.List", rpc.Token, rpc.Here, c.fsList),
		rpc.Handle("FileSystem.Stat", rpc.Token, rpc.Here, c.fsStat),
		rpc.Handle("NodeIdentity.Get", rpc.Token, rpc.Here, c.identityGet),
		rpc.Handle("NodeIdentity.Renew", rpc.Token, rpc.Here, c.identityRenew),
		rpc.Handle("NodeIdentity.Session", rpc.Token, rpc.Here, c.identitySession),
		rpc.HandleStream("FileSystem.Logs", rpc.Token, rpc.Here, c.fsLogs),
		rpc.HandleStream("FileSystem.Stream", rpc.Token, rpc.Here, c.fsStream),
	}
}
