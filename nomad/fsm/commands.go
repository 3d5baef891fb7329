package fsm

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// command is a row of the table: a message number, its name and its function.
type command struct {
	number nomad.MessageType
	name   string
	// nil for a command of an unsupported feature
	apply func(store *state.Store, index uint64, body []byte) (any, *state.Changes, error)
	body  func() any // returns an empty body; nil if the type is unknown
}

// handle returns the row of a command with a body of type T.
func handle[T any](number nomad.MessageType, name string,
	apply func(*state.Store, uint64, *T) (*state.Changes, error)) command {
	return answer(number, name, func(s *state.Store, index uint64, body *T) (any, *state.Changes, error) {
		changes, err := apply(s, index, body)
		return nil, changes, err
	})
}

// answer returns the row of a command with a body of type T and a result for the caller.
func answer[T any](number nomad.MessageType, name string,
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
func ignored(number nomad.MessageType, name string) command {
	return command{number: number, name: name, apply: func(*state.Store, uint64, []byte) (any, *state.Changes, error) {
		return nil, nil, nil
	}}
}

// later returns the row of a command of an unsupported feature. Its entries stop the server
// unless they carry the ignore flag: see missing.
func later(number nomad.MessageType, name string) command {
	return command{number: number, name: name}
}

// commandTable returns all commands by number.
func commandTable() map[nomad.MessageType]command {
	table := map[nomad.MessageType]command{}
	for _, c := range allCommands() {
		table[c.number] = c
	}
	return table
}

// allCommands lists Nomad 2.0's message numbers and our own. The numbers 66 to 74
// stay free, because other servers reserve them and the contents of their entries are unknown.
func allCommands() []command {
	return []command{
		handle(nomad.NodeRegisterRequestType, "NodeRegister", (*state.Store).RegisterNode),
		handle(nomad.NodeDeregisterRequestType, "NodeDeregister", deregisterNode),
		handle(nomad.NodeUpdateStatusRequestType, "NodeUpdateStatus", (*state.Store).UpdateNodeStatus),
		handle(nomad.NodeUpdateDrainRequestType, "NodeUpdateDrain", (*state.Store).UpdateNodeDrain),
		handle(nomad.JobRegisterRequestType, "JobRegister", (*state.Store).RegisterJob),
		handle(nomad.JobDeregisterRequestType, "JobDeregister", (*state.Store).DeregisterJob),
		handle(nomad.EvalUpdateRequestType, "EvalUpdate", (*state.Store).UpsertEvals),
		handle(nomad.EvalDeleteRequestType, "EvalDelete", (*state.Store).Reap),
		ignored(nomad.AllocUpdateRequestType, "AllocUpdate"),
		handle(nomad.AllocClientUpdateRequestType, "AllocClientUpdate", (*state.Store).UpdateAllocsFromClient),
		handle(nomad.ReconcileJobSummariesRequestType, "ReconcileJobSummaries", reconcileSummaries),
		ignored(nomad.VaultAccessorRegisterRequestType, "VaultAccessorRegister"),
		ignored(nomad.VaultAccessorDeregisterRequestType, "VaultAccessorDeregister"),
		handle(nomad.ApplyPlanResultsRequestType, "ApplyPlanResults", (*state.Store).ApplyPlanResults),
		handle(nomad.DeploymentStatusUpdateRequestType, "DeploymentStatusUpdate", (*state.Store).UpdateDeploymentStatus),
		handle(nomad.DeploymentPromoteRequestType, "DeploymentPromote", (*state.Store).PromoteDeployment),
		handle(nomad.DeploymentAllocHealthRequestType, "DeploymentAllocHealth", (*state.Store).SetAllocHealth),
		handle(nomad.DeploymentDeleteRequestType, "DeploymentDelete", (*state.Store).DeleteDeployments),
		handle(nomad.JobStabilityRequestType, "JobStability", (*state.Store).SetJobStability),
		handle(nomad.ACLPolicyUpsertRequestType, "ACLPolicyUpsert", (*state.Store).UpsertACLPolicies),
		handle(nomad.ACLPolicyDeleteRequestType, "ACLPolicyDelete", (*state.Store).DeleteACLPolicies),
		handle(nomad.ACLTokenUpsertRequestType, "ACLTokenUpsert", (*state.Store).UpsertACLTokens),
		handle(nomad.ACLTokenDeleteRequestType, "ACLTokenDelete", (*state.Store).DeleteACLTokens),
		handle(nomad.ACLTokenBootstrapRequestType, "ACLTokenBootstrap", (*state.Store).BootstrapACL),
		answer(nomad.AutopilotRequestType, "Autopilot", setAutopilot),
		handle(nomad.UpsertNodeEventsType, "UpsertNodeEvents", (*state.Store).AddNodeEvents),
		handle(nomad.JobBatchDeregisterRequestType, "JobBatchDeregister", (*state.Store).DeregisterJobs),
		handle(nomad.AllocUpdateDesiredTransitionRequestType, "AllocUpdateDesiredTransition", (*state.Store).UpdateDesiredTransitions),
		handle(nomad.NodeUpdateEligibilityRequestType, "NodeUpdateEligibility", (*state.Store).UpdateNodeEligibility),
		handle(nomad.BatchNodeUpdateDrainRequestType, "BatchNodeUpdateDrain", (*state.Store).UpdateNodeDrains),
		answer(nomad.SchedulerConfigRequestType, "SchedulerConfig", setScheduler),
		handle(nomad.NodeBatchDeregisterRequestType, "NodeBatchDeregister", deregisterNodes),
		handle(nomad.ClusterMetadataRequestType, "ClusterMetadata", (*state.Store).SetClusterMetadata),
		ignored(nomad.ServiceIdentityAccessorRegisterRequestType, "ServiceIdentityAccessorRegister"),
		ignored(nomad.ServiceIdentityAccessorDeregisterRequestType, "ServiceIdentityAccessorDeregister"),
		later(nomad.CSIVolumeRegisterRequestType, "CSIVolumeRegister"),
		later(nomad.CSIVolumeDeregisterRequestType, "CSIVolumeDeregister"),
		later(nomad.CSIVolumeClaimRequestType, "CSIVolumeClaim"),
		handle(nomad.ScalingEventRegisterRequestType, "ScalingEventRegister", (*state.Store).AddScalingEvent),
		later(nomad.CSIVolumeClaimBatchRequestType, "CSIVolumeClaimBatch"),
		later(nomad.CSIPluginDeleteRequestType, "CSIPluginDelete"),
		ignored(nomad.EventSinkUpsertRequestType, "EventSinkUpsert"),
		ignored(nomad.EventSinkDeleteRequestType, "EventSinkDelete"),
		ignored(nomad.BatchEventSinkUpdateProgressType, "BatchEventSinkUpdateProgress"),
		handle(nomad.OneTimeTokenUpsertRequestType, "OneTimeTokenUpsert", (*state.Store).UpsertOneTimeToken),
		handle(nomad.OneTimeTokenDeleteRequestType, "OneTimeTokenDelete", (*state.Store).DeleteOneTimeTokens),
		handle(nomad.OneTimeTokenExpireRequestType, "OneTimeTokenExpire", (*state.Store).ExpireOneTimeTokens),
		handle(nomad.ServiceRegistrationUpsertRequestType, "ServiceRegistrationUpsert", (*state.Store).UpsertRegistrations),
		handle(nomad.ServiceRegistrationDeleteByIDRequestType, "ServiceRegistrationDeleteByID", (*state.Store).DeleteRegistration),
		handle(nomad.ServiceRegistrationDeleteByNodeIDRequestType, "ServiceRegistrationDeleteByNodeID", (*state.Store).DeleteRegistrationsOfNode),
		answer(nomad.VarApplyStateRequestType, "VarApplyState", applyVariable),
		handle(nomad.RootKeyMetaUpsertRequestType, "RootKeyMetaUpsert", (*state.Store).UpsertRootKeyMeta),
		handle(nomad.WrappedRootKeysDeleteRequestType, "WrappedRootKeysDelete", (*state.Store).DeleteRootKey),
		handle(nomad.ACLRolesUpsertRequestType, "ACLRolesUpsert", (*state.Store).UpsertACLRoles),
		handle(nomad.ACLRolesDeleteByIDRequestType, "ACLRolesDeleteByID", (*state.Store).DeleteACLRoles),
		handle(nomad.ACLAuthMethodsUpsertRequestType, "ACLAuthMethodsUpsert", (*state.Store).UpsertACLAuthMethods),
		handle(nomad.ACLAuthMethodsDeleteRequestType, "ACLAuthMethodsDelete", (*state.Store).DeleteACLAuthMethods),
		handle(nomad.ACLBindingRulesUpsertRequestType, "ACLBindingRulesUpsert", (*state.Store).UpsertACLBindingRules),
		handle(nomad.ACLBindingRulesDeleteRequestType, "ACLBindingRulesDelete", (*state.Store).DeleteACLBindingRules),
		handle(nomad.NodePoolUpsertRequestType, "NodePoolUpsert", (*state.Store).UpsertNodePools),
		handle(nomad.NodePoolDeleteRequestType, "NodePoolDelete", (*state.Store).DeleteNodePools),
		handle(nomad.JobVersionTagRequestType, "JobVersionTag", (*state.Store).TagJobVersion),
		handle(nomad.WrappedRootKeysUpsertRequestType, "WrappedRootKeysUpsert", (*state.Store).UpsertRootKey),
		handle(nomad.NamespaceUpsertRequestType, "NamespaceUpsert", (*state.Store).UpsertNamespaces),
		handle(nomad.NamespaceDeleteRequestType, "NamespaceDelete", (*state.Store).DeleteNamespaces),
		handle(nomad.QuotaUpsertRequestType, "QuotaUpsert", (*state.Store).UpsertQuotas),
		handle(nomad.QuotaDeleteRequestType, "QuotaDelete", (*state.Store).DeleteQuotas),
		handle(nomad.DriverSchemaUpsertRequestType, "DriverSchemaUpsert", (*state.Store).UpsertDriverSchemas),
		handle(nomad.HostVolumeRegisterRequestType, "HostVolumeRegister", (*state.Store).RegisterHostVolume),
		handle(nomad.HostVolumeDeleteRequestType, "HostVolumeDelete", (*state.Store).DeleteHostVolume),
		handle(nomad.TaskGroupHostVolumeClaimDeleteRequestType, "TaskGroupHostVolumeClaimDelete", (*state.Store).DeleteVolumeClaim),
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
