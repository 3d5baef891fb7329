package endpoint

import (
	"errors"
	"net/http"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Methods is the table of every RPC that a server answers: who may call it, where it runs,
// and what it requires.
func (s *Service) Methods() []rpc.Method {
	return slices.Concat(s.statusMethods(), s.jobMethods(), s.nodeMethods(), s.allocMethods(), s.schedulingMethods(),
		s.operatorMethods(), s.variableMethods(), s.quotaMethods(), s.searchMethods(), s.snapshotMethods(), s.eventMethods(),
		s.aclMethods(), s.relayMethods(), s.serviceMethods(), s.volumeMethods(), s.csiMethods(), s.clientCSIMethods(),
		s.spiffeMethods(), absentMethods())
}

func (s *Service) statusMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Status.Ping", rpc.Anonymous, rpc.Here, s.servers.Ping),
		rpc.Handle("Status.Leader", rpc.Anonymous, rpc.Region, s.servers.Leader),
		rpc.Handle("Status.Peers", rpc.Anonymous, rpc.Region, s.servers.RaftPeers),
		rpc.Handle("Status.Members", rpc.Token, rpc.Here, s.servers.Members).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
		rpc.Handle("Status.Regroup", rpc.ServerOnly, rpc.Here, s.servers.Members), // for servers without known peers
		rpc.Handle("Status.RaftStats", rpc.Anonymous, rpc.Here, s.servers.RaftStats),
		rpc.Handle("Status.HasNodeConn", rpc.Anonymous, rpc.Here, s.servers.HasNodeConn),
		rpc.Handle("Region.List", rpc.Anonymous, rpc.Here, s.servers.Regions),
		rpc.Handle("ACL.WhoAmI", rpc.Token, rpc.Leader, s.access.WhoAmI).Needs(rpc.AnyToken),
		rpc.Handle("ACL.CreateClientIntroductionToken", rpc.Token, rpc.Leader, s.nodes.Introduce).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
	}
}

func (s *Service) jobMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Job.Register", rpc.Token, rpc.Leader, s.jobs.Register).
			Needs(rpc.On("the job", inNamespace(acl.SubmitJob, acl.RegisterJob)).Also("rights on its volumes; " + privileged).
				Before(rpc.InOneNamespace(acl.SubmitJob, acl.RegisterJob))),
		rpc.Handle("Job.Plan", rpc.Token, rpc.Leader, s.jobs.Plan).
			Needs(rpc.On("the job", inNamespace(acl.SubmitJob, acl.PlanJob)).Also(privileged).
				Before(rpc.InOneNamespace(acl.SubmitJob, acl.PlanJob))),
		rpc.Handle("Job.Explain", rpc.Token, rpc.Leader, s.jobs.Explain).
			Needs(rpc.On("the registered job", inNamespace(acl.ReadJob)).
				Or(rpc.On("the sent one", inNamespace(acl.SubmitJob, acl.PlanJob))).Also("node:[read] for nodes").
				Before(rpc.InOneNamespace(acl.ReadJob, acl.SubmitJob, acl.PlanJob))),
		rpc.Handle("Job.Validate", rpc.Token, rpc.Leader, s.jobs.Validate).
			Needs(rpc.On("the job", inNamespace(acl.ReadJob)).Also(privileged).Before(rpc.InOneNamespace(acl.ReadJob))),
		rpc.Handle("Job.Revert", rpc.Token, rpc.Leader, s.jobs.Revert).
			Needs(rpc.On("the job", inNamespace(acl.SubmitJob, acl.RevertJob)).Also("rights on its volumes; " + privileged).
				Before(rpc.InOneNamespace(acl.SubmitJob, acl.RevertJob))),
		rpc.Handle("Job.TagVersion", rpc.Token, rpc.Leader, s.jobs.TagVersion).Needs(rpc.InOneNamespace(acl.SubmitJob, acl.TagJobVersion)),
		rpc.Handle("Job.Dispatch", rpc.Token, rpc.Leader, s.jobs.Dispatch).Needs(rpc.InOneNamespace(acl.DispatchJob)),
		rpc.Handle("Periodic.Force", rpc.Token, rpc.Leader, s.jobs.ForcePeriodic).
			Needs(rpc.InOneNamespace(acl.DispatchJob, acl.SubmitJob, acl.ForcePeriodicJob)),
		rpc.Handle("Job.Scale", rpc.Token, rpc.Leader, s.jobs.Scale).Needs(rpc.InOneNamespace(acl.ScaleJob, acl.SubmitJob)),
		rpc.Handle("Job.ScaleStatus", rpc.Token, rpc.Leader, s.jobs.ScaleStatus).Needs(rpc.InOneNamespace(acl.ReadJob, acl.ReadJobScaling)),
		rpc.Handle("Scaling.ListPolicies", rpc.Token, rpc.Leader, s.jobs.Policies).
			Needs(rpc.InNamespace(acl.ListScalingPolicies).Or(rpc.InNamespace(acl.ListJobs).And(rpc.InNamespace(acl.ReadJob)))),
		rpc.Handle("Scaling.GetPolicy", rpc.Token, rpc.Leader, s.jobs.Policy).
			Needs(rpc.On("the policy", inNamespace(acl.ReadScalingPolicy)).
				Or(rpc.On("the policy", inNamespace(acl.ListJobs), inNamespace(acl.ReadJob))).
				Before(somewhere(acl.ReadScalingPolicy, acl.ReadJob))),
		rpc.Handle("Job.Deregister", rpc.Token, rpc.Leader, s.jobs.Deregister).
			Needs(rpc.On("the job", inNamespace(acl.SubmitJob, acl.PurgeJob, acl.DeregisterJob)).Also("deregister-job only allows stopping").
				Before(rpc.InOneNamespace(acl.SubmitJob, acl.PurgeJob, acl.DeregisterJob))),
		rpc.Handle("Job.BatchDeregister", rpc.Management, rpc.Leader, s.jobs.BatchDeregister),
		rpc.Handle("Job.Evaluate", rpc.Token, rpc.Leader, s.jobs.Evaluate).Needs(rpc.InOneNamespace(acl.SubmitJob, acl.EvaluateJob)),
		rpc.Handle("Job.Stable", rpc.Token, rpc.Leader, s.jobs.Stable).Needs(rpc.InOneNamespace(acl.SubmitJob, acl.StableJob)),
		rpc.Handle("Job.List", rpc.Token, rpc.Leader, s.jobs.List).Needs(rpc.InNamespace(acl.ListJobs)),
		rpc.Handle("Job.Statuses", rpc.Token, rpc.Leader, s.jobs.Statuses).Needs(rpc.InSomeNamespace(acl.ReadJob)),
		rpc.Handle("Job.GetJob", rpc.Token, rpc.Leader, s.jobs.Get).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.GetJobVersions", rpc.Token, rpc.Leader, s.jobs.Versions).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.GetJobSubmission", rpc.Token, rpc.Leader, s.jobs.Submission).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Summary", rpc.Token, rpc.Leader, s.jobs.Summary).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Allocations", rpc.Token, rpc.Leader, s.jobs.Allocations).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.GetActions", rpc.Token, rpc.Leader, s.jobs.Actions).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Evaluations", rpc.Token, rpc.Leader, s.jobs.Evaluations).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.Deployments", rpc.Token, rpc.Leader, s.jobs.Deployments).Needs(rpc.InOneNamespace(acl.ReadJob)),
		rpc.Handle("Job.LatestDeployment", rpc.Token, rpc.Leader, s.jobs.LatestDeployment).Needs(rpc.InOneNamespace(acl.ReadJob)),
	}
}

func (s *Service) nodeMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Node.Register", rpc.NodeRegister, rpc.Leader, s.nodes.Register),
		rpc.Handle("Node.UpdateStatus", rpc.NodeStatus, rpc.Leader, s.nodes.UpdateStatus),
		rpc.Handle("Node.UpdateAlloc", rpc.NodeOnly, rpc.Leader, s.nodes.UpdateAlloc),
		rpc.Handle("Node.GetClientAllocs", rpc.NodeOnly, rpc.Leader, s.nodes.GetClientAllocs),
		rpc.Handle("Node.EmitEvents", rpc.NodeOnly, rpc.Leader, s.nodes.EmitEvents),
		rpc.Handle("Node.UpsertDriverSchemas", rpc.NodeOnly, rpc.Leader, s.nodes.UpsertDriverSchemas),
		rpc.Handle("Node.Challenge", rpc.NodeRegister, rpc.Leader, s.nodes.Challenge),
		rpc.Handle("NodeIdentity.Session", rpc.ServerOnly, rpc.Here, s.nodes.Session),
		rpc.Handle("Node.Deregister", rpc.Token, rpc.Leader, s.nodes.Deregister).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.BatchDeregister", rpc.Token, rpc.Leader, s.nodes.BatchDeregister).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.UpdateEligibility", rpc.Token, rpc.Leader, s.nodes.UpdateEligibility).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.UpdateDrain", rpc.Token, rpc.Leader, s.nodes.UpdateDrain).
			Needs(rpc.On("the node", acl.ToWrite(acl.Nodes)).Or(rpc.CheckedByHandler("the node itself")).
				Before(rpc.Needs(acl.ToWrite(acl.Nodes)).Or(rpc.AnyNode))),
		rpc.Handle("Node.Evaluate", rpc.Token, rpc.Leader, s.nodes.Evaluate).Needs(rpc.Needs(acl.ToWrite(acl.Nodes))),
		rpc.Handle("Node.List", rpc.Token, rpc.Leader, s.nodes.List).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
		rpc.Handle("Node.GetNode", rpc.Token, rpc.Leader, s.nodes.Get).Needs(rpc.Needs(acl.ToRead(acl.Nodes)).Or(rpc.AnyNode)),
		rpc.Handle("Node.GetAllocs", rpc.Token, rpc.Leader, s.nodes.GetAllocs).Needs(rpc.Needs(acl.ToRead(acl.Nodes))),
		rpc.Handle("NodePool.List", rpc.Token, rpc.Leader, s.nodepools.List).Needs(rpc.AnyToken),
		rpc.Handle("NodePool.GetNodePool", rpc.Token, rpc.Leader, s.nodepools.Get).
			Needs(rpc.On("the pool", acl.OfNodePool("", acl.NodePoolRead))),
		rpc.Handle("NodePool.ListJobs", rpc.Token, rpc.Leader, s.nodepools.Jobs).
			Needs(rpc.On("the pool", acl.OfNodePool("", acl.NodePoolRead)).And(rpc.On("the namespace", inNamespace(acl.ListJobs)))),
		rpc.Handle("NodePool.ListNodes", rpc.Token, rpc.Leader, s.nodepools.Nodes).
			Needs(rpc.On("the nodes", acl.ToRead(acl.Nodes)).And(rpc.On("the pool", acl.OfNodePool("", acl.NodePoolRead)))),
		rpc.Handle("NodePool.UpsertNodePools", rpc.Token, rpc.Leader, s.nodepools.Upsert).
			Needs(rpc.On("each", acl.OfNodePool("", acl.NodePoolWrite)).
				Before(rpc.Somewhere(acl.OfNodePool("", acl.NodePoolWrite)))).InAuthoritativeRegion(always),
		rpc.Handle("NodePool.DeleteNodePools", rpc.Token, rpc.Leader, s.nodepools.Delete).
			Needs(rpc.On("each", acl.OfNodePool("", acl.NodePoolDelete))).InAuthoritativeRegion(always),
		rpc.Handle("Namespace.ListNamespaces", rpc.Token, rpc.Leader, s.namespaces.List).Needs(rpc.AnyToken),
		rpc.Handle("Namespace.GetNamespace", rpc.Token, rpc.Leader, s.namespaces.Get).
			Needs(rpc.On("the namespace", acl.InAny(acl.Namespaces, ""))),
		rpc.Handle("Namespace.GetNamespaces", rpc.Management, rpc.Leader, s.namespaces.GetSet),
		rpc.Handle("Namespace.UpsertNamespaces", rpc.Management, rpc.Leader, s.namespaces.Upsert).InAuthoritativeRegion(always),
		rpc.Handle("Namespace.DeleteNamespaces", rpc.Management, rpc.Leader, s.namespaces.Delete).InAuthoritativeRegion(always),
	}
}

func (s *Service) allocMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Alloc.List", rpc.Token, rpc.Leader, s.allocs.List).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Alloc.GetAlloc", rpc.Token, rpc.Leader, s.allocs.Get).
			Needs(rpc.On("the allocation", inNamespace(acl.ReadJob)).Or(rpc.CheckedByHandler("its node"))),
		rpc.Handle("Alloc.GetAllocs", rpc.NodeOnly, rpc.Leader, s.allocs.GetAll),
		rpc.Handle("Alloc.SignIdentities", rpc.NodeOnly, rpc.Leader, s.allocs.SignIdentities),
		rpc.Handle("Alloc.Stop", rpc.Token, rpc.Leader, s.allocs.Stop).Needs(rpc.On("the allocation", inNamespace(acl.AllocLifecycle))),
		rpc.Handle("Alloc.Move", rpc.Token, rpc.Leader, s.allocs.Move).
			Needs(rpc.On("the allocation", inNamespace(acl.AllocLifecycle)).Before(somewhere(acl.AllocLifecycle))),
		rpc.Handle("Alloc.UpdateDesiredTransition", rpc.Management, rpc.Leader, s.allocs.UpdateTransition),
	}
}

// schedulingMethods returns the methods of evaluations, plans and deployments.
func (s *Service) schedulingMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Eval.Dequeue", rpc.ServerOrCertificate, rpc.Leader, s.evals.Dequeue),
		rpc.Handle("Eval.Ack", rpc.ServerOrCertificate, rpc.Leader, s.evals.Ack),
		rpc.Handle("Eval.Nack", rpc.ServerOrCertificate, rpc.Leader, s.evals.Nack),
		rpc.Handle("Eval.Update", rpc.ServerOrCertificate, rpc.Leader, s.evals.Update),
		rpc.Handle("Eval.Create", rpc.ServerOrCertificate, rpc.Leader, s.evals.Create),
		rpc.Handle("Eval.Finish", rpc.ServerOnly, rpc.Leader, s.evals.Finish),
		rpc.Handle("Eval.Reblock", rpc.ServerOrCertificate, rpc.Leader, s.evals.Reblock),
		rpc.Handle("Eval.Reap", rpc.ServerOnly, rpc.Leader, s.evals.Reap),
		rpc.Handle("Eval.Delete", rpc.Management, rpc.Leader, s.evals.Delete),
		rpc.Handle("Eval.List", rpc.Token, rpc.Leader, s.evals.List).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Eval.Count", rpc.Token, rpc.Leader, s.evals.Count).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Eval.GetEval", rpc.Token, rpc.Leader, s.evals.Get).Needs(rpc.On("the evaluation", inNamespace(acl.ReadJob))),
		rpc.Handle("Eval.Allocations", rpc.Token, rpc.Leader, s.evals.Allocations).
			Needs(rpc.On("each allocation", inNamespace(acl.ReadJob))),
		rpc.Handle("Plan.Submit", rpc.ServerOrCertificate, rpc.Leader, s.evals.SubmitPlan),
		rpc.Handle("Deployment.List", rpc.Token, rpc.Leader, s.deployments.List).Needs(rpc.InNamespace(acl.ReadJob)),
		rpc.Handle("Deployment.GetDeployment", rpc.Token, rpc.Leader, s.deployments.Get).
			Needs(rpc.On("the deployment", inNamespace(acl.ReadJob))),
		rpc.Handle("Deployment.Allocations", rpc.Token, rpc.Leader, s.deployments.Allocations).
			Needs(rpc.On("each allocation", inNamespace(acl.ReadJob))),
		rpc.Handle("Deployment.Fail", rpc.Token, rpc.Leader, s.deployments.Fail).
			Needs(rpc.On("the deployment", inNamespace(acl.SubmitJob, acl.FailDeployment)).
				Before(somewhere(acl.SubmitJob, acl.FailDeployment))),
		rpc.Handle("Deployment.Pause", rpc.Token, rpc.Leader, s.deployments.Pause).
			Needs(rpc.On("the deployment", inNamespace(acl.SubmitJob, acl.PauseDeployment)).
				Before(somewhere(acl.SubmitJob, acl.PauseDeployment))),
		rpc.Handle("Deployment.Promote", rpc.Token, rpc.Leader, s.deployments.Promote).
			Needs(rpc.On("the deployment", inNamespace(acl.SubmitJob, acl.PromoteDeployment)).
				Before(somewhere(acl.SubmitJob, acl.PromoteDeployment))),
		rpc.Handle("Deployment.SetAllocHealth", rpc.Token, rpc.Leader, s.deployments.SetAllocHealth).
			Needs(rpc.On("the deployment", inNamespace(acl.SubmitJob, acl.SetAllocHealthDeployment)).
				Before(somewhere(acl.SubmitJob, acl.SetAllocHealthDeployment))),
		rpc.Handle("Deployment.Unblock", rpc.Token, rpc.Leader, s.deployments.Unblock).
			Needs(rpc.On("the deployment", inNamespace(acl.SubmitJob, acl.UnblockDeployment)).
				Before(somewhere(acl.SubmitJob, acl.UnblockDeployment))),
		rpc.Handle("Deployment.Cancel", rpc.Token, rpc.Leader, s.deployments.Cancel).
			Needs(rpc.On("the deployment", inNamespace(acl.SubmitJob, acl.CancelDeployment)).
				Before(somewhere(acl.SubmitJob, acl.CancelDeployment))),
		rpc.Handle("Deployment.Run", rpc.Token, rpc.Leader, s.deployments.Run).
			Needs(rpc.On("the deployment", inNamespace(acl.SubmitJob, acl.RegisterJob)).Before(somewhere(acl.SubmitJob, acl.RegisterJob))),
		rpc.Handle("Deployment.Reap", rpc.ServerOnly, rpc.Leader, s.deployments.Reap),
	}
}

func (s *Service) operatorMethods() []rpc.Method {
	return []rpc.Method{
		rpc.Handle("Operator.SchedulerGetConfiguration", rpc.Token, rpc.Leader, s.servers.SchedulerConfig).
			Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("Operator.SchedulerSetConfiguration", rpc.Token, rpc.Leader, s.servers.SetSchedulerConfig).
			Needs(rpc.Needs(acl.ToWrite(acl.Operators))),
		rpc.Handle("Operator.RaftGetConfiguration", rpc.Management, rpc.Leader, s.servers.RaftConfig),
		rpc.Handle("Operator.RaftRemovePeerByID", rpc.Management, rpc.Leader, s.servers.RemovePeer),
		rpc.Handle("Operator.RaftRemovePeerByAddress", rpc.Management, rpc.Leader, s.servers.RemovePeerByAddress),
		rpc.Handle("Operator.TransferLeadershipToPeer", rpc.Management, rpc.Leader, s.servers.TransferLeadership),
		rpc.Handle("Operator.AutopilotGetConfiguration", rpc.Token, rpc.Leader, s.servers.AutopilotConfig).
			Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("Operator.AutopilotSetConfiguration", rpc.Token, rpc.Leader, s.servers.SetAutopilotConfig).
			Needs(rpc.Needs(acl.ToWrite(acl.Operators))),
		rpc.Handle("Operator.ServerHealth", rpc.Token, rpc.Leader, s.servers.Health).Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("Operator.UpgradeCheckVaultWorkloadIdentity", rpc.Token, rpc.Leader, s.servers.CheckVaultIdentities).
			Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("Operator.Rebalance", rpc.Token, rpc.Leader, s.servers.Rebalance).Needs(rpc.Needs(acl.ToRead(acl.Operators))),
		rpc.Handle("System.GarbageCollect", rpc.Management, rpc.Leader, s.servers.ForceGC),
		rpc.Handle("System.ReconcileJobSummaries", rpc.Management, rpc.Leader, s.servers.ReconcileSummaries),
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
		rpc.Handle("Variables.Apply", rpc.Token, rpc.Leader, s.variables.Write).
			Needs(rpc.On("the path", onVariables(acl.VariableWrite, acl.VariableDestroy)).
				Before(rpc.Somewhere(onVariables(acl.VariableWrite, acl.VariableDestroy)))),
		rpc.Handle("Variables.List", rpc.Token, rpc.Leader, s.variables.List).Needs(rpc.On("each path", onVariables(acl.VariableList))),
		rpc.Handle("Variables.Read", rpc.Token, rpc.Leader, s.variables.Read).Needs(rpc.On("the path", onVariables(acl.VariableRead))),
		rpc.Handle("Variables.Tree", rpc.Token, rpc.Leader, s.variables.Tree).Needs(rpc.On("each path", onVariables(acl.VariableRead))),
		rpc.Handle("Variables.RenewLock", rpc.Token, rpc.Leader, s.variables.RenewLock).
			Needs(rpc.On("the path", onVariables(acl.VariableWrite)).Before(rpc.Somewhere(onVariables(acl.VariableWrite)))),
	}
}

// privileged describes the right of jobs with privileged tasks.
const privileged = "ns:[privileged-execution] for privileged tasks"

// inNamespace is a question for one of the rights in the namespace of an object.
func inNamespace(ops ...acl.NamespaceCapability) acl.Question { return acl.InNamespace("", ops...) }

// somewhere requires one of the rights in any namespace.
func somewhere(ops ...acl.NamespaceCapability) rpc.Check { return rpc.Somewhere(inNamespace(ops...)) }

// onVariables is a question for one of the rights on a variable.
func onVariables(ops ...acl.VariableCapability) acl.Question {
	q := acl.Question{Kind: acl.Variables}
	for _, op := range ops {
		q.Rights = append(q.Rights, string(op))
	}
	return q
}

// always reports true: the request goes to the authoritative region, whether or not access
// control is enabled. Replication would revert a write to any other region.
func always(rpc.Request) bool { return true }

func (s *Service) quotaMethods() []rpc.Method {
	reads, writes := rpc.Needs(acl.ToRead(acl.Quotas)), rpc.Needs(acl.ToWrite(acl.Quotas))
	return []rpc.Method{
		rpc.Handle("Quota.List", rpc.Token, rpc.Leader, s.namespaces.Quotas).Needs(reads),
		rpc.Handle("Quota.Get", rpc.Token, rpc.Leader, s.namespaces.Quota).Needs(reads),
		rpc.Handle("Quota.Usages", rpc.Token, rpc.Leader, s.namespaces.Usages).Needs(reads),
		rpc.Handle("Quota.Usage", rpc.Token, rpc.Leader, s.namespaces.Usage).Needs(reads),
		rpc.Handle("Quota.Upsert", rpc.Token, rpc.Leader, s.namespaces.UpsertQuotas).Needs(writes).InAuthoritativeRegion(always),
		rpc.Handle("Quota.Delete", rpc.Token, rpc.Leader, s.namespaces.DeleteQuotas).Needs(writes).InAuthoritativeRegion(always),
	}
}

// searchMethods returns the methods that search all kinds of objects. The results depend on
// the rights of the caller. A caller without any right is rejected.
func (s *Service) searchMethods() []rpc.Method {
	check := rpc.On("each job", inNamespace(acl.ReadJob)).Or(rpc.On("each node", acl.ToRead(acl.Nodes))).
		Or(rpc.On("each path", onVariables(acl.VariableList))).
		Or(rpc.On("each namespace", acl.InAny(acl.Namespaces, ""))).Or(rpc.On("each pool", acl.InAny(acl.NodePools, "")))
	return []rpc.Method{
		rpc.Handle("Search.PrefixSearch", rpc.Token, rpc.Leader, s.searches.Prefix).Needs(check),
		rpc.Handle("Search.FuzzySearch", rpc.Token, rpc.Leader, s.searches.Fuzzy).Needs(check),
	}
}

func (s *Service) eventMethods() []rpc.Method {
	return []rpc.Method{
		rpc.HandleStream("Event.Stream", rpc.Token, rpc.Region, s.events.Stream).
			Needs(rpc.On("each job", inNamespace(acl.ReadJob)).Or(rpc.On("each node", acl.ToRead(acl.Nodes))).
				Or(rpc.On("each path", onVariables(acl.VariableList))).Or(rpc.Managers).Also("by topic")).
			FailingAs(func(e *message.RpcError) any { return &message.EventStreamWrapper{Error: e} }),
	}
}

// snapshotMethods returns the snapshot methods. They report errors in their own responses,
// unlike other streams.
func (s *Service) snapshotMethods() []rpc.Method {
	return []rpc.Method{
		rpc.HandleStream("Operator.SnapshotSave", rpc.Token, rpc.Leader, s.servers.SaveSnapshot).
			Needs(rpc.Needs(acl.OfOperator(acl.SnapshotSave))).FailingAs(func(e *message.RpcError) any {
			return &message.SnapshotSaveResponse{ErrorCode: errorCode(e), ErrorMsg: e.Message}
		}),
		rpc.HandleStream("Operator.SnapshotRestore", rpc.Management, rpc.Leader, s.servers.RestoreSnapshot).
			FailingAs(func(e *message.RpcError) any {
				return &message.SnapshotRestoreResponse{ErrorCode: errorCode(e), ErrorMsg: e.Message}
			}),
	}
}

// errorCode returns the HTTP status of an error.
func errorCode(e *message.RpcError) int {
	if e.Code != nil {
		return int(*e.Code)
	}
	if errors.Is(apierror.FromText(e.Message), apierror.ErrPermissionDenied) {
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}
