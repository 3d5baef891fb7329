package endpoint

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/endpoint/relay"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// relayMethods returns the methods that a node handles. They are relayed over the session
// that the node opened.
func (s *Service) relayMethods() []rpc.Method {
	return []rpc.Method{
		relay.Call[nomad.AllocStatsRequest, nomad.AllocStatsResponse](s.relay, "ClientAllocations.Stats", "Allocations.Stats",
			relay.Alloc(func(r *nomad.AllocStatsRequest) string { return r.AllocID }, acl.ReadJob)),
		relay.Call[nomad.AllocChecksRequest, nomad.AllocChecksResponse](s.relay, "ClientAllocations.Checks", "Allocations.Checks",
			relay.Alloc(func(r *nomad.AllocChecksRequest) string { return r.AllocID }, acl.ReadJob)),
		relay.Call[nomad.AllocSandboxRequest, nomad.AllocSandboxResponse](s.relay, "ClientAllocations.Sandbox", "Allocations.Sandbox",
			relay.Alloc(func(r *nomad.AllocSandboxRequest) string { return r.AllocID }, acl.ReadFS)), // the response contains paths of the allocation's files
		relay.Call[nomad.AllocRestartRequest, nomad.GenericResponse](s.relay, "ClientAllocations.Restart", "Allocations.Restart",
			relay.Alloc(func(r *nomad.AllocRestartRequest) string { return r.AllocID }, acl.AllocLifecycle).First(somewhere(acl.AllocLifecycle))),
		relay.Call[nomad.AllocSignalRequest, nomad.GenericResponse](s.relay, "ClientAllocations.Signal", "Allocations.Signal",
			relay.Alloc(func(r *nomad.AllocSignalRequest) string { return r.AllocID }, acl.AllocLifecycle).First(somewhere(acl.AllocLifecycle))),
		relay.Call[nomad.AllocSpecificRequest, nomad.GenericResponse](s.relay, "ClientAllocations.GarbageCollect", "Allocations.GarbageCollect",
			relay.Alloc(func(r *nomad.AllocSpecificRequest) string { return r.AllocID }, acl.SubmitJob, acl.GCAllocation)),
		relay.Call[nomad.NodeSpecificRequest, nomad.GenericResponse](s.relay, "ClientAllocations.GarbageCollectAll", "Allocations.GarbageCollectAll",
			relay.Node(func(r *nomad.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
		relay.Call[nomad.FsListRequest, nomad.FsListResponse](s.relay, "FileSystem.List", "FileSystem.List",
			relay.Alloc(func(r *nomad.FsListRequest) string { return r.AllocID }, acl.ReadFS)),
		relay.Call[nomad.FsStatRequest, nomad.FsStatResponse](s.relay, "FileSystem.Stat", "FileSystem.Stat",
			relay.Alloc(func(r *nomad.FsStatRequest) string { return r.AllocID }, acl.ReadFS)),
		rpc.HandleStream("Allocations.Exec", rpc.Token, rpc.Region, s.relay.Exec).Needs(rpc.Asked("ns:[alloc-exec] of the allocation, and ns:[alloc-node-exec] if its driver does not isolate tasks")),
		relay.Stream(s.relay, "FileSystem.Logs", relay.Alloc(func(r *nomad.FsLogsRequest) string { return r.AllocID }, acl.ReadFS, acl.ReadLogs)),
		relay.Stream(s.relay, "FileSystem.Stream", relay.Alloc(func(r *nomad.FsStreamRequest) string { return r.AllocID }, acl.ReadFS)),
		relay.Call[nomad.NodeSpecificRequest, nomad.ClientStatsResponse](s.relay, "ClientStats.Stats", "ClientStats.Stats",
			relay.Node(func(r *nomad.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay.Call[nomad.NodeSpecificRequest, nomad.NodeMetaResponse](s.relay, "NodeMeta.Read", "NodeMeta.Read",
			relay.Node(func(r *nomad.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay.Call[nomad.NodeIdentityGetReq, nomad.NodeIdentityGetResp](s.relay, "NodeIdentity.Get", "NodeIdentity.Get",
			relay.Node(func(r *nomad.NodeIdentityGetReq) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay.Call[nomad.NodeIdentityRenewReq, nomad.NodeIdentityRenewResp](s.relay, "NodeIdentity.Renew", "NodeIdentity.Renew",
			relay.Node(func(r *nomad.NodeIdentityRenewReq) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
	}
}
