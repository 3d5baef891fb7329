package fsm

import (
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// measured maps commands to their names in metrics. Commands without a name are not measured
// here.
var measured = map[message.CommandType]string{
	message.NodeRegisterRequestType:                 "register_node",
	message.NodeDeregisterRequestType:               "deregister_node",
	message.NodeUpdateStatusRequestType:             "node_status_update",
	message.NodeUpdateDrainRequestType:              "node_drain_update",
	message.JobRegisterRequestType:                  "register_job",
	message.JobDeregisterRequestType:                "deregister_job",
	message.EvalUpdateRequestType:                   "update_eval",
	message.EvalDeleteRequestType:                   "delete_eval",
	message.AllocClientUpdateRequestType:            "alloc_client_update",
	message.ApplyPlanResultsRequestType:             "apply_plan_results",
	message.DeploymentStatusUpdateRequestType:       "apply_deployment_status_update",
	message.DeploymentPromoteRequestType:            "apply_deployment_promotion",
	message.DeploymentAllocHealthRequestType:        "apply_deployment_alloc_health",
	message.DeploymentDeleteRequestType:             "apply_deployment_delete",
	message.JobStabilityRequestType:                 "apply_job_stability",
	message.ACLPolicyUpsertRequestType:              "apply_acl_policy_upsert",
	message.ACLPolicyDeleteRequestType:              "apply_acl_policy_delete",
	message.ACLTokenUpsertRequestType:               "apply_acl_token_upsert",
	message.ACLTokenDeleteRequestType:               "apply_acl_token_delete",
	message.ACLTokenBootstrapRequestType:            "apply_acl_token_bootstrap",
	message.AutopilotRequestType:                    "autopilot",
	message.UpsertNodeEventsType:                    "upsert_node_events",
	message.ScalingEventRegisterRequestType:         "upsert_scaling_event",
	message.JobBatchDeregisterRequestType:           "batch_deregister_job",
	message.AllocUpdateDesiredTransitionRequestType: "alloc_update_desired_transition",
	message.NodeUpdateEligibilityRequestType:        "node_eligibility_update",
	message.BatchNodeUpdateDrainRequestType:         "batch_node_drain_update",
	message.SchedulerConfigRequestType:              "apply_scheduler_config",
	message.NodeBatchDeregisterRequestType:          "batch_deregister_node",
	message.ClusterMetadataRequestType:              "cluster_meta",
	message.OneTimeTokenUpsertRequestType:           "apply_one_time_token_upsert",
	message.OneTimeTokenDeleteRequestType:           "apply_one_time_token_delete",
	message.OneTimeTokenExpireRequestType:           "apply_one_time_token_expire",
	message.RootKeyMetaUpsertRequestType:            "apply_root_key_meta_upsert",
	message.WrappedRootKeysDeleteRequestType:        "apply_wrapped_root_key_delete",
	message.WrappedRootKeysUpsertRequestType:        "apply_wrapped_root_key_upsert",
	message.ACLRolesUpsertRequestType:               "apply_acl_role_upsert",
	message.ACLRolesDeleteByIDRequestType:           "apply_acl_role_delete_by_id",
	message.ACLAuthMethodsUpsertRequestType:         "apply_acl_auth_method_upsert",
	message.ACLAuthMethodsDeleteRequestType:         "apply_acl_auth_method_delete",
	message.ACLBindingRulesUpsertRequestType:        "apply_acl_binding_rule_upsert",
	message.ACLBindingRulesDeleteRequestType:        "apply_acl_binding_rule_delete",
	message.NodePoolUpsertRequestType:               "apply_node_pool_upsert",
	message.NodePoolDeleteRequestType:               "apply_node_pool_delete",
	message.JobVersionTagRequestType:                "apply_job_version_tag",
	message.NamespaceUpsertRequestType:              "apply_namespace_upsert",
	message.NamespaceDeleteRequestType:              "apply_namespace_delete",
	message.QuotaUpsertRequestType:                  "apply_quota_upsert",
	message.QuotaDeleteRequestType:                  "apply_quota_delete",
	message.DriverSchemaUpsertRequestType:           "apply_driver_schema_upsert",

	message.ServiceRegistrationUpsertRequestType:         "apply_service_registration_upsert",
	message.ServiceRegistrationDeleteByIDRequestType:     "apply_service_registration_delete_id",
	message.ServiceRegistrationDeleteByNodeIDRequestType: "apply_service_registration_delete_node_id",

	message.CSIVolumeRegisterRequestType:              "apply_csi_volume_register",
	message.CSIVolumeDeregisterRequestType:            "apply_csi_volume_deregister",
	message.CSIVolumeClaimRequestType:                 "apply_csi_volume_claim",
	message.CSIVolumeClaimBatchRequestType:            "apply_csi_volume_batch_claim",
	message.CSIPluginDeleteRequestType:                "apply_csi_plugin_delete",
	message.HostVolumeRegisterRequestType:             "apply_host_volume_register",
	message.HostVolumeDeleteRequestType:               "apply_host_volume_delete",
	message.TaskGroupHostVolumeClaimDeleteRequestType: "apply_task_group_host_volume_claim_delete",
}

// measure adds a command's duration to its metric. State never depends on it.
func measure(number message.CommandType, begun time.Time) {
	if name, ok := measured[number]; ok {
		metrics.MeasureSince([]string{"nomad", "fsm", name}, begun)
	}
}

// measureVariable is measure for an operation on a variable.
func measureVariable(op variable.Op, begun time.Time) {
	metrics.MeasureSinceWithLabels([]string{"nomad", "fsm", "apply_sv_operation"}, begun,
		[]metrics.Label{{Name: "op", Value: string(op)}})
}
