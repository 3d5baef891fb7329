package nomad

import "net"

// Stub returns the short form of a job for lists. Meta is included only if fields requests it.
func (j *Job) Stub(summary *JobSummary, fields *JobStubFields) *JobListStub {
	stub := &JobListStub{
		ID: j.ID, ParentID: j.ParentID, Name: j.Name, Namespace: j.Namespace,
		Datacenters: j.Datacenters, NodePool: j.NodePool, Multiregion: j.Multiregion,
		Type: j.Type, Priority: j.Priority, Periodic: j.IsPeriodic(),
		ParameterizedJob: j.IsParameterized(), Stop: j.Stop, Status: j.Status,
		StatusDescription: j.StatusDescription, JobSummary: summary,
		CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, JobModifyIndex: j.JobModifyIndex,
		SubmitTime: j.SubmitTime,
	}
	stub.source = jobSource{job: j, summary: summary}
	if fields != nil && fields.Meta {
		stub.Meta, stub.source.meta = j.Meta, true
	}
	return stub
}

// jobSource is what a JobListStub consists of.
type jobSource struct {
	job     *Job
	summary *JobSummary
	meta    bool
}

// Source returns the ID of the job and a comparable value that identifies the stored objects and the options that the
// stub was made from. Stubs with equal sources are equal. The value is nil for a decoded stub.
func (s *JobListStub) Source() (id NamespacedID, source any) {
	if s.source.job == nil {
		return id, nil
	}
	return NamespacedID{ID: s.ID, Namespace: s.Namespace}, s.source
}

// hostOf returns the address without its port, if it has one.
func hostOf(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// Stub returns the short form of a node for lists. Resources, the operating system and the metadata are included only if
// fields requests them.
func (n *Node) Stub(fields *NodeStubFields) *NodeListStub {
	stub := &NodeListStub{
		Address: hostOf(n.HTTPAddr), ID: n.ID, Datacenter: n.Datacenter, Name: n.Name,
		NodePool: n.NodePool, NodeClass: n.NodeClass, Version: n.Attributes["nomad.version"],
		Drain: n.DrainStrategy != nil, SchedulingEligibility: n.SchedulingEligibility,
		Status: n.Status, StatusDescription: n.StatusDescription, Drivers: n.Drivers,
		HostVolumes: n.HostVolumes, LastDrain: n.LastDrain,
		CreateIndex: n.CreateIndex, ModifyIndex: n.ModifyIndex,
	}
	stub.source.node = n
	if fields == nil {
		return stub
	}
	stub.source.fields = *fields
	if fields.Resources {
		stub.NodeResources, stub.ReservedResources = n.NodeResources, n.ReservedResources
	}
	if fields.OS {
		stub.Attributes = map[string]string{"os.name": n.Attributes["os.name"]}
	}
	if fields.Meta {
		stub.Meta = n.Meta
	}
	return stub
}

// SetUse adds the use of the node, which depends on more than the node.
func (s *NodeListStub) SetUse(u *NodeUse) { s.Use, s.source = u, nodeSource{} }

// nodeSource is what a NodeListStub consists of.
type nodeSource struct {
	node   *Node
	fields NodeStubFields
}

// Source is JobListStub.Source for nodes.
func (s *NodeListStub) Source() (id NamespacedID, source any) {
	if s.source.node == nil {
		return id, nil
	}
	return NamespacedID{ID: s.ID}, s.source
}

// Stub returns the short form of an allocation for lists. Task states are included unless fields excludes them. Resources
// are included only if fields requests them.
func (a *Allocation) Stub(fields *AllocStubFields) *AllocListStub {
	stub := &AllocListStub{
		ID: a.ID, EvalID: a.EvalID, Name: a.Name, Namespace: a.Namespace, NodeID: a.NodeID,
		NodeName: a.NodeName, JobID: a.JobID, TaskGroup: a.TaskGroup,
		DesiredStatus: a.DesiredStatus, DesiredDescription: a.DesiredDescription,
		ClientStatus: a.ClientStatus, ClientDescription: a.ClientDescription,
		DesiredTransition: a.DesiredTransition, TaskStates: a.TaskStates,
		DeploymentStatus: a.DeploymentStatus, FollowupEvalID: a.FollowupEvalID,
		NextAllocation: a.NextAllocation, RescheduleTracker: a.RescheduleTracker,
		PreemptedAllocations: a.PreemptedAllocations, PreemptedByAllocation: a.PreemptedByAllocation,
		CreateIndex: a.CreateIndex, ModifyIndex: a.ModifyIndex,
		CreateTime: a.CreateTime, ModifyTime: a.ModifyTime,
	}
	stub.source = allocSource{a, AllocStubFields{TaskStates: true}}
	if a.Job != nil {
		stub.JobType, stub.JobVersion = a.Job.Type, a.Job.Version
	}
	if fields != nil {
		stub.source.fields = *fields
		if fields.Resources {
			stub.AllocatedResources = a.AllocatedResources
		}
		if !fields.TaskStates {
			stub.TaskStates = nil
		}
	}
	return stub
}

// allocSource is what an AllocListStub consists of.
type allocSource struct {
	alloc  *Allocation
	fields AllocStubFields
}

// Source is JobListStub.Source for allocations.
func (s *AllocListStub) Source() (id NamespacedID, source any) {
	if s.source.alloc == nil {
		return id, nil
	}
	return NamespacedID{ID: s.ID, Namespace: s.Namespace}, s.source
}

// Stub returns the short form of an evaluation, for its related evaluations.
func (e *Evaluation) Stub() *EvaluationStub {
	return &EvaluationStub{
		ID: e.ID, Namespace: e.Namespace, Priority: e.Priority, Type: e.Type, TriggeredBy: e.TriggeredBy,
		JobID: e.JobID, NodeID: e.NodeID, DeploymentID: e.DeploymentID, Status: e.Status,
		StatusDescription: e.StatusDescription, WaitUntil: e.WaitUntil, NextEval: e.NextEval,
		PreviousEval: e.PreviousEval, BlockedEval: e.BlockedEval, CreateIndex: e.CreateIndex,
		ModifyIndex: e.ModifyIndex, CreateTime: e.CreateTime, ModifyTime: e.ModifyTime,
	}
}

// WithoutSecret returns the node without its secret ID and its session. Replies and filters use this form.
func (n *Node) WithoutSecret() *Node {
	if n == nil || n.SecretID == "" && n.Session == nil {
		return n
	}
	out := *n
	out.SecretID, out.Session = "", nil
	return &out
}

// AddressOnly returns the fields with which another node finds this one, to fetch the data of a migrated allocation.
func (n *Node) AddressOnly() *Node {
	return &Node{ID: n.ID, Name: n.Name, Datacenter: n.Datacenter, NodePool: n.NodePool, Status: n.Status,
		HTTPAddr: n.HTTPAddr, TLSEnabled: n.TLSEnabled, CreateIndex: n.CreateIndex, ModifyIndex: n.ModifyIndex}
}

// WithoutIdentities returns the allocation without its signed tokens, for readers other than its node.
func (a *Allocation) WithoutIdentities() *Allocation {
	if a == nil || a.SignedIdentities == nil {
		return a
	}
	out := *a
	out.SignedIdentities = nil
	return &out
}
