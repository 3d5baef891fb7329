package endpoint

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// relayMethods returns the methods that a node handles. They are relayed over the session
// that the node opened.
func (s *Service) relayMethods() []rpc.Method {
	return []rpc.Method{
		relay[nomad.AllocStatsRequest, nomad.AllocStatsResponse](s, "ClientAllocations.Stats", "Allocations.Stats",
			allocTarget(func(r *nomad.AllocStatsRequest) string { return r.AllocID }, acl.ReadJob)),
		relay[nomad.AllocChecksRequest, nomad.AllocChecksResponse](s, "ClientAllocations.Checks", "Allocations.Checks",
			allocTarget(func(r *nomad.AllocChecksRequest) string { return r.AllocID }, acl.ReadJob)),
		relay[nomad.AllocSandboxRequest, nomad.AllocSandboxResponse](s, "ClientAllocations.Sandbox", "Allocations.Sandbox",
			allocTarget(func(r *nomad.AllocSandboxRequest) string { return r.AllocID }, acl.ReadFS)), // the response contains paths of the allocation's files
		relay[nomad.AllocRestartRequest, nomad.GenericResponse](s, "ClientAllocations.Restart", "Allocations.Restart",
			allocTarget(func(r *nomad.AllocRestartRequest) string { return r.AllocID }, acl.AllocLifecycle).first(somewhere(acl.AllocLifecycle))),
		relay[nomad.AllocSignalRequest, nomad.GenericResponse](s, "ClientAllocations.Signal", "Allocations.Signal",
			allocTarget(func(r *nomad.AllocSignalRequest) string { return r.AllocID }, acl.AllocLifecycle).first(somewhere(acl.AllocLifecycle))),
		relay[nomad.AllocSpecificRequest, nomad.GenericResponse](s, "ClientAllocations.GarbageCollect", "Allocations.GarbageCollect",
			allocTarget(func(r *nomad.AllocSpecificRequest) string { return r.AllocID }, acl.SubmitJob, acl.GCAllocation)),
		relay[nomad.NodeSpecificRequest, nomad.GenericResponse](s, "ClientAllocations.GarbageCollectAll", "Allocations.GarbageCollectAll",
			nodeTarget(func(r *nomad.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
		relay[nomad.FsListRequest, nomad.FsListResponse](s, "FileSystem.List", "FileSystem.List",
			allocTarget(func(r *nomad.FsListRequest) string { return r.AllocID }, acl.ReadFS)),
		relay[nomad.FsStatRequest, nomad.FsStatResponse](s, "FileSystem.Stat", "FileSystem.Stat",
			allocTarget(func(r *nomad.FsStatRequest) string { return r.AllocID }, acl.ReadFS)),
		rpc.HandleStream("Allocations.Exec", rpc.Token, rpc.Region, s.allocExec).Needs(rpc.Asked("ns:[alloc-exec] of the allocation, and ns:[alloc-node-exec] when its driver isolates nothing")),
		relayStream(s, "FileSystem.Logs", allocTarget(func(r *nomad.FsLogsRequest) string { return r.AllocID }, acl.ReadFS, acl.ReadLogs)),
		relayStream(s, "FileSystem.Stream", allocTarget(func(r *nomad.FsStreamRequest) string { return r.AllocID }, acl.ReadFS)),
		relay[nomad.NodeSpecificRequest, nomad.ClientStatsResponse](s, "ClientStats.Stats", "ClientStats.Stats",
			nodeTarget(func(r *nomad.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay[nomad.NodeSpecificRequest, nomad.NodeMetaResponse](s, "NodeMeta.Read", "NodeMeta.Read",
			nodeTarget(func(r *nomad.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay[nomad.NodeIdentityGetReq, nomad.NodeIdentityGetResp](s, "NodeIdentity.Get", "NodeIdentity.Get",
			nodeTarget(func(r *nomad.NodeIdentityGetReq) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay[nomad.NodeIdentityRenewReq, nomad.NodeIdentityRenewResp](s, "NodeIdentity.Renew", "NodeIdentity.Renew",
			nodeTarget(func(r *nomad.NodeIdentityRenewReq) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
	}
}
