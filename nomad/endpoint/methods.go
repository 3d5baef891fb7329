package endpoint

import (
	"slices"

	"github.com/open-nomad/open-nomad/internal/rpc"
	"github.com/open-nomad/open-nomad/nomad"
)

// Methods is the table of every RPC that a server answers: who may call it, and
// where it runs (compat/rpc.tsv).
func (s *Service) Methods() []rpc.Method {
	return slices.Concat(s.statusMethods(), s.jobMethods(), s.nodeMethods(), s.allocMethods(), s.schedulingMethods(),
		s.operatorMethods(), s.variableMethods(), s.snapshotMethods(), s.relayMethods(), absentMethods())
}

func (s *Service) statusMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Status.Ping", rpc.Anonymous, rpc.Here, s.statusPing),
		rpc.Handle("Status.Leader", rpc.Anonymous, rpc.Region, s.statusLeader),
		rpc.Handle("Status.Peers", rpc.Anonymous, rpc.Region, s.statusPeers),
		rpc.Handle("Status.Members", rpc.Token, rpc.Here, s.statusMembers).Needs(rpc.Good),
		rpc.Handle("Status.RaftStats", rpc.Anonymous, rpc.Here, s.statusRaftStats),
		rpc.Handle("Status.HasNodeConn", rpc.Anonymous, rpc.Here, s.statusHasNodeConn),
		rpc.Handle("Region.List", rpc.Anonymous, rpc.Here, s.regionList),
		rpc.Handle("ACL.WhoAmI", rpc.Token, rpc.Leader, s.whoAmI).Needs(rpc.Good),
		rpc.Handle("ACL.CreateClientIntroductionToken", rpc.Token, rpc.Leader, s.nodeIntroduce).Needs(rpc.Good),
	}
}

func (s *Service) jobMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Job.Register", rpc.Token, rpc.Leader, s.jobRegister).Needs(rpc.Good),
		rpc.Handle("Job.Plan", rpc.Token, rpc.Leader, s.jobPlan).Needs(rpc.Good),
		rpc.Handle("Job.Validate", rpc.Token, rpc.Leader, s.jobValidate).Needs(rpc.Good),
		rpc.Handle("Job.Dispatch", rpc.Token, rpc.Leader, s.jobDispatch).Needs(rpc.Good),
		rpc.Handle("Job.Deregister", rpc.Token, rpc.Leader, s.jobDeregister).Needs(rpc.Good),
		rpc.Handle("Job.BatchDeregister", rpc.Management, rpc.Leader, s.jobBatchDeregister),
		rpc.Handle("Job.Evaluate", rpc.Token, rpc.Leader, s.jobEvaluate).Needs(rpc.Good),
		rpc.Handle("Job.Stable", rpc.Token, rpc.Leader, s.jobStable).Needs(rpc.Good),
		rpc.Handle("Job.List", rpc.Token, rpc.Leader, s.jobList).Needs(rpc.Good),
		rpc.Handle("Job.Statuses", rpc.Token, rpc.Leader, s.jobStatuses).Needs(rpc.Good),
		rpc.Handle("Job.GetJob", rpc.Token, rpc.Leader, s.jobGet).Needs(rpc.Good),
		rpc.Handle("Job.GetJobVersions", rpc.Token, rpc.Leader, s.jobVersions).Needs(rpc.Good),
		rpc.Handle("Job.GetJobSubmission", rpc.Token, rpc.Leader, s.jobSubmission).Needs(rpc.Good),
		rpc.Handle("Job.Summary", rpc.Token, rpc.Leader, s.jobSummary).Needs(rpc.Good),
		rpc.Handle("Job.Allocations", rpc.Token, rpc.Leader, s.jobAllocations).Needs(rpc.Good),
		rpc.Handle("Job.Evaluations", rpc.Token, rpc.Leader, s.jobEvaluations).Needs(rpc.Good),
		rpc.Handle("Job.Deployments", rpc.Token, rpc.Leader, s.jobDeployments).Needs(rpc.Good),
		rpc.Handle("Job.LatestDeployment", rpc.Token, rpc.Leader, s.jobLatestDeployment).Needs(rpc.Good),
	}
}

func (s *Service) nodeMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Node.Register", rpc.NodeRegister, rpc.Leader, s.nodeRegister),
		rpc.Handle("Node.UpdateStatus", rpc.NodeStatus, rpc.Leader, s.nodeUpdateStatus),
		rpc.Handle("Node.UpdateAlloc", rpc.NodeOnly, rpc.Leader, s.nodeUpdateAlloc),
		rpc.Handle("Node.GetClientAllocs", rpc.NodeOnly, rpc.Leader, s.nodeGetClientAllocs),
		rpc.Handle("Node.EmitEvents", rpc.NodeOnly, rpc.Leader, s.nodeEmitEvents),
		rpc.Handle("NodeIdentity.Session", rpc.ServerOnly, rpc.Here, s.nodeSession),
		rpc.Handle("Node.Deregister", rpc.Token, rpc.Leader, s.nodeDeregister).Needs(rpc.Good),
		rpc.Handle("Node.BatchDeregister", rpc.Token, rpc.Leader, s.nodeBatchDeregister).Needs(rpc.Good),
		rpc.Handle("Node.UpdateEligibility", rpc.Token, rpc.Leader, s.nodeUpdateEligibility).Needs(rpc.Good),
		rpc.Handle("Node.UpdateDrain", rpc.Token, rpc.Leader, s.nodeUpdateDrain).Needs(rpc.Good),
		rpc.Handle("Node.Evaluate", rpc.Token, rpc.Leader, s.nodeEvaluate).Needs(rpc.Good),
		rpc.Handle("Node.List", rpc.Token, rpc.Leader, s.nodeList).Needs(rpc.Good),
		rpc.Handle("Node.GetNode", rpc.Token, rpc.Leader, s.nodeGet).Needs(rpc.Good),
		rpc.Handle("Node.GetAllocs", rpc.Token, rpc.Leader, s.nodeGetAllocs).Needs(rpc.Good),
		rpc.Handle("NodePool.List", rpc.Token, rpc.Leader, s.nodePoolList).Needs(rpc.Good),
		rpc.Handle("NodePool.GetNodePool", rpc.Token, rpc.Leader, s.nodePoolGet).Needs(rpc.Good),
		rpc.Handle("NodePool.ListJobs", rpc.Token, rpc.Leader, s.nodePoolJobs).Needs(rpc.Good),
		rpc.Handle("NodePool.ListNodes", rpc.Token, rpc.Leader, s.nodePoolNodes).Needs(rpc.Good),
		rpc.Handle("NodePool.UpsertNodePools", rpc.Token, rpc.Leader, s.nodePoolUpsert).Needs(rpc.Good),
		rpc.Handle("NodePool.DeleteNodePools", rpc.Token, rpc.Leader, s.nodePoolDelete).Needs(rpc.Good),
		rpc.Handle("Namespace.ListNamespaces", rpc.Token, rpc.Leader, s.namespaceList).Needs(rpc.Good),
		rpc.Handle("Namespace.GetNamespace", rpc.Token, rpc.Leader, s.namespaceGet).Needs(rpc.Good),
		rpc.Handle("Namespace.GetNamespaces", rpc.Management, rpc.Leader, s.namespaceGetSet),
		rpc.Handle("Namespace.UpsertNamespaces", rpc.Management, rpc.Leader, s.namespaceUpsert),
		rpc.Handle("Namespace.DeleteNamespaces", rpc.Management, rpc.Leader, s.namespaceDelete),
	}
}

func (s *Service) allocMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Alloc.List", rpc.Token, rpc.Leader, s.allocList).Needs(rpc.Good),
		rpc.Handle("Alloc.GetAlloc", rpc.Token, rpc.Leader, s.allocGet).Needs(rpc.Good),
		rpc.Handle("Alloc.GetAllocs", rpc.NodeOnly, rpc.Leader, s.allocGetAll),
		rpc.Handle("Alloc.SignIdentities", rpc.NodeOnly, rpc.Leader, s.allocSignIdentities),
		rpc.Handle("Alloc.Stop", rpc.Token, rpc.Leader, s.allocStop).Needs(rpc.Good),
		rpc.Handle("Alloc.UpdateDesiredTransition", rpc.Management, rpc.Leader, s.allocUpdateTransition),
	}
}

// schedulingMethods are those of evaluations, plans and deployments.
func (s *Service) schedulingMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Eval.Dequeue", rpc.ServerOnly, rpc.Leader, s.evalDequeue),
		rpc.Handle("Eval.Ack", rpc.ServerOnly, rpc.Leader, s.evalAck),
		rpc.Handle("Eval.Nack", rpc.ServerOnly, rpc.Leader, s.evalNack),
		rpc.Handle("Eval.Update", rpc.ServerOnly, rpc.Leader, s.evalUpdate),
		rpc.Handle("Eval.Create", rpc.ServerOnly, rpc.Leader, s.evalCreate),
		rpc.Handle("Eval.Reblock", rpc.ServerOnly, rpc.Leader, s.evalReblock),
		rpc.Handle("Eval.Reap", rpc.ServerOnly, rpc.Leader, s.evalReap),
		rpc.Handle("Eval.List", rpc.Token, rpc.Leader, s.evalList).Needs(rpc.Good),
		rpc.Handle("Eval.Count", rpc.Token, rpc.Leader, s.evalCount).Needs(rpc.Good),
		rpc.Handle("Eval.GetEval", rpc.Token, rpc.Leader, s.evalGet).Needs(rpc.Good),
		rpc.Handle("Eval.Allocations", rpc.Token, rpc.Leader, s.evalAllocations).Needs(rpc.Good),
		rpc.Handle("Plan.Submit", rpc.ServerOnly, rpc.Leader, s.planSubmit),
		rpc.Handle("Deployment.List", rpc.Token, rpc.Leader, s.deploymentList).Needs(rpc.Good),
		rpc.Handle("Deployment.GetDeployment", rpc.Token, rpc.Leader, s.deploymentGet).Needs(rpc.Good),
		rpc.Handle("Deployment.Allocations", rpc.Token, rpc.Leader, s.deploymentAllocations).Needs(rpc.Good),
		rpc.Handle("Deployment.Fail", rpc.Token, rpc.Leader, s.deploymentFail).Needs(rpc.Good),
		rpc.Handle("Deployment.Pause", rpc.Token, rpc.Leader, s.deploymentPause).Needs(rpc.Good),
		rpc.Handle("Deployment.Reap", rpc.ServerOnly, rpc.Leader, s.deploymentReap),
	}
}

func (s *Service) operatorMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Operator.SchedulerGetConfiguration", rpc.Token, rpc.Leader, s.schedulerGetConfig).Needs(rpc.Good),
		rpc.Handle("Operator.SchedulerSetConfiguration", rpc.Management, rpc.Leader, s.schedulerSetConfig),
		rpc.Handle("Operator.RaftGetConfiguration", rpc.Management, rpc.Leader, s.raftConfig),
		rpc.Handle("Operator.RaftRemovePeerByID", rpc.Management, rpc.Leader, s.raftRemove),
		rpc.Handle("Operator.RaftRemovePeerByAddress", rpc.Management, rpc.Leader, s.raftRemoveByAddress),
		rpc.Handle("Operator.TransferLeadershipToPeer", rpc.Management, rpc.Leader, s.raftTransfer),
		rpc.Handle("Operator.AutopilotGetConfiguration", rpc.Management, rpc.Leader, s.autopilotGet),
		rpc.Handle("Operator.AutopilotSetConfiguration", rpc.Management, rpc.Leader, s.autopilotSet),
		rpc.Handle("Operator.ServerHealth", rpc.Management, rpc.Leader, s.serverHealth),
		rpc.Handle("System.GarbageCollect", rpc.Management, rpc.Leader, s.systemGC),
		rpc.Handle("System.ReconcileJobSummaries", rpc.Management, rpc.Leader, s.systemReconcile),
		rpc.Handle("Keyring.List", rpc.Token, rpc.Leader, s.keyringList).Needs(rpc.Good),
		rpc.Handle("Keyring.Rotate", rpc.Management, rpc.Leader, s.keyringRotate),
		rpc.Handle("Keyring.Update", rpc.ServerOnly, rpc.Leader, s.keyringUpdate),
		rpc.Handle("Keyring.Delete", rpc.Management, rpc.Leader, s.keyringDelete),
		rpc.Handle("Keyring.ListPublic", rpc.Anonymous, rpc.Leader, s.keyringListPublic),
		rpc.Handle("Keyring.GetConfig", rpc.Anonymous, rpc.Region, s.keyringGetConfig),
	}
}

func (s *Service) variableMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Variables.Apply", rpc.Token, rpc.Leader, s.variableApply).Needs(rpc.Good),
		rpc.Handle("Variables.List", rpc.Token, rpc.Leader, s.variableList).Needs(rpc.Good),
		rpc.Handle("Variables.Read", rpc.Token, rpc.Leader, s.variableRead).Needs(rpc.Good),
		rpc.Handle("Variables.RenewLock", rpc.Token, rpc.Leader, s.variableRenew).Needs(rpc.Good),
	}
}

// relayMethods are answered by a node, over the session that it opened.
func (s *Service) relayMethods() []rpc.Method {
	return []rpc.Method{
		relay[nomad.AllocStatsRequest, nomad.AllocStatsResponse](s, "ClientAllocations.Stats", "Allocations.Stats",
			allocTarget(func(r *nomad.AllocStatsRequest) string { return r.AllocID })),
		relay[nomad.AllocChecksRequest, nomad.AllocChecksResponse](s, "ClientAllocations.Checks", "Allocations.Checks",
			allocTarget(func(r *nomad.AllocChecksRequest) string { return r.AllocID })),
		relay[nomad.AllocRestartRequest, nomad.GenericResponse](s, "ClientAllocations.Restart", "Allocations.Restart",
			allocTarget(func(r *nomad.AllocRestartRequest) string { return r.AllocID })),
		relay[nomad.AllocSignalRequest, nomad.GenericResponse](s, "ClientAllocations.Signal", "Allocations.Signal",
			allocTarget(func(r *nomad.AllocSignalRequest) string { return r.AllocID })),
		relay[nomad.AllocSpecificRequest, nomad.GenericResponse](s, "ClientAllocations.GarbageCollect", "Allocations.GarbageCollect",
			allocTarget(func(r *nomad.AllocSpecificRequest) string { return r.AllocID })),
		relay[nomad.NodeSpecificRequest, nomad.GenericResponse](s, "ClientAllocations.GarbageCollectAll", "Allocations.GarbageCollectAll",
			nodeTarget(func(r *nomad.NodeSpecificRequest) string { return r.NodeID })),
		relay[nomad.FsListRequest, nomad.FsListResponse](s, "FileSystem.List", "FileSystem.List",
			allocTarget(func(r *nomad.FsListRequest) string { return r.AllocID })),
		relay[nomad.FsStatRequest, nomad.FsStatResponse](s, "FileSystem.Stat", "FileSystem.Stat",
			allocTarget(func(r *nomad.FsStatRequest) string { return r.AllocID })),
		relayStream(s, "FileSystem.Logs", allocTarget(func(r *nomad.FsLogsRequest) string { return r.AllocID })),
		relayStream(s, "FileSystem.Stream", allocTarget(func(r *nomad.FsStreamRequest) string { return r.AllocID })),
		relay[nomad.NodeSpecificRequest, nomad.ClientStatsResponse](s, "ClientStats.Stats", "ClientStats.Stats",
			nodeTarget(func(r *nomad.NodeSpecificRequest) string { return r.NodeID })),
		relay[nomad.NodeIdentityGetReq, nomad.NodeIdentityGetResp](s, "NodeIdentity.Get", "NodeIdentity.Get",
			nodeTarget(func(r *nomad.NodeIdentityGetReq) string { return r.NodeID })),
		relay[nomad.NodeIdentityRenewReq, nomad.NodeIdentityRenewResp](s, "NodeIdentity.Renew", "NodeIdentity.Renew",
			nodeTarget(func(r *nomad.NodeIdentityRenewReq) string { return r.NodeID })),
	}
}

// features are what is still to come, with the methods that wait for it.
var features = map[string][]string{
	"access control lists": {"ACL.Bootstrap", "ACL.DeleteAuthMethods", "ACL.DeleteBindingRules", "ACL.DeletePolicies", "ACL.DeleteRolesByID",
		"ACL.DeleteTokens", "ACL.ExchangeOneTimeToken", "ACL.ExpireOneTimeTokens", "ACL.GetAuthMethod", "ACL.GetAuthMethods",
		"ACL.GetBindingRule", "ACL.GetBindingRules", "ACL.GetClaimPolicies", "ACL.GetPolicies", "ACL.GetPolicy", "ACL.GetRoleByID",
		"ACL.GetRoleByName", "ACL.GetRolesByID", "ACL.GetToken", "ACL.GetTokens", "ACL.ListAuthMethods", "ACL.ListBindingRules",
		"ACL.ListPolicies", "ACL.ListRoles", "ACL.ListTokens", "ACL.Login", "ACL.OIDCAuthURL", "ACL.OIDCCompleteAuth", "ACL.ResolveToken",
		"ACL.UpsertAuthMethods", "ACL.UpsertBindingRules", "ACL.UpsertOneTimeToken", "ACL.UpsertPolicies", "ACL.UpsertRoles", "ACL.UpsertTokens"},
	"debugging over RPC": {"Agent.Host", "Agent.Profile"},
	"services":           {"Alloc.GetServiceRegistrations", "Job.GetServiceRegistrations", "ServiceRegistration.DeleteByID", "ServiceRegistration.GetService", "ServiceRegistration.List", "ServiceRegistration.Upsert"},
	"CSI volumes": {"CSIPlugin.Delete", "CSIPlugin.Get", "CSIPlugin.List", "CSIVolume.Claim", "CSIVolume.Create", "CSIVolume.CreateSnapshot", "CSIVolume.Delete", "CSIVolume.DeleteSnapshot", "CSIVolume.Deregister", "CSIVolume.Get", "CSIVolume.List", "CSIVolume.ListExternal", "CSIVolume.ListSnapshots", "CSIVolume.Register", "CSIVolume.Unpublish",
		"ClientCSI.ControllerAttachVolume", "ClientCSI.ControllerCreateSnapshot", "ClientCSI.ControllerCreateVolume", "ClientCSI.ControllerDeleteSnapshot",
		"ClientCSI.ControllerDeleteVolume", "ClientCSI.ControllerDetachVolume", "ClientCSI.ControllerExpandVolume", "ClientCSI.ControllerListSnapshots",
		"ClientCSI.ControllerListVolumes", "ClientCSI.ControllerValidateVolume", "ClientCSI.NodeDetachVolume", "ClientCSI.NodeExpandVolume"},
	"task schedules":          {"ClientAllocations.GetPauseState", "ClientAllocations.SetPauseState"},
	"cancelling deployments":  {"Deployment.Cancel", "Deployment.Run", "Deployment.Unblock"},
	"canaries and promotion":  {"Deployment.Promote"},
	"setting health by hand":  {"Deployment.SetAllocHealth"},
	"deletion of evaluations": {"Eval.Delete"},
	"dynamic host volumes":    {"HostVolume.Create", "HostVolume.Delete", "HostVolume.Get", "HostVolume.List", "HostVolume.Register", "ClientHostVolume.Create", "ClientHostVolume.Delete", "ClientHostVolume.Register", "TaskGroupHostVolumeClaim.Delete", "TaskGroupHostVolumeClaim.List"},
	"job actions":             {"Job.GetActions"},
	"reverting of jobs":       {"Job.Revert"},
	"scaling":                 {"Job.Scale", "Job.ScaleStatus", "Scaling.GetPolicy", "Scaling.ListPolicies"},
	"version tags of jobs":    {"Job.TagVersion"},
	"root keys outside Raft":  {"Keyring.Get"},
	"metadata of nodes":       {"NodeMeta.Apply", "NodeMeta.Read"},
	"upgrade checks":          {"Operator.UpgradeCheckVaultWorkloadIdentity"},
	"periodic jobs":           {"Periodic.Force"},
	"search":                  {"Search.FuzzySearch", "Search.PrefixSearch"},
}

// absentStreams are the streaming methods that wait for a feature.
var absentStreams = map[string]string{
	"Allocations.Exec": "execution in tasks", "Agent.Monitor": "monitoring over RPC", "Agent.MonitorExport": "monitoring over RPC",
	"Event.Stream": "the event stream",
}

// absentMethods are the rows of features still to come: each fails by the name of
// its feature. They admit everybody, since they do nothing.
func absentMethods() []rpc.Method {
	var out []rpc.Method
	for feature, names := range features {
		for _, name := range names {
			out = append(out, rpc.Refuse(name, rpc.Token, absent(feature)))
		}
	}
	for name, feature := range absentStreams {
		out = append(out, rpc.RefuseStream(name, rpc.Token, absent(feature)))
	}
	return out
}
