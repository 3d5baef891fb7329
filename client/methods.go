package client

import "github.com/open-nomad/open-nomad/internal/rpc"

// methods lists every RPC that a node answers. Servers call them over the
// sessions that the node opened, and the agent of this process calls them
// directly; either has checked who asks.
func (c *Client) methods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Allocations.Checks", rpc.Token, rpc.Here, c.allocChecks).Needs(rpc.Good),
		rpc.Handle("Allocations.GarbageCollect", rpc.Token, rpc.Here, c.allocCollect).Needs(rpc.Good),
		rpc.Handle("Allocations.GarbageCollectAll", rpc.Token, rpc.Here, c.allocCollectAll).Needs(rpc.Good),
		rpc.Handle("Allocations.Restart", rpc.Token, rpc.Here, c.allocRestart).Needs(rpc.Good),
		rpc.Handle("Allocations.Signal", rpc.Token, rpc.Here, c.allocSignal).Needs(rpc.Good),
		rpc.Handle("Allocations.Stats", rpc.Token, rpc.Here, c.allocStats).Needs(rpc.Good),
		rpc.Handle("ClientStats.Stats", rpc.Token, rpc.Here, c.clientStats).Needs(rpc.Good),
		rpc.Handle("FileSystem.List", rpc.Token, rpc.Here, c.fsList).Needs(rpc.Good),
		rpc.Handle("FileSystem.Stat", rpc.Token, rpc.Here, c.fsStat).Needs(rpc.Good),
		rpc.Handle("NodeIdentity.Get", rpc.Token, rpc.Here, c.identityGet).Needs(rpc.Good),
		rpc.Handle("NodeIdentity.Renew", rpc.Token, rpc.Here, c.identityRenew).Needs(rpc.Good),
		rpc.Handle("NodeIdentity.Session", rpc.Token, rpc.Here, c.identitySession).Needs(rpc.Good),
		rpc.HandleStream("FileSystem.Logs", rpc.Token, rpc.Here, c.fsLogs).Needs(rpc.Good),
		rpc.HandleStream("FileSystem.Stream", rpc.Token, rpc.Here, c.fsStream).Needs(rpc.Good),
	}
}
