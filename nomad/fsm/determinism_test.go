package fsm_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// stream generates random commands about few objects, so that they affect each other.
type stream struct{ *rand.Rand }

func (s stream) pick(kind string) string { return fmt.Sprint(kind, s.IntN(5)) }

func (s stream) time() int64 { return 1_700_000_000e9 + int64(s.IntN(1e9)) }

func (s stream) job() *nomad.Job {
	j := &nomad.Job{ID: s.pick("job"), Namespace: "default", Type: []string{"service", "batch", "system"}[s.IntN(3)],
		TaskGroups: []*nomad.TaskGroup{{Name: "g0", Count: 2}, {Name: "g1", Count: 1}}, Meta: map[string]string{"a": "1", "b": "2", "c": "3"}}
	if s.IntN(6) == 0 {
		j.ParentID = s.pick("job")
		if s.IntN(2) == 0 {
			j.ID = fmt.Sprint(j.ParentID, nomad.PeriodicLaunchSuffix, s.time()/1e9)
		}
	}
	if s.IntN(4) == 0 {
		j.Periodic, j.SubmitTime = &nomad.PeriodicConfig{Enabled: s.IntN(2) == 0}, s.time()
	}
	for _, g := range j.TaskGroups {
		g.Volumes = map[string]*nomad.VolumeRequest{"v": {Name: "v", Type: "host", Source: "data", Sticky: s.IntN(2) == 0},
			"c": {Name: "c", Type: "csi", Source: s.pick("csi")}}
		if s.IntN(2) == 0 {
			kind := []nomad.CSIPluginType{csi.PluginNode, csi.PluginController, csi.PluginMonolith}[s.IntN(3)]
			g.Tasks = []*nomad.Task{{Name: "t1", CSIPluginConfig: &nomad.TaskCSIPluginConfig{ID: s.pick("plugin"), Type: kind}}}
		}
		if s.IntN(4) == 0 {
			g.Scaling = &nomad.ScalingPolicy{ID: fmt.Sprint(j.ID, "-", g.Name, "-", s.IntN(2)), Max: int64(s.IntN(3)), Enabled: s.IntN(2) == 0,
				Policy: map[string]any{"a": "1", "b": "2"}}
		}
	}
	return j
}

func (s stream) eval() *nomad.Evaluation {
	status := []string{"pending", "blocked", "complete", "failed", "canceled"}[s.IntN(5)]
	return &nomad.Evaluation{ID: s.pick("eval"), Namespace: "default", JobID: s.pick("job"), Status: status, Type: "service",
		QueuedAllocations: map[string]int{"g0": s.IntN(3), "g1": s.IntN(3)}, ModifyTime: s.time()}
}

func (s stream) alloc() *nomad.Allocation {
	healthy := s.IntN(2) == 0
	a := &nomad.Allocation{ID: s.pick("alloc"), Namespace: "default", JobID: s.pick("job"), TaskGroup: fmt.Sprint("g", s.IntN(2)),
		NodeID: s.pick("node"),
		EvalID: s.pick("eval"), ClientStatus: []string{"pending", "running", "complete", "failed", "lost", "unknown"}[s.IntN(6)],
		DesiredStatus: "run",
		ModifyTime:    s.time(), CreateTime: s.time(), SignedIdentities: map[string]string{"t1": "x", "t2": "y"}, SigningKeyID: s.pick("key"),
		TaskStates: map[string]*nomad.TaskState{"t1": {State: "running"}, "t2": {State: "dead"}}}
	if s.IntN(8) > 0 {
		a.AllocatedResources = &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{
			"t1": {Cpu: nomad.AllocatedCpuResources{CpuShares: int64(s.IntN(3)), ReservedCores: []uint16{1, 2}[:s.IntN(3)]},
				Memory: nomad.AllocatedMemoryResources{MemoryMB: int64(s.IntN(3))}}}}
	}
	if s.IntN(2) == 0 {
		a.DeploymentID = s.pick("dep")
		a.DeploymentStatus = &nomad.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Unix(0, s.time()).UTC(), Canary: s.IntN(4) == 0}
	}
	if s.IntN(3) == 0 {
		a.PreviousAllocation = s.pick("alloc")
	}
	return a
}

func (s stream) diff() *nomad.AllocationDiff {
	d := nomad.AllocationDiff(nomad.Allocation{ID: s.pick("alloc"), DesiredDescription: "x", ModifyTime: s.time(),
		PreemptedByAllocation: s.pick("alloc")})
	if s.IntN(3) == 0 {
		d.ClientStatus = "lost"
	}
	return &d
}

func (s stream) plan() *message.ApplyPlanResultsRequest {
	j := s.job()
	req := &message.ApplyPlanResultsRequest{Job: j, EvalID: s.pick("eval"), UpdatedAt: s.time()}
	for range s.IntN(4) {
		a := s.alloc()
		a.JobID = j.ID
		req.AllocsUpdated = append(req.AllocsUpdated, a)
	}
	for range s.IntN(3) {
		req.AllocsStopped = append(req.AllocsStopped, s.diff())
		req.AllocsPreempted = append(req.AllocsPreempted, s.diff())
	}
	if s.IntN(3) == 0 {
		req.Deployment = &nomad.Deployment{ID: s.pick("dep"), Namespace: "default", JobID: j.ID, Status: "running",
			TaskGroups: map[string]*nomad.DeploymentState{"g0": {ProgressDeadline: time.Minute}, "g1": {}}}
	}
	if s.IntN(4) == 0 {
		req.IneligibleNodes = []string{s.pick("node")}
		req.PreemptionEvals = []*nomad.Evaluation{s.eval()}
	}
	return req
}

// next returns a command.
func (s stream) next() (message.CommandType, any) {
	yes := true
	in := message.WriteRequest{Namespace: "default"}
	event := &nomad.NodeEvent{Message: "m", Timestamp: time.Unix(0, s.time()).UTC()}
	switch s.IntN(54) {
	case 38, 39, 40, 41:
		count := int64(s.IntN(3))
		return message.ScalingEventRegisterRequestType,
			&message.ScalingEventRequest{Namespace: "default", JobID: s.pick("job"), TaskGroup: fmt.Sprint("g", s.IntN(2)),
				ScalingEvent: &nomad.ScalingEvent{Time: s.time(), Count: &count, Meta: map[string]any{"a": "1", "b": "2"}}}
	case 42, 43, 44, 45:
		return s.volume()
	case 46, 47, 48, 49, 50, 51, 52, 53:
		return s.csi()
	case 0, 1:
		return message.NodeRegisterRequestType, &message.NodeRegisterRequest{CreateNodePool: true, NodeEvent: event,
			Introduction: &idtoken.NodeIntroduction{TokenID: s.pick("token"), Uses: 3, Expiry: 1_700_000_000 + int64(s.IntN(3))},
			Node: &nomad.Node{ID: s.pick("node"), NodePool: s.pick("pool"), Status: "ready", StatusUpdatedAt: s.time() / 1e9,
				Attributes:           map[string]string{"a": "1", "b": "2", "driver.x.schema": s.pick("schema")},
				Drivers:              map[string]*nomad.DriverInfo{"x": {Detected: true}},
				CSIControllerPlugins: s.instances(), CSINodePlugins: s.instances(),
				GCVolumesOnNodeGC: s.IntN(2) == 0, HostVolumes: map[string]*nomad.ClientHostVolumeConfig{"data": {Name: "data", ID: s.pick("volume")}}}}
	case 37:
		return message.DriverSchemaUpsertRequestType, &message.DriverSchemaUpsertRequest{NodeID: s.pick("node"),
			Schemas: []*nomad.DriverSchema{{Digest: s.pick("schema"), Spec: []byte{1, 2}}, {Digest: s.pick("schema"), Spec: []byte{0xff}}}}
	case 2:
		return message.NodeDeregisterRequestType, &message.NodeDeregisterRequest{NodeID: s.pick("node")}
	case 3, 4:
		return message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: s.pick("node"), NodeEvent: event,
			Status: []string{"ready", "down", "initializing", "disconnected"}[s.IntN(4)], UpdatedAt: s.time(), IdentitySigningKeyID: s.pick("key")}
	case 5, 6, 7:
		return message.JobRegisterRequestType, &message.JobRegisterRequest{Job: s.job(), Eval: s.eval(), EnforceIndex: s.IntN(4) == 0,
			Submission: &nomad.JobSubmission{Source: "x", VariableFlags: map[string]string{"a": "1", "b": "2"}}}
	case 8:
		return message.JobDeregisterRequestType,
			&message.JobDeregisterRequest{JobID: s.pick("job"), Purge: s.IntN(2) == 0, NoShutdownDelay: true, Eval: s.eval(), WriteRequest: in}
	case 9, 10:
		return message.EvalUpdateRequestType, &message.EvalUpdateRequest{Evals: []*nomad.Evaluation{s.eval(), s.eval()}}
	case 11:
		return message.EvalDeleteRequestType, &message.EvalReapRequest{Evals: []string{s.pick("eval")}, Allocs: []string{s.pick("alloc")}}
	case 12, 13, 14:
		return message.AllocClientUpdateRequestType,
			&message.AllocUpdateRequest{Alloc: []*nomad.Allocation{s.alloc(), s.alloc()}, Evals: []*nomad.Evaluation{s.eval()}}
	case 15, 16, 17:
		return message.ApplyPlanResultsRequestType, s.plan()
	case 18:
		return message.DeploymentStatusUpdateRequestType, &message.DeploymentStatusUpdateRequest{DeploymentUpdate: &nomad.DeploymentStatusUpdate{
			DeploymentID: s.pick("dep"), Status: []string{"running", "successful", "failed", "paused"}[s.IntN(4)],
			UpdatedAt: s.time()}, Eval: s.eval()}
	case 19:
		return message.JobBatchDeregisterRequestType,
			&message.JobBatchDeregisterRequest{Jobs: map[nomad.NamespacedID]*message.JobDeregisterOptions{
				{ID: s.pick("job"), Namespace: "default"}: {Purge: true}, {ID: s.pick("job"), Namespace: "default"}: {Purge: true}}}
	case 20:
		return message.AllocUpdateDesiredTransitionRequestType, &message.AllocUpdateDesiredTransitionRequest{
			Allocs: map[string]*nomad.DesiredTransition{s.pick("alloc"): {Migrate: &yes}, s.pick("alloc"): {ForceReschedule: &yes}},
			Evals:  []*nomad.Evaluation{s.eval()}}
	case 21:
		return message.WrappedRootKeysUpsertRequestType,
			&message.KeyringUpsertWrappedRootKeyRequest{Rekey: s.IntN(3) == 0, WrappedRootKeys: &rootkey.Key{
				KeyID: s.pick("key"), State: []rootkey.State{"active", "inactive", "prepublished"}[s.IntN(3)], CreateTime: s.time()}}
	case 22:
		return message.ReconcileJobSummariesRequestType, &message.GenericRequest{}
	case 23:
		return s.configuration()
	case 24:
		return s.nodeChange()
	case 25:
		return s.name()
	case 26:
		return s.deployment()
	case 30, 31, 32:
		return s.quota()
	case 27, 28:
		return message.VarApplyStateRequestType, s.variable()
	case 33, 34, 35:
		return s.access()
	default:
		return message.BatchNodeUpdateDrainRequestType,
			&message.BatchNodeUpdateDrainRequest{UpdatedAt: s.time() / 1e9, Updates: map[string]*nomad.DrainUpdate{
				s.pick("node"): {DrainStrategy: &nomad.DrainStrategy{}}, s.pick("node"): {MarkEligible: true}}}
	}
}

// volume creates and deletes host volumes, and deletes claims.
func (s stream) volume() (message.CommandType, any) {
	in := message.WriteRequest{Namespace: "default"}
	switch s.IntN(4) {
	case 0:
		return message.HostVolumeDeleteRequestType, &message.HostVolumeDeleteRequest{VolumeID: s.pick("volume"), WriteRequest: in}
	case 1:
		req := &message.TaskGroupVolumeClaimDeleteRequest{ClaimID: s.pick("claim"), WriteRequest: in}
		return message.TaskGroupHostVolumeClaimDeleteRequestType, req
	}
	return message.HostVolumeRegisterRequestType,
		&message.HostVolumeRegisterRequest{Volume: &hostvolume.Volume{ID: s.pick("volume"), Name: "data", Namespace: "default",
			NodeID: s.pick("node"), Parameters: map[string]string{"a": "1", "b": "2"}, CreateTime: s.time()}}
}

// instances returns what a node reports about its plugins.
func (s stream) instances() map[string]*nomad.CSIInfo {
	out := map[string]*nomad.CSIInfo{}
	for range s.IntN(4) {
		id := s.pick("plugin")
		out[id] = &nomad.CSIInfo{PluginID: id, AllocID: s.pick("alloc"), Healthy: s.IntN(3) > 0, Provider: s.pick("provider"),
			RequiresControllerPlugin: s.IntN(2) == 0, UpdateTime: time.Unix(0, s.time()).UTC()}
	}
	return out
}

// csi registers, claims, releases and deregisters CSI volumes, and deletes plugins.
func (s stream) csi() (message.CommandType, any) {
	in := message.WriteRequest{Namespace: "default"}
	claim := func() message.CSIVolumeClaimRequest {
		return message.CSIVolumeClaimRequest{VolumeID: s.pick("csi"), AllocationID: s.pick("alloc"), NodeID: s.pick("node"),
			Claim: csi.ClaimMode(s.IntN(3)), AccessMode: "multi-node-multi-writer", State: csi.ClaimState(s.IntN(5)), Timestamp: s.time(),
			Waits: s.pick("plugin"), WriteRequest: in}
	}
	switch s.IntN(8) {
	case 0:
		ids := []string{s.pick("csi"), s.pick("csi")}
		return message.CSIVolumeDeregisterRequestType, &message.CSIVolumeDeregisterRequest{VolumeIDs: ids, Force: s.IntN(2) == 0, WriteRequest: in}
	case 1:
		return message.CSIPluginDeleteRequestType, &message.CSIPluginDeleteRequest{ID: s.pick("plugin")}
	case 2, 3:
		req := claim()
		return message.CSIVolumeClaimRequestType, &req
	case 4, 5:
		return message.CSIVolumeClaimBatchRequestType,
			&message.CSIVolumeClaimBatchRequest{Claims: []message.CSIVolumeClaimRequest{claim(), claim(), claim()}}
	}
	v := &csi.Volume{ID: s.pick("csi"), Namespace: "default", PluginID: s.pick("plugin"), Parameters: map[string]string{"a": "1", "b": "2"},
		RequestedCapabilities: []*csi.Capability{{AccessMode: "multi-node-multi-writer"}}}
	if s.IntN(3) == 0 {
		v.Secrets = csi.Secrets{"a": "1", "b": "2"} // of a leader of another build
	} else {
		v.Sealed = &csi.Sealed{KeyID: s.pick("key"), Data: []byte{1}}
	}
	return message.CSIVolumeRegisterRequestType, &message.CSIVolumeRegisterRequest{Volumes: []*csi.Volume{v}, Timestamp: s.time()}
}

// configuration returns a change of a configuration, often with an outdated index.
func (s stream) configuration() (message.CommandType, any) {
	switch s.IntN(4) {
	case 0:
		return message.SchedulerConfigRequestType, &message.SchedulerSetConfigRequest{CAS: s.IntN(2) == 0,
			Config: nomad.SchedulerConfiguration{SchedulerAlgorithm: "spread", ModifyIndex: uint64(s.IntN(3))}}
	case 1:
		return message.AutopilotRequestType, &message.AutopilotSetConfigRequest{CAS: s.IntN(2) == 0,
			Config: nomad.AutopilotConfig{MinQuorum: uint(s.IntN(5)), ModifyIndex: uint64(s.IntN(3))}}
	case 2:
		return message.ClusterMetadataRequestType, &nomad.ClusterMetadata{ClusterID: s.pick("cluster"), CreateTime: s.time()}
	}
	return message.WrappedRootKeysDeleteRequestType, &message.KeyringDeleteRootKeyRequest{KeyID: s.pick("key")}
}

// nodeChange returns a change of a node that does not come from the node itself.
func (s stream) nodeChange() (message.CommandType, any) {
	event := &nomad.NodeEvent{Message: "m", Timestamp: time.Unix(0, s.time()).UTC()}
	switch s.IntN(4) {
	case 0:
		return message.NodeUpdateEligibilityRequestType,
			&message.NodeUpdateEligibilityRequest{NodeID: s.pick("node"), Eligibility: "ineligible", UpdatedAt: s.time() / 1e9, NodeEvent: event}
	case 1:
		return message.UpsertNodeEventsType,
			&message.EmitNodeEventsRequest{NodeEvents: map[string][]*nomad.NodeEvent{s.pick("node"): {event}, s.pick("node"): {event, event}}}
	case 2:
		return message.NodeUpdateDrainRequestType,
			&message.NodeUpdateDrainRequest{NodeID: s.pick("node"), DrainStrategy: &nomad.DrainStrategy{}, UpdatedAt: s.time() / 1e9,
				NodeEvent: event}
	}
	return message.NodeBatchDeregisterRequestType, &message.NodeBatchDeregisterRequest{NodeIDs: []string{s.pick("node"), s.pick("node")}}
}

// name creates and deletes namespaces and node pools.
func (s stream) name() (message.CommandType, any) {
	switch s.IntN(4) {
	case 0:
		return message.NamespaceUpsertRequestType,
			&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: s.pick("ns"), Meta: map[string]string{"a": "1", "b": "2"}}}}
	case 1:
		return message.NamespaceDeleteRequestType, &message.NamespaceDeleteRequest{Namespaces: []string{s.pick("ns")}}
	case 2:
		return message.NodePoolUpsertRequestType,
			&message.NodePoolUpsertRequest{NodePools: []*nomad.NodePool{{Name: s.pick("pool"), NodeIdentityTTL: time.Hour,
				Meta: map[string]string{"a": "1", "b": "2"}}}}
	}
	return message.NodePoolDeleteRequestType, &message.NodePoolDeleteRequest{Names: []string{s.pick("pool")}}
}

// quota creates and deletes quotas, and assigns them to the namespace of the jobs.
func (s stream) quota() (message.CommandType, any) {
	name := fmt.Sprint("quota", s.IntN(2))
	switch s.IntN(6) {
	case 0, 1:
		return message.QuotaUpsertRequestType,
			&message.QuotaUpsertRequest{Quotas: []*quota.Spec{{Name: name, Limits: []*quota.Limit{{Region: "global",
				RegionLimit: &quota.Resources{CPU: new(s.IntN(9)), Storage: &quota.StorageResources{VariablesMB: 5}}, Hash: []byte{1, 2}}}}}}
	case 2:
		return message.QuotaDeleteRequestType, &message.QuotaDeleteRequest{Names: []string{name}}
	case 3:
		name = ""
	}
	return message.NamespaceUpsertRequestType, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "default", Quota: name}}}
}

// variable returns an operation on one of few variables, often one that is locked or has
// changed.
func (s stream) variable() *message.VarApplyStateRequest {
	v := &variable.Encrypted{Ciphertext: variable.Ciphertext{Data: []byte(s.pick("data")), KeyID: s.pick("key")}}
	v.Namespace, v.Path, v.CreateTime, v.ModifyTime, v.ModifyIndex = "default", s.pick("path"), s.time(), s.time(), uint64(s.IntN(3))
	if s.IntN(3) == 0 {
		v.Lock = &variable.Lock{ID: s.pick("lock"), TTL: time.Minute, LockDelay: time.Second}
	}
	ops := []variable.Op{variable.OpSet, variable.OpCAS, variable.OpDelete, variable.OpDeleteCAS, variable.OpLockAcquire,
		variable.OpLockRelease}
	return &message.VarApplyStateRequest{Op: ops[s.IntN(len(ops))], Var: v, KeepItems: s.IntN(2) == 0}
}

// access returns a change of an ACL object.
func (s stream) access() (message.CommandType, any) {
	now := time.Unix(0, s.time()).UTC()
	end := now.Add(time.Duration(s.IntN(3)) * time.Second)
	token := &rbac.Token{AccessorID: s.pick("token"), SecretID: s.pick("secret"), Type: "client", Policies: []string{s.pick("policy")},
		Global: s.IntN(2) == 0,
		Roles:  []*rbac.TokenRoleLink{{ID: s.pick("role")}}, CreateTime: now, ExpirationTime: &end}
	switch s.IntN(14) {
	case 0:
		return message.ACLPolicyUpsertRequestType, &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{{Name: s.pick("policy"), Rules: "r",
			JobACL: &rbac.JobACL{Namespace: "default", JobID: s.pick("job")}}, {Name: s.pick("policy")}}}
	case 1:
		return message.ACLPolicyDeleteRequestType, &message.ACLPolicyDeleteRequest{Names: []string{s.pick("policy")}}
	case 2, 3:
		return message.ACLTokenUpsertRequestType, &message.ACLTokenUpsertRequest{Tokens: []*rbac.Token{token}}
	case 4:
		return message.ACLTokenDeleteRequestType, &message.ACLTokenDeleteRequest{AccessorIDs: []string{s.pick("token")}}
	case 5:
		return message.ACLTokenBootstrapRequestType, &message.ACLTokenBootstrapRequest{Token: token, ResetIndex: uint64(s.IntN(400))}
	case 6, 7:
		return message.ACLRolesUpsertRequestType, &message.ACLRolesUpsertRequest{AllowMissingPolicies: s.IntN(2) == 0, ACLRoles: []*rbac.Role{
			{ID: s.pick("role"), Name: s.pick("name"), Policies: []*rbac.RolePolicyLink{{Name: s.pick("policy")}}}}}
	case 8:
		return message.ACLRolesDeleteByIDRequestType, &message.ACLRolesDeleteByIDRequest{ACLRoleIDs: []string{s.pick("role")}}
	case 9:
		return message.ACLAuthMethodsUpsertRequestType,
			&message.ACLAuthMethodUpsertRequest{AuthMethods: []*rbac.AuthMethod{{Name: s.pick("method"), Type: "JWT", Default: s.IntN(2) == 0,
				Config: &rbac.AuthMethodConfig{ClaimMappings: map[string]string{"a": "1", "b": "2", "c": "3"}}}}}
	case 10:
		return message.ACLAuthMethodsDeleteRequestType, &message.ACLAuthMethodDeleteRequest{Names: []string{s.pick("method")}}
	case 11:
		return message.ACLBindingRulesUpsertRequestType, &message.ACLBindingRulesUpsertRequest{AllowMissingAuthMethods: s.IntN(2) == 0,
			ACLBindingRules: []*rbac.BindingRule{{ID: s.pick("rule"), AuthMethod: s.pick("method")}}}
	case 12:
		return message.ACLBindingRulesDeleteRequestType, &message.ACLBindingRulesDeleteRequest{ACLBindingRuleIDs: []string{s.pick("rule")}}
	}
	return message.OneTimeTokenExpireRequestType, &message.OneTimeTokenExpireRequest{Timestamp: now}
}

// deployment returns a change of a deployment.
func (s stream) deployment() (message.CommandType, any) {
	switch s.IntN(5) {
	case 3:
		req := &message.ApplyDeploymentPromoteRequest{Eval: s.eval()}
		req.DeploymentID, req.All, req.PromotedAt = s.pick("dep"), true, s.time()
		return message.DeploymentPromoteRequestType, req
	case 4:
		req := &message.JobApplyTagRequest{JobID: s.pick("job"), Name: s.pick("tag"), Version: uint64(s.IntN(3)),
			WriteRequest: message.WriteRequest{Namespace: "default"}}
		if s.IntN(3) > 0 {
			req.Tag = &nomad.JobVersionTag{Name: req.Name, TaggedTime: s.time()}
		}
		return message.JobVersionTagRequestType, req
	case 0:
		return message.JobStabilityRequestType,
			&message.JobStabilityRequest{JobID: s.pick("job"), JobVersion: uint64(s.IntN(3)), Stable: s.IntN(2) == 0,
				WriteRequest: message.WriteRequest{Namespace: "default"}}
	case 1:
		req := &message.ApplyDeploymentAllocHealthRequest{Timestamp: time.Unix(0, s.time()).UTC(), Eval: s.eval()}
		req.DeploymentID, req.HealthyAllocationIDs, req.UnhealthyAllocationIDs = s.pick("dep"), []string{s.pick("alloc")},
			[]string{s.pick("alloc")}
		return message.DeploymentAllocHealthRequestType, req
	}
	return message.DeploymentDeleteRequestType, &message.DeploymentDeleteRequest{Deployments: []string{s.pick("dep")}}
}

// TestDeterminism applies random commands to two FSMs, one of which is sometimes restored from
// a snapshot. Their states stay byte for byte equal.
func TestDeterminism(t *testing.T) {
	for seed := range uint64(20) {
		one, two := newMachine(), newMachine()
		s := stream{rand.New(rand.NewPCG(seed, 1))}
		applied := 0
		for n := range 600 {
			kind, payload := s.next()
			data, err := codec.EncodeCommand(kind, payload)
			if err != nil {
				t.Fatal(err)
			}
			a, b := one.raw(data), two.raw(data)
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("seed %d, command %d of type %d: one returns %v, the other %v", seed, n, kind, a, b)
			}
			if _, failed := a.(error); !failed {
				applied++
			}
			if n%100 == 99 {
				before := two.dump(t)
				if err := two.Restore(io.NopCloser(bytes.NewReader(before))); err != nil {
					t.Fatal(err)
				}
				cancelOrphans(t, one)
			}
			checkUsage(t, one)
			checkUsage(t, two)
			if n%20 == 19 && !bytes.Equal(one.dump(t), two.dump(t)) {
				t.Fatalf("seed %d: states differ after command %d of type %d", seed, n, kind)
			}
		}
		if got := one.State().Snapshot().TableIndex(state.TableQuotaUsage); got == 0 {
			t.Errorf("seed %d: nothing was counted for a quota", seed)
		}
		if snap := one.State().Snapshot(); snap.TableIndex(state.TablePeriodicLaunch) == 0 || snap.TableIndex(state.TableScalingPolicy) == 0 ||
			snap.TableIndex(state.TableScalingEvent) == 0 {
			t.Errorf("seed %d: no launch, no scaling policy or no scaling event was stored", seed)
		}
		if snap := one.State().Snapshot(); snap.TableIndex(state.TableCSIVolumes) == 0 || snap.TableIndex(state.TableCSIPlugins) == 0 {
			t.Errorf("seed %d: no CSI volume or no plugin was stored", seed)
		}
		if applied < 200 {
			t.Errorf("seed %d: only %d commands were applied", seed, applied)
		}
	}
}

// Entries that write many rows write them in the same order on every server. Notifications,
// events and snapshots are byte for byte equal. Each log is applied many times, because the
// iteration order of maps varies.
func TestOrderDoesNotDependOnMaps(t *testing.T) {
	first := orderLog(t)
	for range 20 {
		again := orderLog(t)
		if !slices.Equal(first.notified, again.notified) {
			t.Fatalf("the same log notifies observers of\n%q\nand then\n%q", first.notified, again.notified)
		}
		for i, row := range first.rows {
			if i >= len(again.rows) || again.rows[i] != row {
				t.Fatalf("row %d of the events differs from one run to the next: %s", i, row)
			}
		}
		if !bytes.Equal(first.dump(t), again.dump(t)) {
			t.Fatal("the same log gives another snapshot")
		}
	}
}

// orderLog applies entries that write several nodes, jobs, namespaces and quotas each.
func orderLog(t *testing.T) *machine {
	t.Helper()
	m := newMachine()
	plans := &message.AllocUpdateRequest{}
	moved := map[string]*nomad.DesiredTransition{}
	drains := map[string]*nomad.DrainUpdate{}
	events := map[string][]*nomad.NodeEvent{}
	stopped := map[nomad.NamespacedID]*message.JobDeregisterOptions{}
	yes := true
	for i := range 8 {
		node, job, ns := fmt.Sprint("node", i), fmt.Sprint("job", i), fmt.Sprint("ns", i)
		m.must(t, message.QuotaUpsertRequestType, &message.QuotaUpsertRequest{Quotas: []*quota.Spec{{Name: "q" + ns}}})
		m.must(t, message.NamespaceUpsertRequestType,
			&message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: ns, Quota: "q" + ns}}})
		m.must(t, message.NodeRegisterRequestType, &message.NodeRegisterRequest{Node: &nomad.Node{ID: node, Status: "ready"}})
		j := &nomad.Job{ID: job, Namespace: ns, Type: "batch", TaskGroups: []*nomad.TaskGroup{{Name: "a", Count: 1}, {Name: "b", Count: 1}}}
		m.must(t, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: j})
		a := &nomad.Allocation{ID: "alloc" + node, Namespace: ns, JobID: job, TaskGroup: "a", NodeID: node, ClientStatus: "running",
			DesiredStatus: "run"}
		m.must(t, message.ApplyPlanResultsRequestType, &message.ApplyPlanResultsRequest{Job: j, AllocsUpdated: []*nomad.Allocation{a}})
		m.must(t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: node, Status: "down"})
		m.must(t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: node, Status: "init"})
		plans.Alloc = append(plans.Alloc, &nomad.Allocation{ID: a.ID, ClientStatus: "complete"})
		moved[a.ID] = &nomad.DesiredTransition{Migrate: &yes}
		drains[node] = &nomad.DrainUpdate{MarkEligible: true}
		events[node] = []*nomad.NodeEvent{{Message: "x"}}
		stopped[nomad.NamespacedID{ID: job, Namespace: ns}] = &message.JobDeregisterOptions{Purge: i%2 == 0}
	}
	m.must(t, message.AllocUpdateDesiredTransitionRequestType, &message.AllocUpdateDesiredTransitionRequest{Allocs: moved})
	m.must(t, message.AllocClientUpdateRequestType, plans)
	m.must(t, message.BatchNodeUpdateDrainRequestType, &message.BatchNodeUpdateDrainRequest{Updates: drains})
	m.must(t, message.UpsertNodeEventsType, &message.EmitNodeEventsRequest{NodeEvents: events})
	m.must(t, message.ReconcileJobSummariesRequestType, &message.GenericRequest{})
	m.must(t, message.JobBatchDeregisterRequestType, &message.JobBatchDeregisterRequest{Jobs: stopped})
	return m
}

// checkUsage compares the usage of quotas with a new calculation.
func checkUsage(t *testing.T, m *machine) {
	t.Helper()
	s := m.State().Snapshot()
	for q := range s.Quotas(nil) {
		var want quota.Amount
		for n := range s.NamespacesByQuota(nil, q.Name) {
			for a := range s.AllocsByNamespace(nil, n.Name) {
				want.Add(quota.Of(a), 1)
			}
		}
		if got := s.QuotaUsed(nil, q.Name); got != want {
			t.Fatalf("usage of quota %s is %+v, want %+v", q.Name, got, want)
		}
	}
}

// cancelOrphans does to m what a restore does: it cancels the deployments of deleted jobs.
func cancelOrphans(t *testing.T, m *machine) {
	t.Helper()
	var orphans bool
	s := m.State().Snapshot()
	for d := range s.Deployments(nil) {
		orphans = orphans || d.Active() && s.Job(nil, d.Namespace, d.JobID) == nil
	}
	if orphans {
		if err := m.Restore(io.NopCloser(bytes.NewReader(m.dump(t)))); err != nil {
			t.Fatal(err)
		}
	}
}
