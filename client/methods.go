package client

import (
	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// methods lists every RPC that a node answers. Each row has the name used by servers, the name
// used by this process's agent, and the required rights.
func (c *Client) methods() []answered {
	return []answered{
		answer("Allocations.Checks", "ClientAllocations.Checks", ofAlloc(c, func(r *message.AllocChecksRequest) string { return r.AllocID }, acl.ReadJob), c.allocChecks),
		answer("Allocations.GarbageCollect", "ClientAllocations.GarbageCollect", ofAlloc(c, func(r *message.AllocSpecificRequest) string { return r.AllocID }, acl.SubmitJob, acl.GCAllocation), c.allocCollect),
		answer("Allocations.GarbageCollectAll", "ClientAllocations.GarbageCollectAll", ofNode(c, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), c.allocCollectAll),
		answer("Allocations.DiffTemplates", "ClientAllocations.DiffTemplates", ofAlloc(c, func(r *message.AllocTemplatesRequest) string { return r.AllocID }, acl.ReadFS), c.allocDiffTemplates),
		answer("Allocations.RenderTemplates", "ClientAllocations.RenderTemplates", ofAlloc(c, func(r *message.AllocTemplatesRequest) string { return r.AllocID }, acl.AllocLifecycle), c.allocRenderTemplates),
		answer("Allocations.GetPauseState", "ClientAllocations.GetPauseState", ofAlloc(c, func(r *message.AllocGetPauseStateRequest) string { return r.AllocID }, acl.ReadJob), c.allocGetPause),
		answer("Allocations.SetPauseState", "ClientAllocations.SetPauseState", ofAlloc(c, func(r *message.AllocPauseRequest) string { return r.AllocID }, acl.SubmitJob, acl.PauseAllocation), c.allocSetPause),
		answer("Allocations.Restart", "ClientAllocations.Restart", ofAlloc(c, func(r *message.AllocRestartRequest) string { return r.AllocID }, acl.AllocLifecycle), c.allocRestart),
		answer("Allocations.Sandbox", "ClientAllocations.Sandbox", ofAlloc(c, func(r *message.AllocSandboxRequest) string { return r.AllocID }, acl.ReadFS), c.allocSandbox),
		answer("Allocations.Signal", "ClientAllocations.Signal", ofAlloc(c, func(r *message.AllocSignalRequest) string { return r.AllocID }, acl.AllocLifecycle), c.allocSignal),
		answer("Allocations.Stats", "ClientAllocations.Stats", ofAlloc(c, func(r *message.AllocStatsRequest) string { return r.AllocID }, acl.ReadJob), c.allocStats),
		answer("ArtifactCache.Purge", "ArtifactCache.Purge", ofNode(c, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), c.artifactCachePurge),
		answer("ArtifactCache.Status", "ArtifactCache.Status", ofNode(c, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes)), c.artifactCacheStatus),
		answer("ClientStats.Stats", "ClientStats.Stats", ofNode(c, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes)), c.clientStats),
		answer("FileSystem.List", "FileSystem.List", ofAlloc(c, func(r *message.FsListRequest) string { return r.AllocID }, acl.ReadFS), c.fsList),
		answer("FileSystem.Stat", "FileSystem.Stat", ofAlloc(c, func(r *message.FsStatRequest) string { return r.AllocID }, acl.ReadFS), c.fsStat),
		answer("NodeMeta.Apply", "NodeMeta.Apply", ofNode(c, func(r *message.NodeMetaApplyRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), c.metaApply),
		answer("NodeMeta.Read", "NodeMeta.Read", ofNode(c, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes)), c.metaRead),
		answer("NodeIdentity.Get", "NodeIdentity.Get", ofNode(c, func(r *message.NodeIdentityGetReq) string { return r.NodeID }, acl.ToRead(acl.Nodes)), c.identityGet),
		answer("NodeIdentity.Renew", "NodeIdentity.Renew", ofNode(c, func(r *message.NodeIdentityRenewReq) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), c.identityRenew),
		{relayed: rpc.Handle("NodeIdentity.Session", rpc.Token, rpc.Here, c.identitySession).Needs(rpc.AnyToken)}, // called by the servers themselves
		// These are called by the servers themselves.
		{relayed: rpc.Handle("HostVolume.Create", rpc.Token, rpc.Here, c.volumeCreate).Needs(rpc.AnyToken)},
		{relayed: rpc.Handle("HostVolume.Register", rpc.Token, rpc.Here, c.volumeRegister).Needs(rpc.AnyToken)},
		{relayed: rpc.Handle("HostVolume.Delete", rpc.Token, rpc.Here, c.volumeDelete).Needs(rpc.AnyToken)},
		answer("Agent.Host", "Agent.Host", ofAgent(c, acl.ToRead(acl.Agents), func(r *message.HostDataRequest) (node, server string) { return r.NodeID, r.ServerID }), c.hostData),
		answer("Agent.Profile", "Agent.Profile", ofAgent(c, acl.ToWrite(acl.Agents), func(r *message.AgentPprofRequest) (node, server string) { return r.NodeID, r.ServerID }), c.profile),
		answerStream("Agent.Monitor", ofAgent(c, acl.ToRead(acl.Agents), func(r *message.MonitorRequest) (node, server string) { return r.NodeID, r.ServerID }), c.monitorLog),
		answerStream("Agent.MonitorExport", ofAgent(c, acl.ToRead(acl.Agents), func(r *message.MonitorExportRequest) (node, server string) { return r.NodeID, r.ServerID }), c.exportLog),
		answerStream("Allocations.Exec", ofExec(c), c.allocExec),
		answerStream("Allocations.PortForward", ofAlloc(c, func(r *message.AllocPortForwardRequest) string { return r.AllocID }, acl.AllocPortForward), c.allocPortForward),
		answerStream("FileSystem.Logs", ofAlloc(c, func(r *message.FsLogsRequest) string { return r.AllocID }, acl.ReadFS, acl.ReadLogs), c.fsLogs),
		answerStream("FileSystem.Stream", ofAlloc(c, func(r *message.FsStreamRequest) string { return r.AllocID }, acl.ReadFS), c.fsStream),
	}
}
