package endpoint

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/relay"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// relayMethods returns the methods that a node handles. They are relayed over the session
// that the node opened.
func (s *Service) relayMethods() []rpc.Method {
	return []rpc.Method{
		relay.Call[message.AllocStatsRequest, message.AllocStatsResponse](s.relay, "ClientAllocations.Stats", "Allocations.Stats",
			relay.Alloc(func(r *message.AllocStatsRequest) string { return r.AllocID }, acl.ReadJob)),
		relay.Call[message.AllocChecksRequest, message.AllocChecksResponse](s.relay, "ClientAllocations.Checks", "Allocations.Checks",
			relay.Alloc(func(r *message.AllocChecksRequest) string { return r.AllocID }, acl.ReadJob)),
		relay.Call[message.AllocSandboxRequest, message.AllocSandboxResponse](s.relay, "ClientAllocations.Sandbox", "Allocations.Sandbox",
			// the response contains paths of the allocation's files
			relay.Alloc(func(r *message.AllocSandboxRequest) string { return r.AllocID }, acl.ReadFS)),
		relay.Call[message.AllocTemplatesRequest, message.AllocTemplatesResponse](s.relay,
			"ClientAllocations.RenderTemplates", "Allocations.RenderTemplates",
			// it can restart the task
			relay.Alloc(func(r *message.AllocTemplatesRequest) string { return r.AllocID }, acl.AllocLifecycle).
				Before(somewhere(acl.AllocLifecycle))),
		relay.Call[message.AllocTemplatesRequest, message.AllocTemplatesResponse](s.relay,
			"ClientAllocations.DiffTemplates", "Allocations.DiffTemplates",
			// the response contains parts of the rendered files
			relay.Alloc(func(r *message.AllocTemplatesRequest) string { return r.AllocID }, acl.ReadFS)),
		relay.Call[message.AllocRestartRequest, message.GenericResponse](s.relay, "ClientAllocations.Restart", "Allocations.Restart",
			relay.Alloc(func(r *message.AllocRestartRequest) string { return r.AllocID }, acl.AllocLifecycle).Before(somewhere(acl.AllocLifecycle))),
		relay.Call[message.AllocSignalRequest, message.GenericResponse](s.relay, "ClientAllocations.Signal", "Allocations.Signal",
			relay.Alloc(func(r *message.AllocSignalRequest) string { return r.AllocID }, acl.AllocLifecycle).Before(somewhere(acl.AllocLifecycle))),
		relay.Call[message.AllocPauseRequest, message.GenericResponse](s.relay, "ClientAllocations.SetPauseState", "Allocations.SetPauseState",
			relay.Alloc(func(r *message.AllocPauseRequest) string { return r.AllocID }, acl.SubmitJob, acl.PauseAllocation).
				Before(somewhere(acl.SubmitJob, acl.PauseAllocation))),
		relay.Call[message.AllocGetPauseStateRequest, message.AllocGetPauseStateResponse](s.relay,
			"ClientAllocations.GetPauseState", "Allocations.GetPauseState",
			relay.Alloc(func(r *message.AllocGetPauseStateRequest) string { return r.AllocID }, acl.ReadJob)),
		relay.Call[message.AllocSpecificRequest, message.GenericResponse](s.relay,
			"ClientAllocations.GarbageCollect", "Allocations.GarbageCollect",
			relay.Alloc(func(r *message.AllocSpecificRequest) string { return r.AllocID }, acl.SubmitJob, acl.GCAllocation)),
		relay.Call[message.NodeSpecificRequest, message.GenericResponse](s.relay,
			"ClientAllocations.GarbageCollectAll", "Allocations.GarbageCollectAll",
			relay.Node(func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
		relay.Call[message.FsListRequest, message.FsListResponse](s.relay, "FileSystem.List", "FileSystem.List",
			relay.Alloc(func(r *message.FsListRequest) string { return r.AllocID }, acl.ReadFS)),
		relay.Call[message.FsStatRequest, message.FsStatResponse](s.relay, "FileSystem.Stat", "FileSystem.Stat",
			relay.Alloc(func(r *message.FsStatRequest) string { return r.AllocID }, acl.ReadFS)),
		rpc.Handle("Agent.Host", rpc.Token, rpc.Region, s.relay.Host).Needs(rpc.Needs(acl.ToRead(acl.Agents))),
		rpc.Handle("Agent.Profile", rpc.Token, rpc.Region, s.relay.Profile).Needs(rpc.Needs(acl.ToWrite(acl.Agents))),
		rpc.HandleStream("Agent.Monitor", rpc.Token, rpc.Region, s.relay.Monitor).Needs(rpc.Needs(acl.ToRead(acl.Agents))),
		rpc.HandleStream("Agent.MonitorExport", rpc.Token, rpc.Region, s.relay.MonitorExport).Needs(rpc.Needs(acl.ToRead(acl.Agents))),
		rpc.HandleStream("Allocations.Exec", rpc.Token, rpc.Region, s.relay.Exec).
			Needs(rpc.On("the allocation", inNamespace(acl.AllocExec)).
				Also("ns:[alloc-node-exec] if its driver does not isolate tasks, or it is privileged")),
		relay.Stream(s.relay, "Allocations.PortForward",
			relay.Alloc(func(r *message.AllocPortForwardRequest) string { return r.AllocID }, acl.AllocPortForward)),
		relay.Stream(s.relay, "FileSystem.Logs",
			relay.Alloc(func(r *message.FsLogsRequest) string { return r.AllocID }, acl.ReadFS, acl.ReadLogs)),
		relay.Stream(s.relay, "FileSystem.Stream", relay.Alloc(func(r *message.FsStreamRequest) string { return r.AllocID }, acl.ReadFS)),
		relay.Call[message.NodeSpecificRequest, message.ClientStatsResponse](s.relay, "ClientStats.Stats", "ClientStats.Stats",
			relay.Node(func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay.Call[message.NodeMetaApplyRequest, message.NodeMetaResponse](s.relay, "NodeMeta.Apply", "NodeMeta.Apply",
			relay.Node(func(r *message.NodeMetaApplyRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
		relay.Call[message.NodeSpecificRequest, message.NodeMetaResponse](s.relay, "NodeMeta.Read", "NodeMeta.Read",
			relay.Node(func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay.Call[message.NodeSpecificRequest, message.ArtifactCacheResponse](s.relay, "ArtifactCache.Status", "ArtifactCache.Status",
			relay.Node(func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay.Call[message.NodeSpecificRequest, message.ArtifactCacheResponse](s.relay, "ArtifactCache.Purge", "ArtifactCache.Purge",
			relay.Node(func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
		relay.Call[message.NodeIdentityGetReq, message.NodeIdentityGetResp](s.relay, "NodeIdentity.Get", "NodeIdentity.Get",
			relay.Node(func(r *message.NodeIdentityGetReq) string { return r.NodeID }, acl.ToRead(acl.Nodes))),
		relay.Call[message.NodeIdentityRenewReq, message.NodeIdentityRenewResp](s.relay, "NodeIdentity.Renew", "NodeIdentity.Renew",
			relay.Node(func(r *message.NodeIdentityRenewReq) string { return r.NodeID }, acl.ToWrite(acl.Nodes))),
		rpc.Handle("VaultTokens.List", rpc.Token, rpc.Region, s.relay.VaultTokens).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
	}
}
