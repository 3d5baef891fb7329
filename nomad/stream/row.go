package stream

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/state/table"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// types maps commands to event types. All rows that a command writes get the type of the command.
var types = map[message.CommandType]string{
	message.NodeRegisterRequestType:                 message.TypeNodeRegistration,
	message.NodeDeregisterRequestType:               message.TypeNodeDeregistration,
	message.NodeBatchDeregisterRequestType:          message.TypeNodeDeregistration,
	message.NodeUpdateStatusRequestType:             message.TypeNodeEvent,
	message.UpsertNodeEventsType:                    message.TypeNodeEvent,
	message.NodeUpdateDrainRequestType:              message.TypeNodeDrain,
	message.BatchNodeUpdateDrainRequestType:         message.TypeNodeDrain,
	message.NodeUpdateEligibilityRequestType:        message.TypeNodeEligibilityUpdate,
	message.NodePoolUpsertRequestType:               message.TypeNodePoolUpserted,
	message.NodePoolDeleteRequestType:               message.TypeNodePoolDeleted,
	message.JobRegisterRequestType:                  message.TypeJobRegistered,
	message.JobDeregisterRequestType:                message.TypeJobDeregistered,
	message.JobBatchDeregisterRequestType:           message.TypeJobBatchDeregistered,
	message.EvalUpdateRequestType:                   message.TypeEvalUpdated,
	message.AllocClientUpdateRequestType:            message.TypeAllocationUpdated,
	message.AllocUpdateDesiredTransitionRequestType: message.TypeAllocationUpdateDesiredStatus,
	message.ApplyPlanResultsRequestType:             message.TypePlanResult,
	message.DeploymentStatusUpdateRequestType:       message.TypeDeploymentUpdate,
	message.DeploymentPromoteRequestType:            message.TypeDeploymentPromotion,
	message.DeploymentAllocHealthRequestType:        message.TypeDeploymentAllocHealth,
	message.ACLTokenUpsertRequestType:               message.TypeACLTokenUpserted,
	message.ACLTokenBootstrapRequestType:            message.TypeACLTokenUpserted,
	message.ACLTokenDeleteRequestType:               message.TypeACLTokenDeleted,
	message.ACLPolicyUpsertRequestType:              message.TypeACLPolicyUpserted,
	message.ACLPolicyDeleteRequestType:              message.TypeACLPolicyDeleted,
	message.ACLRolesUpsertRequestType:               message.TypeACLRoleUpserted,
	message.ACLRolesDeleteByIDRequestType:           message.TypeACLRoleDeleted,
	message.ACLAuthMethodsUpsertRequestType:         message.TypeACLAuthMethodUpserted,
	message.ACLAuthMethodsDeleteRequestType:         message.TypeACLAuthMethodDeleted,
	message.ACLBindingRulesUpsertRequestType:        message.TypeACLBindingRuleUpserted,
	message.ACLBindingRulesDeleteRequestType:        message.TypeACLBindingRuleDeleted,
	message.VarApplyStateRequestType:                message.TypeVariableUpdated,

	message.ServiceRegistrationUpsertRequestType:         message.TypeServiceRegistration,
	message.ServiceRegistrationDeleteByIDRequestType:     message.TypeServiceDeregistration,
	message.ServiceRegistrationDeleteByNodeIDRequestType: message.TypeServiceDeregistration,
	message.HostVolumeRegisterRequestType:                message.TypeHostVolumeRegistered,
	message.HostVolumeDeleteRequestType:                  message.TypeHostVolumeDeleted,
	message.CSIVolumeRegisterRequestType:                 message.TypeCSIVolumeRegistered,
	message.CSIVolumeClaimRequestType:                    message.TypeCSIVolumeClaim,
	message.CSIVolumeClaimBatchRequestType:               message.TypeCSIVolumeClaim,
	message.CSIVolumeDeregisterRequestType:               message.TypeCSIVolumeDeregistered,
	message.CSIPluginDeleteRequestType:                   message.TypeCSIPluginDeleted,
}

// eventOf returns the event of a row, or nil if the row has no event. The payload function must not
// modify the row.
func eventOf(w table.Write) *Event {
	switch r := w.Row.(type) {
	case *nomad.Job:
		return about(message.TopicJob, r.ID, r.Namespace, func() map[string]any { return deletable("Job", r, w.Deleted) })
	case *nomad.Evaluation:
		return about(message.TopicEvaluation, r.ID, r.Namespace, one("Evaluation", func() any { return evaluation(r) })).
			filtered(r.JobID, r.DeploymentID)
	case *nomad.Allocation:
		return about(message.TopicAllocation, r.ID, r.Namespace, one("Allocation", func() any { return allocation(r) })).
			filtered(r.JobID, r.DeploymentID)
	case *nomad.Deployment:
		return about(message.TopicDeployment, r.ID, r.Namespace, one("Deployment", func() any { return r })).
			filtered(r.JobID)
	case *nomad.Node:
		return about(message.TopicNode, r.ID, "", one("Node", func() any { return nodeView{r.WithoutSecret(), r.DrainStrategy != nil} }))
	case *nomad.NodePool:
		return about(message.TopicNodePool, r.Name, "", one("NodePool", func() any { return r }))
	case *catalog.Registration:
		return about(message.TopicService, r.ID, r.Namespace, one("Service", func() any { return r })).
			filtered(r.JobID, r.ServiceName)
	case *hostvolume.Volume:
		return ofVolume(r, w.Deleted)
	case *csi.Volume:
		return about(message.TopicCSIVolume, r.ID, r.Namespace, func() map[string]any { return deletable("Volume", r.Redacted(), w.Deleted) }).
			filtered(r.ID, r.Name, r.PluginID)
	case *csi.Plugin:
		return about(message.TopicCSIPlugin, r.ID, "", func() map[string]any { return deletable("Plugin", plugin(r), w.Deleted) }).filtered(r.ID)
	case *variable.Encrypted:
		return about(message.TopicVariable, r.Path, r.Namespace, func() map[string]any { return deletable("Metadata", metadata(r), w.Deleted) })
	}
	return eventOfAccess(w.Row)
}

// ofVolume returns the event of a host volume. The parameters may contain secrets of the plugin. As in Nomad 2.0, the
// event of a deleted volume has no key.
func ofVolume(v *hostvolume.Volume, deleted bool) *Event {
	shown := *v
	shown.Parameters = nil
	key := v.ID
	if deleted {
		key = ""
	}
	payload := func() map[string]any { return deletable("Volume", &shown, deleted) }
	return about(message.TopicHostVolume, key, v.Namespace, payload).filtered(v.ID, v.Name, v.PluginID)
}

// plugin returns the plugin without its jobs, which are in any namespace.
func plugin(p *csi.Plugin) *csi.Plugin {
	shown := *p
	shown.ControllerJobs, shown.NodeJobs = nil, nil
	return &shown
}

// nodeView is the form of a node in events. Drain is for old tools.
type nodeView struct {
	*nomad.Node
	Drain bool
}

// eventOfAccess is eventOf for ACL objects.
func eventOfAccess(row any) *Event {
	switch r := row.(type) {
	case *rbac.Token:
		return about(message.TopicACLToken, r.AccessorID, "", one("ACLToken", func() any { return r.WithoutSecret() }))
	case *rbac.Policy:
		return about(message.TopicACLPolicy, r.Name, "", one("ACLPolicy", func() any { return r }))
	case *rbac.Role:
		return about(message.TopicACLRole, r.ID, "", one("ACLRole", func() any { return r })).filtered(r.Name)
	case *rbac.AuthMethod:
		return about(message.TopicACLAuthMethod, r.Name, "", one("AuthMethod", func() any { return r.WithoutSecrets() }))
	case *rbac.BindingRule:
		return about(message.TopicACLBindingRule, r.ID, "", one("ACLBindingRule", func() any { return r })).
			filtered(r.AuthMethod)
	}
	return nil
}

// about returns an event.
func about(topic message.Topic, key, namespace string, payload func() map[string]any) *Event {
	return &Event{Topic: topic, Key: key, Namespace: namespace, payload: payload}
}

// filtered adds filter keys that are not empty, and returns the event.
func (e *Event) filtered(keys ...string) *Event {
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
func metadata(v *variable.Encrypted) *variable.Metadata {
	out := v.Metadata
	if out.Lock != nil {
		lock := *out.Lock
		lock.ID = ""
		out.Lock = &lock
	}
	return &out
}
