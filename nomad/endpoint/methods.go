package endpoint

import (
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Methods is the table of every RPC that a server answers: who may call it, where it runs,
// and what it requires.
func (s *Service) Methods() []rpc.Method {
	return slices.Concat(s.statusMethods(), s.jobMethods(), s.nodeMethods(), s.allocMethods(), s.schedulingMethods(),
		s.operatorMethods(), s.variableMethods(), s.quotaMethods(), s.searchMethods(), s.snapshotMethods(), s.eventMethods(),
		s.aclMethods(), s.relayMethods(), absentMethods())
}

func (s *Service) statusMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Status.Ping", rpc.Anonymous, rpc.Here, s.statusPing),
		rpc.Handle("Status.Leader", rpc.Anonymous, rpc.Region, s.statusLeader),
		rpc.Handle("Status.Peers", rpc.Anonymous, rpc.Region, s.statusPeers),
		rpc.Handle("Status.Members", rpc.Token, rpc.Here, s.statusMembers).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
		rpc.Handle("Status.Regroup", rpc.ServerOnly, rpc.Here, s.statusMembers), // for servers without known peers
		rpc.Handle("Status.RaftStats", rpc.Anonymous, rpc.Here, s.statusRaftStats),
		rpc.Handle("Status.HasNodeConn", rpc.Anonymous, rpc.Here, s.statusHasNodeConn),
		rpc.Handle("Region.List", rpc.Anonymous, rpc.Here, s.regionList),
		rpc.Handle("ACL.WhoAmI", rpc.Token, rpc.Leader, s.access.WhoAmI).Needs(rpc.Good),
		rpc.Handle("ACL.CreateClientIntroductionToken", rpc.Token, rpc.Leader, s.nodeIntroduce).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
	}
}

func (s *Service) jobMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Job.Register", rpc.Token, rpc.Leader, s.jobRegister).Needs(rpc.Asked("ns:[submit-job register-job] of the job, and what it mounts").First(rpc.InNamed(acl.SubmitJob, acl.RegisterJob))),
		rpc.Handle("Job.Plan", rpc.Token, rpc.Leader, s.jobPlan).Needs(rpc.Asked("ns:[submit-job plan-job] of the job").First(rpc.InNamed(acl.SubmitJob, acl.PlanJob))),
		rpc.Handle("Job.Validate", rpc.Token, rpc.Leader, s.jobValidate).Needs(rpc.Asked("ns:[read-job] of the job").First(rpc.InNamed(acl.ReadJob))),
		rpc.Handle("Job.Dispatch", rpc.Token, rpc.Leader, s.jobDispatch).Needs(rpc.InOneNamespace(acl.DispatchJob)),
		rpc.Handle("Job.Deregister", rpc.Token, rpc.Leader, s.jobDeregister).Needs(rpc.Asked("ns:[submit-job purge-job deregister-job], the last to stop only")),
		rpc.Handle("Job.BatchDeregister", rpc.Management, rpc.Leader, s.jobBatchDeregister),
		rpc.Handle("Job.Evaluate", rpc.Token, rpc.Leader, s.jobEvaluate).Needs(rpc.InOneNamespace(acl.SubmitJob, acl.EvaluateJob)),
		rpc.Handle("Job.Stable", rpc.Token, rpc.Leader, s.jobStable).Needs(rpc.InOneNamespace(acl.SubmitJob, acl.StableJob)),
		rpc.Handle("Job.List", rpc.Token, rpc.Leader, s.jobList).Needs(rpc.InNamespace(acl.ListJobs)),
		rpc.Handle("Job.Statuses", rpc.Token, rpc.Leader, s.jobStatuses).Needs(rpc.InSomeNamespace(acl.ReadJob)),
		rpc.Handle("Job.GetJob", rpc.Token, rpc.Leader, s.jobGet).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.GetJobVersions", rpc.Token, rpc.Leader, s.jobVersions).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.GetJobSubmission", rpc.Token, rpc.Leader, s.jobSubmission).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Summary", rpc.Token, rpc.Leader, s.jobSummary).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Allocations", rpc.Token, rpc.Leader, s.jobAllocations).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Evaluations", rpc.Token, rpc.Leader, s.jobEvaluations).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Deployments", rpc.Token, rpc.Leader, s.jobDeployments).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.LatestDeployment", rpc.Token, rpc.Leader, s.jobLatestDeployment).Needs(rpc.InOneNamespace(acl.ReadJob)),
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
		rpc.Handle("Node.Deregister", rpc.Token, rpc.Leader, s.nodeDeregister).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.BatchDeregister", rpc.Token, rpc.Leader, s.nodeBatchDeregister).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.UpdateEligibility", rpc.Token, rpc.Leader, s.nodeUpdateEligibility).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.UpdateDrain", rpc.Token, rpc.Leader, s.nodeUpdateDrain).Needs(rpc.Asked("node:[write], or the node itself").First(rpc.Needs(acl.ToWrite(acl.Nodes)).Or(rpc.AnyNode))),
		rpc.Handle("Node.Evaluate", rpc.Token, rpc.Leader, s.nodeEvaluate).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.List", rpc.Token, rpc.Leader, s.nodeList).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
		rpc.Handle("Node.GetNode", rpc.Token, rpc.Leader, s.nodeGet).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
		rpc.Handle("Node.GetAllocs", rpc.Token, rpc.Leader, s.nodeGetAllocs).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
		rpc.Handle("NodePool.List", rpc.Token, rpc.Leader, s.nodePoolList).Needs(rpc.Good),
		rpc.Handle("NodePool.GetNodePool", rpc.Token, rpc.Leader, s.nodePoolGet).Needs(rpc.Asked("node_pool:[read]")),
		rpc.Handle("NodePool.ListJobs", rpc.Token, rpc.Leader, s.nodePoolJobs).Needs(rpc.Asked("node_pool:[read] and ns:[list-jobs]")),
		rpc.Handle("NodePool.ListNodes", rpc.Token, rpc.Leader, s.nodePoolNodes).Needs(rpc.Asked("node:[read] and node_pool:[read]")),
		rpc.Handle("NodePool.UpsertNodePools", rpc.Token, rpc.Leader, s.nodePoolUpsert).Needs(rpc.Asked("node_pool:[write] of each").First(rpc.Somewhere(acl.OfNodePool("", acl.NodePoolWrite)))).AtHome(always),
		rpc.Handle("NodePool.DeleteNodePools", rpc.Token, rpc.Leader, s.nodePoolDelete).Needs(rpc.Asked("node_pool:[delete] of each")).AtHome(always),
		rpc.Handle("Namespace.ListNamespaces", rpc.Token, rpc.Leader, s.namespaceList).Needs(rpc.Good),
		rpc.Handle("Namespace.GetNamespace", rpc.Token, rpc.Leader, s.namespaceGet).Needs(rpc.Asked("any right in the namespace")),
		rpc.Handle("Namespace.GetNamespaces", rpc.Management, rpc.Leader, s.namespaceGetSet),
		rpc.Handle("Namespace.UpsertNamespaces", rpc.Management, rpc.Leader, s.namespaceUpsert).AtHome(always),
		rpc.Handle("Namespace.DeleteNamespaces", rpc.Management, rpc.Leader, s.namespaceDelete).AtHome(always),
	}
}

func (s *Service) allocMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Alloc.List", rpc.Token, rpc.Leader, s.allocs.List).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Alloc.GetAlloc", rpc.Token, rpc.Leader, s.allocs.Get).Needs(rpc.Asked("ns:[read-job] of the allocation, or its node")),
		rpc.Handle("Alloc.GetAllocs", rpc.NodeOnly, rpc.Leader, s.allocs.GetAll),
		rpc.Handle("Alloc.SignIdentities", rpc.NodeOnly, rpc.Leader, s.allocs.SignIdentities),
		rpc.Handle("Alloc.Stop", rpc.Token, rpc.Leader, s.allocs.Stop).Needs(rpc.Asked("ns:[alloc-lifecycle] of the allocation")),
		rpc.Handle("Alloc.UpdateDesiredTransition", rpc.Management, rpc.Leader, s.allocs.UpdateTransition),
	}
}

// schedulingMethods returns the methods of evaluations, plans and deployments.
func (s *Service) schedulingMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Eval.Dequeue", rpc.ServerOrCertificate, rpc.Leader, s.evalDequeue),
		rpc.Handle("Eval.Ack", rpc.ServerOrCertificate, rpc.Leader, s.evalAck),
		rpc.Handle("Eval.Nack", rpc.ServerOrCertificate, rpc.Leader, s.evalNack),
		rpc.Handle("Eval.Update", rpc.ServerOrCertificate, rpc.Leader, s.evalUpdate),
		rpc.Handle("Eval.Create", rpc.ServerOrCertificate, rpc.Leader, s.evalCreate),
		rpc.Handle("Eval.Finish", rpc.ServerOnly, rpc.Leader, s.evalFinish),
		rpc.Handle("Eval.Reblock", rpc.ServerOrCertificate, rpc.Leader, s.evalReblock),
		rpc.Handle("Eval.Reap", rpc.ServerOnly, rpc.Leader, s.evalReap),
		rpc.Handle("Eval.List", rpc.Token, rpc.Leader, s.evalList).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Eval.Count", rpc.Token, rpc.Leader, s.evalCount).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Eval.GetEval", rpc.Token, rpc.Leader, s.evalGet).Needs(rpc.Asked("ns:[read-job] of the evaluation")),
		rpc.Handle("Eval.Allocations", rpc.Token, rpc.Leader, s.evalAllocations).Needs(rpc.Asked("ns:[read-job] of each allocation")),
		rpc.Handle("Plan.Submit", rpc.ServerOrCertificate, rpc.Leader, s.planSubmit),
		rpc.Handle("Deployment.List", rpc.Token, rpc.Leader, s.deploymentList).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Deployment.GetDeployment", rpc.Token, rpc.Leader, s.deploymentGet).Needs(rpc.Asked("ns:[read-job] of the deployment")),
		rpc.Handle("Deployment.Allocations", rpc.Token, rpc.Leader, s.deploymentAllocations).Needs(rpc.Asked("ns:[read-job] of each allocation")),
		rpc.Handle("Deployment.Fail", rpc.Token, rpc.Leader, s.deploymentFail).Needs(rpc.Asked("ns:[submit-job fail-deployment] of the deployment").First(somewhere(acl.SubmitJob, acl.FailDeployment))),
		rpc.Handle("Deployment.Pause", rpc.Token, rpc.Leader, s.deploymentPause).Needs(rpc.Asked("ns:[submit-job pause-deployment] of the deployment").First(somewhere(acl.SubmitJob, acl.PauseDeployment))),
		rpc.Handle("Deployment.Reap", rpc.ServerOnly, rpc.Leader, s.deploymentReap),
	}
}

func (s *Service) operatorMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Operator.SchedulerGetConfiguration", rpc.Token, rpc.Leader, s.schedulerGetConfig).Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("Operator.SchedulerSetConfiguration", rpc.Token, rpc.Leader, s.schedulerSetConfig).Needs(rpc.Needs(acl.ToWrite(acl.Operators))),
		rpc.Handle("Operator.RaftGetConfiguration", rpc.Management, rpc.Leader, s.raftConfig),
		rpc.Handle("Operator.RaftRemovePeerByID", rpc.Management, rpc.Leader, s.raftRemove),
		rpc.Handle("Operator.RaftRemovePeerByAddress", rpc.Management, rpc.Leader, s.raftRemoveByAddress),
		rpc.Handle("Operator.TransferLeadershipToPeer", rpc.Management, rpc.Leader, s.raftTransfer),
		rpc.Handle("Operator.AutopilotGetConfiguration", rpc.Token, rpc.Leader, s.autopilotGet).Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("Operator.AutopilotSetConfiguration", rpc.Token, rpc.Leader, s.autopilotSet).Needs(rpc.Needs(acl.ToWrite(acl.Operators))),
		rpc.Handle("Operator.ServerHealth", rpc.Token, rpc.Leader, s.serverHealth).Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("System.GarbageCollect", rpc.Management, rpc.Leader, s.systemGC),
		rpc.Handle("System.ReconcileJobSummaries", rpc.Management, rpc.Leader, s.systemReconcile),
		rpc.Handle("Keyring.List", rpc.Token, rpc.Leader, s.keys.List).Needs(rpc.Needs(acl.OfOperator(acl.KeyringRead))),
		rpc.Handle("Keyring.Rotate", rpc.Token, rpc.Leader, s.keys.Rotate).Needs(rpc.Needs(acl.OfOperator(acl.KeyringRotate))),
		rpc.Handle("Keyring.Update", rpc.ServerOnly, rpc.Leader, s.keys.Update),
		rpc.Handle("Keyring.Delete", rpc.Token, rpc.Leader, s.keys.Delete).Needs(rpc.Needs(acl.OfOperator(acl.KeyringDelete))),
		rpc.Handle("Keyring.ListPublic", rpc.Anonymous, rpc.Leader, s.keys.ListPublic),
		rpc.Handle("Keyring.GetConfig", rpc.Anonymous, rpc.Region, s.keys.GetConfig),
	}
}

func (s *Service) variableMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Variables.Apply", rpc.Token, rpc.Leader, s.variableApply).Needs(rpc.Asked("variables:[write] or variables:[destroy] of the path").First(variables(acl.VariableWrite, acl.VariableDestroy))),
		rpc.Handle("Variables.List", rpc.Token, rpc.Leader, s.variableList).Needs(rpc.Asked("variables:[list] of each path")),
		rpc.Handle("Variables.Read", rpc.Token, rpc.Leader, s.variableRead).Needs(rpc.Asked("variables:[read] of the path")),
		rpc.Handle("Variables.RenewLock", rpc.Token, rpc.Leader, s.variableRenew).Needs(rpc.Asked("variables:[write] of the path").First(variables(acl.VariableWrite))),
	}
}

// somewhere requires one of the rights in any namespace.
func somewhere(ops ...acl.NamespaceCapability) rpc.Check {
	return rpc.Somewhere(acl.InNamespace("", ops...))
}

// variables requires one of the rights on any variable.
func variables(ops ...acl.VariableCapability) rpc.Check {
	q := acl.Question{Kind: acl.Variables}
	for _, op := range ops {
		q.Rights = append(q.Rights, string(op))
	}
	return rpc.Somewhere(q)
}

// always reports that a request goes to the authoritative region with or without access
// control. Replication would revert a write to any other region.
func always(rpc.Request) bool { return true }

func (s *Service) quotaMethods() []rpc.Method {
	reads, writes := rpc.Needs(acl.ToRead(acl.Quotas)), rpc.Needs(acl.ToWrite(acl.Quotas))
	return []rpc.Method{
		rpc.Handle("Quota.List", rpc.Token, rpc.Leader, s.quotaList).Needs(reads),
		rpc.Handle("Quota.Get", rpc.Token, rpc.Leader, s.quotaGet).Needs(reads),
		rpc.Handle("Quota.Usages", rpc.Token, rpc.Leader, s.quotaUsages).Needs(reads),
		rpc.Handle("Quota.Usage", rpc.Token, rpc.Leader, s.quotaUsage).Needs(reads),
		rpc.Handle("Quota.Upsert", rpc.Token, rpc.Leader, s.quotaUpsert).Needs(writes).AtHome(always),
		rpc.Handle("Quota.Delete", rpc.Token, rpc.Leader, s.quotaDelete).Needs(writes).AtHome(always),
	}
}

// searchMethods returns the methods that search all kinds of objects. The results depend on
// the rights of the caller. A caller without any right is rejected.
func (s *Service) searchMethods() []rpc.Method {
	check := rpc.Asked("by context: ns:read-job, variables list, node:read, any of a namespace or node pool")
	return []rpc.Method{
		rpc.Handle("Search.PrefixSearch", rpc.Token, rpc.Leader, s.searchPrefix).Needs(check),
		rpc.Handle("Search.FuzzySearch", rpc.Token, rpc.Leader, s.searchFuzzy).Needs(check),
	}
}

func (s *Service) eventMethods() []rpc.Method {
	return []rpc.Method{
		rpc.HandleStream("Event.Stream", rpc.Token, rpc.Region, s.eventStream).
			Needs(rpc.Asked("ns:[read-job], node:[read], variables:[list] or management, by topic")).
			FailingAs(func(e *nomad.RpcError) any { return &nomad.EventStreamWrapper{Error: e} }),
	}
}

// snapshotMethods returns the snapshot methods. They report errors in their own responses,
// unlike other streams.
func (s *Service) snapshotMethods() []rpc.Method {
	return []rpc.Method{
		rpc.HandleStream("Operator.SnapshotSave", rpc.Token, rpc.Leader, s.snapshotSave).Needs(rpc.Needs(acl.OfOperator(acl.SnapshotSave))).FailingAs(func(e *nomad.RpcError) any {
			return &nomad.SnapshotSaveResponse{ErrorCode: errorCode(e), ErrorMsg: e.Message}
		}),
		rpc.HandleStream("Operator.SnapshotRestore", rpc.Management, rpc.Leader, s.snapshotRestore).FailingAs(func(e *nomad.RpcError) any {
			return &nomad.SnapshotRestoreResponse{ErrorCode: errorCode(e), ErrorMsg: e.Message}
		}),
	}
}
