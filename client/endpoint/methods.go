package endpoint

import (
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// methods lists every RPC that a node answers. Each row has the name used by servers, the name
// used by this process's agent, and the required rights.
func (s *Service) methods() []method {
	return slices.Concat(s.allocMethods(), s.sessionMethods(), s.fileMethods(), s.nodeMethods(), s.agentMethods(), s.serverMethods(),
		s.csiMethods())
}

func (s *Service) allocMethods() []method {
	h := allocations{allocs: s.cfg.Allocs, results: s.cfg.Checks, consul: s.cfg.Consul}
	return []method{
		handle("Allocations.Checks", "ClientAllocations.Checks",
			ofAlloc(s, func(r *message.AllocChecksRequest) string { return r.AllocID }, acl.ReadJob), h.checks),
		handle("Allocations.GarbageCollect", "ClientAllocations.GarbageCollect",
			ofAlloc(s, func(r *message.AllocSpecificRequest) string { return r.AllocID }, acl.SubmitJob, acl.GCAllocation), h.collect),
		handle("Allocations.GarbageCollectAll", "ClientAllocations.GarbageCollectAll",
			ofNode(s, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), h.collectAll),
		handle("Allocations.DiffTemplates", "ClientAllocations.DiffTemplates",
			ofAlloc(s, func(r *message.AllocTemplatesRequest) string { return r.AllocID }, acl.ReadFS), h.diffTemplates),
		handle("Allocations.RenderTemplates", "ClientAllocations.RenderTemplates",
			ofAlloc(s, func(r *message.AllocTemplatesRequest) string { return r.AllocID }, acl.AllocLifecycle), h.renderTemplates),
		handle("Allocations.GetPauseState", "ClientAllocations.GetPauseState",
			ofAlloc(s, func(r *message.AllocGetPauseStateRequest) string { return r.AllocID }, acl.ReadJob), h.getPause),
		handle("Allocations.SetPauseState", "ClientAllocations.SetPauseState",
			ofAlloc(s, func(r *message.AllocPauseRequest) string { return r.AllocID }, acl.SubmitJob, acl.PauseAllocation), h.setPause),
		handle("Allocations.Restart", "ClientAllocations.Restart",
			ofAlloc(s, func(r *message.AllocRestartRequest) string { return r.AllocID }, acl.AllocLifecycle), h.restart),
		handle("Allocations.Sandbox", "ClientAllocations.Sandbox",
			ofAlloc(s, func(r *message.AllocSandboxRequest) string { return r.AllocID }, acl.ReadFS), h.sandbox),
		handle("Allocations.Signal", "ClientAllocations.Signal",
			ofAlloc(s, func(r *message.AllocSignalRequest) string { return r.AllocID }, acl.AllocLifecycle), h.signal),
		handle("Allocations.Stats", "ClientAllocations.Stats",
			ofAlloc(s, func(r *message.AllocStatsRequest) string { return r.AllocID }, acl.ReadJob), h.stats),
	}
}

// sessionMethods returns the streams that run or connect something in an allocation.
func (s *Service) sessionMethods() []method {
	execs := sessions{allocs: s.cfg.Allocs, drivers: s.cfg.Drivers, disabled: s.cfg.DisableRemoteExec, limits: exec.NewLimits("exec sessions"),
		log: s.cfg.Log}
	forwards := &forwards{allocs: s.cfg.Allocs, disabled: s.cfg.DisableRemoteExec, limits: exec.NewLimits("forwarded connections"),
		log: s.cfg.Log}
	return []method{
		handleStream("Allocations.Exec", ofExec(s, execs), execs.exec),
		handleStream("Allocations.PortForward",
			ofAlloc(s, func(r *message.AllocPortForwardRequest) string { return r.AllocID }, acl.AllocPortForward), forwards.forward),
	}
}

func (s *Service) fileMethods() []method {
	h := files{allocs: s.cfg.Allocs}
	return []method{
		handle("FileSystem.List", "FileSystem.List",
			ofAlloc(s, func(r *message.FsListRequest) string { return r.AllocID }, acl.ReadFS), h.list),
		handle("FileSystem.Stat", "FileSystem.Stat",
			ofAlloc(s, func(r *message.FsStatRequest) string { return r.AllocID }, acl.ReadFS), h.stat),
		handleStream("FileSystem.Logs",
			ofAlloc(s, func(r *message.FsLogsRequest) string { return r.AllocID }, acl.ReadFS, acl.ReadLogs), h.logs),
		handleStream("FileSystem.Stream",
			ofAlloc(s, func(r *message.FsStreamRequest) string { return r.AllocID }, acl.ReadFS), h.stream),
	}
}

func (s *Service) nodeMethods() []method {
	h := s.nodeHandler()
	return []method{
		handle("ArtifactCache.Purge", "ArtifactCache.Purge",
			ofNode(s, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), h.purgeCache),
		handle("ArtifactCache.Status", "ArtifactCache.Status",
			ofNode(s, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes)), h.cacheStatus),
		handle("ClientStats.Stats", "ClientStats.Stats",
			ofNode(s, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes)), h.stats),
		handle("NodeMeta.Apply", "NodeMeta.Apply",
			ofNode(s, func(r *message.NodeMetaApplyRequest) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), h.metaApply),
		handle("NodeMeta.Read", "NodeMeta.Read",
			ofNode(s, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes)), h.metaRead),
		handle("NodeIdentity.Get", "NodeIdentity.Get",
			ofNode(s, func(r *message.NodeIdentityGetReq) string { return r.NodeID }, acl.ToRead(acl.Nodes)), h.identityGet),
		handle("NodeIdentity.Renew", "NodeIdentity.Renew",
			ofNode(s, func(r *message.NodeIdentityRenewReq) string { return r.NodeID }, acl.ToWrite(acl.Nodes)), h.identityRenew),
		handle("VaultTokens.List", "VaultTokens.List",
			ofNode(s, func(r *message.NodeSpecificRequest) string { return r.NodeID }, acl.ToRead(acl.Nodes)), vaultTokens{s}.list),
	}
}

func (s *Service) nodeHandler() node {
	return node{Node: s.cfg.Node, identity: s.cfg.Identity, session: s.cfg.Session, host: s.cfg.Host, meta: s.cfg.Meta,
		artifacts: s.cfg.Artifacts}
}

func (s *Service) agentMethods() []method {
	h := agent{nodeID: s.cfg.Identity.ID, accessControl: s.cfg.AccessControl, monitor: s.cfg.Monitor, profiles: s.cfg.Profiles}
	return []method{
		handle("Agent.Host", "Agent.Host",
			ofAgent(s, acl.ToRead(acl.Agents), func(r *message.HostDataRequest) (string, string) { return r.NodeID, r.ServerID }),
			h.hostData),
		handle("Agent.Profile", "Agent.Profile",
			ofAgent(s, acl.ToWrite(acl.Agents), func(r *message.AgentPprofRequest) (string, string) { return r.NodeID, r.ServerID }),
			h.profile),
		handleStream("Agent.Monitor",
			ofAgent(s, acl.ToRead(acl.Agents), func(r *message.MonitorRequest) (string, string) { return r.NodeID, r.ServerID }),
			h.monitorLog),
		handleStream("Agent.MonitorExport",
			ofAgent(s, acl.ToRead(acl.Agents), func(r *message.MonitorExportRequest) (string, string) { return r.NodeID, r.ServerID }),
			h.exportLog),
	}
}

// serverMethods returns the methods that servers call by themselves, not for a caller of theirs.
func (s *Service) serverMethods() []method {
	h := volumes{s.cfg.Volumes}
	return []method{
		{relayed: rpc.Handle("NodeIdentity.Session", rpc.Token, rpc.Here, s.nodeHandler().sessionID).Needs(rpc.AnyToken)},
		{relayed: rpc.Handle("HostVolume.Create", rpc.Token, rpc.Here, h.create).Needs(rpc.AnyToken)},
		{relayed: rpc.Handle("HostVolume.Register", rpc.Token, rpc.Here, h.register).Needs(rpc.AnyToken)},
		{relayed: rpc.Handle("HostVolume.Delete", rpc.Token, rpc.Here, h.delete).Needs(rpc.AnyToken)},
	}
}
