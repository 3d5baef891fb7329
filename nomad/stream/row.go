package stream

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// types maps commands to event types. All rows that a command writes get the type of the command.
var types = map[nomad.MessageType]string{
	nomad.NodeRegisterRequestType:                 nomad.TypeNodeRegistration,
	nomad.NodeDeregisterRequestType:               nomad.TypeNodeDeregistration,
	nomad.NodeBatchDeregisterRequestType:          nomad.TypeNodeDeregistration,
	nomad.NodeUpdateStatusRequestType:             nomad.TypeNodeEvent,
	nomad.UpsertNodeEventsType:                    nomad.TypeNodeEvent,
	nomad.NodeUpdateDrainRequestType:              nomad.TypeNodeDrain,
	nomad.BatchNodeUpdateDrainRequestType:         nomad.TypeNodeDrain,
	nomad.NodeUpdateEligibilityRequestType:        nomad.TypeNodeEligibilityUpdate,
	nomad.NodePoolUpsertRequestType:               nomad.TypeNodePoolUpserted,
	nomad.NodePoolDeleteRequestType:               nomad.TypeNodePoolDeleted,
	nomad.JobRegisterRequestType:                  nomad.TypeJobRegistered,
	nomad.JobDeregisterRequestType:                nomad.TypeJobDeregistered,
	nomad.JobBatchDeregisterRequestType:           nomad.TypeJobBatchDeregistered,
	nomad.EvalUpdateRequestType:                   nomad.TypeEvalUpdated,
	nomad.AllocClientUpdateRequestType:            nomad.TypeAllocationUpdated,
	nomad.AllocUpdateDesiredTransitionRequestType: nomad.TypeAllocationUpdateDesiredStatus,
	nomad.ApplyPlanResultsRequestType:             nomad.TypePlanResult,
	nomad.DeploymentStatusUpdateRequestType:       nomad.TypeDeploymentUpdate,
	nomad.DeploymentPromoteRequestType:            nomad.TypeDeploymentPromotion,
	nomad.DeploymentAllocHealthRequestType:        nomad.TypeDeploymentAllocHealth,
	nomad.ACLTokenUpsertRequestType:               nomad.TypeACLTokenUpserted,
	nomad.ACLTokenBootstrapRequestType:            nomad.TypeACLTokenUpserted,
	nomad.ACLTokenDeleteRequestType:               nomad.TypeACLTokenDeleted,
	nomad.ACLPolicyUpsertRequestType:              nomad.TypeACLPolicyUpserted,
	nomad.ACLPolicyDeleteRequestType:              nomad.TypeACLPolicyDeleted,
	nomad.ACLRolesUpsertRequestType:               nomad.TypeACLRoleUpserted,
	nomad.ACLRolesDeleteByIDRequestType:           nomad.TypeACLRoleDeleted,
	nomad.ACLAuthMethodsUpsertRequestType:         nomad.TypeACLAuthMethodUpserted,
	nomad.ACLAuthMethodsDeleteRequestType:         nomad.TypeACLAuthMethodDeleted,
	nomad.ACLBindingRulesUpsertRequestType:        nomad.TypeACLBindingRuleUpserted,
	nomad.ACLBindingRulesDeleteRequestType:        nomad.TypeACLBindingRuleDeleted,
	nomad.VarApplyStateRequestType:                nomad.TypeVariableUpdated,

	nomad.ServiceRegistrationUpsertRequestType:         nomad.TypeServiceRegistration,
	nomad.ServiceRegistrationDeleteByIDRequestType:     nomad.TypeServiceDeregistration,
	nomad.ServiceRegistrationDeleteByNodeIDRequestType: nomad.TypeServiceDeregistration,
	nomad.HostVolumeRegisterRequestType:                nomad.TypeHostVolumeRegistered,
	nomad.HostVolumeDeleteRequestType:                  nomad.TypeHostVolumeDeleted,
}

// eventOf returns the event of a row, or nil if the row has no event. The payload function must not
// modify the row.
func eventOf(w table.Write) *Event {
	switch r := w.Row.(type) {
	case *nomad.Job:
		return about(nomad.TopicJob, r.ID, r.Namespace, func() map[string]any { return deletable("Job", r, w.Deleted) })
	case *nomad.Evaluation:
		return about(nomad.TopicEvaluation, r.ID, r.Namespace, one("Evaluation", func() any { return evaluation(r) }), r.JobID, r.DeploymentID)
	case *nomad.Allocation:
		return about(nomad.TopicAllocation, r.ID, r.Namespace, one("Allocation", func() any { return allocation(r) }), r.JobID, r.DeploymentID)
	case *nomad.Deployment:
		return about(nomad.TopicDeployment, r.ID, r.Namespace, one("Deployment", func() any { return r }), r.JobID)
	case *nomad.Node:
		return about(nomad.TopicNode, r.ID, "", one("Node", func() any { return r.WithoutSecret() }))
	case *nomad.NodePool:
		return about(nomad.TopicNodePool, r.Name, "", one("NodePool", func() any { return r }))
	case *nomad.ServiceRegistration:
		return about(nomad.TopicService, r.ID, r.Namespace, one("Service", func() any { return r }), r.JobID, r.ServiceName)
	case *nomad.HostVolume:
		return ofVolume(r, w.Deleted)
	case *nomad.VariableEncrypted:
		return about(nomad.TopicVariable, r.Path, r.Namespace, func() map[string]any { return deletable("Metadata", metadata(r), w.Deleted) })
	}
	return eventOfAccess(w.Row)
}

// ofVolume returns the event of a host volume. The parameters may contain secrets of the plugin. As in Nomad 2.0, the
// event of a deleted volume has no key.
func ofVolume(v *nomad.HostVolume, deleted bool) *Event {
	shown := *v
	shown.Parameters = nil
	key := v.ID
	if deleted {
		key = ""
	}
	return about(nomad.TopicHostVolume, key, v.Namespace, func() map[string]any { return deletable("Volume", &shown, deleted) }, v.ID, v.Name,
		v.PluginID)
}

// eventOfAccess is eventOf for ACL objects.
func eventOfAccess(row any) *Event {
	switch r := row.(type) {
	case *nomad.ACLToken:
		return about(nomad.TopicACLToken, r.AccessorID, "", one("ACLToken", func() any { return r.WithoutSecret() }))
	case *nomad.ACLPolicy:
		return about(nomad.TopicACLPolicy, r.Name, "", one("ACLPolicy", func() any { return r }))
	case *nomad.ACLRole:
		return about(nomad.TopicACLRole, r.ID, "", one("ACLRole", func() any { return r }), r.Name)
	case *nomad.ACLAuthMethod:
		return about(nomad.TopicACLAuthMethod, r.Name, "", one("AuthMethod", func() any { return r.WithoutSecrets() }))
	case *nomad.ACLBindingRule:
		return about(nomad.TopicACLBindingRule, r.ID, "", one("ACLBindingRule", func() any { return r }), r.AuthMethod)
	}
	return nil
}

// about returns an event. Empty keys are omitted.
func about(topic nomad.Topic, key, namespace string, payload func() map[string]any, keys ...string) *Event {
	e := &Event{Topic: topic, Key: key, Namespace: namespace, payload: payload}
	for _, k := range keys {
		if k != "" {
			e.FilterKeys = append(e.FilterKeys, k)
		}
	}
	return e
}

func one(name string, thing func() any) func() map[string]any {
	return func() map[string]any { return map[string]any{name: thing()} }
}

// deletable returns the payload of an object, empty if the object was deleted.
func deletable(name string, thing any, gone bool) map[string]any {
	out := map[string]any{name: thing}
	if gone {
		out["Deleted"] = true
	}
	return out
}

// evaluation returns the evaluation without the leader's token, which older leaders stored in it.
func evaluation(e *nomad.Evaluation) *nomad.Evaluation {
	if e.LeaderACL == "" {
		return e
	}
	out := *e
	out.LeaderACL = ""
	return &out
}

// allocation returns the allocation without identity tokens, and without the job, which has its own
// events.
func allocation(a *nomad.Allocation) *nomad.Allocation {
	out := a.Public()
	out.Job = nil
	return out
}

// metadata returns the metadata of a variable without the lock, which only writers may see.
func metadata(v *nomad.VariableEncrypted) *nomad.VariableMetadata {
	out := v.VariableMetadata
	if out.Lock != nil {
		lock := *out.Lock
		lock.ID = ""
		out.Lock = &lock
	}
	return &out
}
