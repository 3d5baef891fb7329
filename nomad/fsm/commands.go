package fsm

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// command is a row of the table: a message number, its name and its function.
type command struct {
	number message.CommandType
	name   string
	apply  func(store *state.Store, index uint64, body []byte) (any, *state.Changes, error)
	body   func() any // returns an empty body; nil if the type is unknown
}

// handle returns the row of a command with a body of type T.
func handle[T any](number message.CommandType, name string,
	apply func(*state.Store, uint64, *T) (*state.Changes, error)) command {
	return answer(number, name, func(s *state.Store, index uint64, body *T) (any, *state.Changes, error) {
		changes, err := apply(s, index, body)
		return nil, changes, err
	})
}

// answer returns the row of a command with a body of type T and a result for the caller.
func answer[T any](number message.CommandType, name string,
	apply func(*state.Store, uint64, *T) (any, *state.Changes, error)) command {
	return command{number: number, name: name, body: func() any { return new(T) },
		apply: func(s *state.Store, index uint64, body []byte) (any, *state.Changes, error) {
			v := new(T)
			if err := codec.Decode(body, v); err != nil {
				return nil, nil, &fatalError{fmt.Errorf("decode log entry %d of type %d (%s): %w", index, number, name, err)}
			}
			return apply(s, index, v)
		}}
}

// ignored returns the row of an obsolete command without any effect.
func ignored(number message.CommandType, name string) command {
	return command{number: number, name: name, apply: func(*state.Store, uint64, []byte) (any, *state.Changes, error) {
		return nil, nil, nil
	}}
}

// commandTable returns all commands by number.
func commandTable() map[message.CommandType]command {
	table := map[message.CommandType]command{}
	for _, c := range allCommands() {
		table[c.number] = c
	}
	return table
}

// allCommands lists Nomad 2.0's message numbers and our own. The numbers 66 to 74
// stay free, because other servers reserve them and the contents of their entries are unknown.
func allCommands() []command {
	return []command{
		handle(message.NodeRegisterRequestType, "NodeRegister", (*state.Store).RegisterNode),
		handle(message.NodeDeregisterRequestType, "NodeDeregister", deregisterNode),
		handle(message.NodeUpdateStatusRequestType, "NodeUpdateStatus", (*state.Store).UpdateNodeStatus),
		handle(message.NodeUpdateDrainRequestType, "NodeUpdateDrain", (*state.Store).UpdateNodeDrain),
		handle(message.JobRegisterRequestType, "JobRegister", (*state.Store).RegisterJob),
		handle(message.JobDeregisterRequestType, "JobDeregister", (*state.Store).DeregisterJob),
		handle(message.EvalUpdateRequestType, "EvalUpdate", (*state.Store).UpsertEvals),
		handle(message.EvalDeleteRequestType, "EvalDelete", (*state.Store).Reap),
		ignored(message.AllocUpdateRequestType, "AllocUpdate"),
		handle(message.AllocClientUpdateRequestType, "AllocClientUpdate", (*state.Store).UpdateAllocsFromClient),
		handle(message.ReconcileJobSummariesRequestType, "ReconcileJobSummaries", reconcileSummaries),
		ignored(message.VaultAccessorRegisterRequestType, "VaultAccessorRegister"),
		ignored(message.VaultAccessorDeregisterRequestType, "VaultAccessorDeregister"),
		handle(message.ApplyPlanResultsRequestType, "ApplyPlanResults", (*state.Store).ApplyPlanResults),
		handle(message.DeploymentStatusUpdateRequestType, "DeploymentStatusUpdate", (*state.Store).UpdateDeploymentStatus),
		handle(message.DeploymentPromoteRequestType, "DeploymentPromote", (*state.Store).PromoteDeployment),
		handle(message.DeploymentAllocHealthRequestType, "DeploymentAllocHealth", (*state.Store).SetAllocHealth),
		handle(message.DeploymentDeleteRequestType, "DeploymentDelete", (*state.Store).DeleteDeployments),
		handle(message.JobStabilityRequestType, "JobStability", (*state.Store).SetJobStability),
		handle(message.ACLPolicyUpsertRequestType, "ACLPolicyUpsert", (*state.Store).UpsertACLPolicies),
		handle(message.ACLPolicyDeleteRequestType, "ACLPolicyDelete", (*state.Store).DeleteACLPolicies),
		handle(message.ACLTokenUpsertRequestType, "ACLTokenUpsert", (*state.Store).UpsertACLTokens),
		handle(message.ACLTokenDeleteRequestType, "ACLTokenDelete", (*state.Store).DeleteACLTokens),
		handle(message.ACLTokenBootstrapRequestType, "ACLTokenBootstrap", (*state.Store).BootstrapACL),
		answer(message.AutopilotRequestType, "Autopilot", setAutopilot),
		handle(message.UpsertNodeEventsType, "UpsertNodeEvents", (*state.Store).AddNodeEvents),
		handle(message.JobBatchDeregisterRequestType, "JobBatchDeregister", (*state.Store).DeregisterJobs),
		handle(message.AllocUpdateDesiredTransitionRequestType, "AllocUpdateDesiredTransition", (*state.Store).UpdateDesiredTransitions),
		handle(message.NodeUpdateEligibilityRequestType, "NodeUpdateEligibility", (*state.Store).UpdateNodeEligibility),
		handle(message.BatchNodeUpdateDrainRequestType, "BatchNodeUpdateDrain", (*state.Store).UpdateNodeDrains),
		answer(message.SchedulerConfigRequestType, "SchedulerConfig", setScheduler),
		handle(message.NodeBatchDeregisterRequestType, "NodeBatchDeregister", deregisterNodes),
		handle(message.ClusterMetadataRequestType, "ClusterMetadata", (*state.Store).SetClusterMetadata),
		ignored(message.ServiceIdentityAccessorRegisterRequestType, "ServiceIdentityAccessorRegister"),
		ignored(message.ServiceIdentityAccessorDeregisterRequestType, "ServiceIdentityAccessorDeregister"),
		handle(message.CSIVolumeRegisterRequestType, "CSIVolumeRegister", (*state.Store).RegisterCSIVolumes),
		handle(message.CSIVolumeDeregisterRequestType, "CSIVolumeDeregister", (*state.Store).DeregisterCSIVolumes),
		handle(message.CSIVolumeClaimRequestType, "CSIVolumeClaim", (*state.Store).ClaimCSIVolume),
		handle(message.ScalingEventRegisterRequestType, "ScalingEventRegister", (*state.Store).AddScalingEvent),
		handle(message.CSIVolumeClaimBatchRequestType, "CSIVolumeClaimBatch", (*state.Store).ClaimCSIVolumes),
		handle(message.CSIPluginDeleteRequestType, "CSIPluginDelete", (*state.Store).DeleteCSIPlugin),
		ignored(message.EventSinkUpsertRequestType, "EventSinkUpsert"),
		ignored(message.EventSinkDeleteRequestType, "EventSinkDelete"),
		ignored(message.BatchEventSinkUpdateProgressType, "BatchEventSinkUpdateProgress"),
		handle(message.OneTimeTokenUpsertRequestType, "OneTimeTokenUpsert", (*state.Store).UpsertOneTimeToken),
		handle(message.OneTimeTokenDeleteRequestType, "OneTimeTokenDelete", (*state.Store).DeleteOneTimeTokens),
		handle(message.OneTimeTokenExpireRequestType, "OneTimeTokenExpire", (*state.Store).ExpireOneTimeTokens),
		handle(message.ServiceRegistrationUpsertRequestType, "ServiceRegistrationUpsert", (*state.Store).UpsertRegistrations),
		handle(message.ServiceRegistrationDeleteByIDRequestType, "ServiceRegistrationDeleteByID", (*state.Store).DeleteRegistration),
		handle(message.ServiceRegistrationDeleteByNodeIDRequestType, "ServiceRegistrationDeleteByNodeID",
			(*state.Store).DeleteRegistrationsOfNode),
		answer(message.VarApplyStateRequestType, "VarApplyState", applyVariable),
		handle(message.RootKeyMetaUpsertRequestType, "RootKeyMetaUpsert", (*state.Store).UpsertRootKeyMeta),
		handle(message.WrappedRootKeysDeleteRequestType, "WrappedRootKeysDelete", (*state.Store).DeleteRootKey),
		handle(message.ACLRolesUpsertRequestType, "ACLRolesUpsert", (*state.Store).UpsertACLRoles),
		handle(message.ACLRolesDeleteByIDRequestType, "ACLRolesDeleteByID", (*state.Store).DeleteACLRoles),
		handle(message.ACLAuthMethodsUpsertRequestType, "ACLAuthMethodsUpsert", (*state.Store).UpsertACLAuthMethods),
		handle(message.ACLAuthMethodsDeleteRequestType, "ACLAuthMethodsDelete", (*state.Store).DeleteACLAuthMethods),
		handle(message.ACLBindingRulesUpsertRequestType, "ACLBindingRulesUpsert", (*state.Store).UpsertACLBindingRules),
		handle(message.ACLBindingRulesDeleteRequestType, "ACLBindingRulesDelete", (*state.Store).DeleteACLBindingRules),
		handle(message.NodePoolUpsertRequestType, "NodePoolUpsert", (*state.Store).UpsertNodePools),
		handle(message.NodePoolDeleteRequestType, "NodePoolDelete", (*state.Store).DeleteNodePools),
		handle(message.JobVersionTagRequestType, "JobVersionTag", (*state.Store).TagJobVersion),
		handle(message.WrappedRootKeysUpsertRequestType, "WrappedRootKeysUpsert", (*state.Store).UpsertRootKey),
		handle(message.NamespaceUpsertRequestType, "NamespaceUpsert", (*state.Store).UpsertNamespaces),
		handle(message.NamespaceDeleteRequestType, "NamespaceDelete", (*state.Store).DeleteNamespaces),
		handle(message.QuotaUpsertRequestType, "QuotaUpsert", (*state.Store).UpsertQuotas),
		handle(message.QuotaDeleteRequestType, "QuotaDelete", (*state.Store).DeleteQuotas),
		handle(message.DriverSchemaUpsertRequestType, "DriverSchemaUpsert", (*state.Store).UpsertDriverSchemas),
		handle(message.HostVolumeRegisterRequestType, "HostVolumeRegister", (*state.Store).RegisterHostVolume),
		handle(message.HostVolumeDeleteRequestType, "HostVolumeDelete", (*state.Store).DeleteHostVolume),
		handle(message.TaskGroupHostVolumeClaimDeleteRequestType, "TaskGroupHostVolumeClaimDelete", (*state.Store).DeleteVolumeClaim),
	}
}

func deregisterNode(s *state.Store, index uint64, req *message.NodeDeregisterRequest) (*state.Changes, error) {
	return s.DeregisterNodes(index, state.Deregistration{IDs: []string{req.NodeID}, Purge: true, PurgedAt: req.PurgedAt})
}

func deregisterNodes(s *state.Store, index uint64, req *message.NodeBatchDeregisterRequest) (*state.Changes, error) {
	// Leaders of Nomad 2.0 remove nodes with this command, which contains no time.
	return s.DeregisterNodes(index, state.Deregistration{IDs: req.NodeIDs, Purge: req.PurgedAt != 0, PurgedAt: req.PurgedAt})
}

// reconcileSummaries handles a command with an empty body.
func reconcileSummaries(s *state.Store, index uint64, _ *message.GenericRequest) (*state.Changes, error) {
	return s.ReconcileJobSummaries(index)
}

// setScheduler returns whether the configuration was set.
func setScheduler(s *state.Store, index uint64, req *message.SchedulerSetConfigRequest) (any, *state.Changes, error) {
	changes, done, err := s.SetSchedulerConfig(index, req)
	return done, changes, err
}

// setAutopilot returns whether the configuration was set.
func setAutopilot(s *state.Store, index uint64, req *message.AutopilotSetConfigRequest) (any, *state.Changes, error) {
	changes, done, err := s.SetAutopilotConfig(index, req)
	return done, changes, err
}

// applyVariable returns the result of an operation on a variable.
func applyVariable(s *state.Store, index uint64, req *message.VarApplyStateRequest) (any, *state.Changes, error) {
	defer measureVariable(req.Op, time.Now())
	out, changes, err := s.ApplyVariable(index, req)
	if err != nil {
		return nil, nil, err
	}
	return out, changes, nil
}
