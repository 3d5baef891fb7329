package message

// Raft log message types, numbered as in Nomad 2.0.
const (
	NodeRegisterRequestType                      CommandType = 0
	NodeDeregisterRequestType                    CommandType = 1
	NodeUpdateStatusRequestType                  CommandType = 2
	NodeUpdateDrainRequestType                   CommandType = 3
	JobRegisterRequestType                       CommandType = 4
	JobDeregisterRequestType                     CommandType = 5
	EvalUpdateRequestType                        CommandType = 6
	EvalDeleteRequestType                        CommandType = 7
	AllocUpdateRequestType                       CommandType = 8
	AllocClientUpdateRequestType                 CommandType = 9
	ReconcileJobSummariesRequestType             CommandType = 10
	VaultAccessorRegisterRequestType             CommandType = 11
	VaultAccessorDeregisterRequestType           CommandType = 12
	ApplyPlanResultsRequestType                  CommandType = 13
	DeploymentStatusUpdateRequestType            CommandType = 14
	DeploymentPromoteRequestType                 CommandType = 15
	DeploymentAllocHealthRequestType             CommandType = 16
	DeploymentDeleteRequestType                  CommandType = 17
	JobStabilityRequestType                      CommandType = 18
	ACLPolicyUpsertRequestType                   CommandType = 19
	ACLPolicyDeleteRequestType                   CommandType = 20
	ACLTokenUpsertRequestType                    CommandType = 21
	ACLTokenDeleteRequestType                    CommandType = 22
	ACLTokenBootstrapRequestType                 CommandType = 23
	AutopilotRequestType                         CommandType = 24
	UpsertNodeEventsType                         CommandType = 25
	JobBatchDeregisterRequestType                CommandType = 26
	AllocUpdateDesiredTransitionRequestType      CommandType = 27
	NodeUpdateEligibilityRequestType             CommandType = 28
	BatchNodeUpdateDrainRequestType              CommandType = 29
	SchedulerConfigRequestType                   CommandType = 30
	NodeBatchDeregisterRequestType               CommandType = 31
	ClusterMetadataRequestType                   CommandType = 32
	ServiceIdentityAccessorRegisterRequestType   CommandType = 33
	ServiceIdentityAccessorDeregisterRequestType CommandType = 34
	CSIVolumeRegisterRequestType                 CommandType = 35
	CSIVolumeDeregisterRequestType               CommandType = 36
	CSIVolumeClaimRequestType                    CommandType = 37
	ScalingEventRegisterRequestType              CommandType = 38
	CSIVolumeClaimBatchRequestType               CommandType = 39
	CSIPluginDeleteRequestType                   CommandType = 40
	EventSinkUpsertRequestType                   CommandType = 41
	EventSinkDeleteRequestType                   CommandType = 42
	BatchEventSinkUpdateProgressType             CommandType = 43
	OneTimeTokenUpsertRequestType                CommandType = 44
	OneTimeTokenDeleteRequestType                CommandType = 45
	OneTimeTokenExpireRequestType                CommandType = 46
	ServiceRegistrationUpsertRequestType         CommandType = 47
	ServiceRegistrationDeleteByIDRequestType     CommandType = 48
	ServiceRegistrationDeleteByNodeIDRequestType CommandType = 49
	VarApplyStateRequestType                     CommandType = 50
	RootKeyMetaUpsertRequestType                 CommandType = 51
	WrappedRootKeysDeleteRequestType             CommandType = 52
	ACLRolesUpsertRequestType                    CommandType = 53
	ACLRolesDeleteByIDRequestType                CommandType = 54
	ACLAuthMethodsUpsertRequestType              CommandType = 55
	ACLAuthMethodsDeleteRequestType              CommandType = 56
	ACLBindingRulesUpsertRequestType             CommandType = 57
	ACLBindingRulesDeleteRequestType             CommandType = 58
	NodePoolUpsertRequestType                    CommandType = 59
	NodePoolDeleteRequestType                    CommandType = 60
	JobVersionTagRequestType                     CommandType = 61
	WrappedRootKeysUpsertRequestType             CommandType = 62
	NamespaceUpsertRequestType                   CommandType = 64
	NamespaceDeleteRequestType                   CommandType = 65
	HostVolumeRegisterRequestType                CommandType = 75
	HostVolumeDeleteRequestType                  CommandType = 76
	TaskGroupHostVolumeClaimDeleteRequestType    CommandType = 77
	QuotaUpsertRequestType                       CommandType = 120 // open-nomad only
	QuotaDeleteRequestType                       CommandType = 121 // open-nomad only
	DriverSchemaUpsertRequestType                CommandType = 122 // open-nomad only
	IgnoreUnknownTypeFlag                        CommandType = 128
)

// CommandType is the type number of a Raft log entry.
type CommandType uint8

// Ours reports whether only servers of this project support the type. Entries of such a type are written with
// IgnoreUnknownTypeFlag, so that other servers skip them. They are written only while the region has no
// other servers: see consensus.Config.CheckOwnCommands. A test of package fsm compares it with the table of
// commands.
func (t CommandType) Ours() bool {
	return t >= QuotaUpsertRequestType && t <= DriverSchemaUpsertRequestType
}
