package fsm

import (
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/nomad"
)

// measured maps commands to their names in metrics. Commands without a name are not measured
// here.
var measured = map[nomad.MessageType]string{
	nomad.NodeRegisterRequestType:                 "register_node",
	nomad.NodeDeregisterRequestType:               "deregister_node",
	nomad.NodeUpdateStatusRequestType:             "node_status_update",
	nomad.NodeUpdateDrainRequestType:              "node_drain_update",
	nomad.JobRegisterRequestType:                  "register_job",
	nomad.JobDeregisterRequestType:                "deregister_job",
	nomad.EvalUpdateRequestType:                   "update_eval",
	nomad.EvalDeleteRequestType:                   "delete_eval",
	nomad.AllocClientUpdateRequestType:            "alloc_client_update",
	nomad.ApplyPlanResultsRequestType:             "apply_plan_results",
	nomad.DeploymentStatusUpdateRequestType:       "apply_deployment_status_update",
	nomad.DeploymentPromoteRequestType:            "apply_deployment_promotion",
	nomad.DeploymentAllocHealthRequestType:        "apply_deployment_alloc_health",
	nomad.DeploymentDeleteRequestType:             "apply_deployment_delete",
	nomad.JobStabilityRequestType:                 "apply_job_stability",
	nomad.ACLPolicyUpsertRequestType:              "apply_acl_policy_upsert",
	nomad.ACLPolicyDeleteRequestType:              "apply_acl_policy_delete",
	nomad.ACLTokenUpsertRequestType:               "apply_acl_token_upsert",
	nomad.ACLTokenDeleteRequestType:               "apply_acl_token_delete",
	nomad.ACLTokenBootstrapRequestType:            "apply_acl_token_bootstrap",
	nomad.AutopilotRequestType:                    "autopilot",
	nomad.UpsertNodeEventsType:                    "upsert_node_events",
	nomad.ScalingEventRegisterRequestType:         "upsert_scaling_event",
	nomad.JobBatchDeregisterRequestType:           "batch_deregister_job",
	nomad.AllocUpdateDesiredTransitionRequestType: "alloc_update_desired_transition",
	nomad.NodeUpdateEligibilityRequestType:        "node_eligibility_update",
	nomad.BatchNodeUpdateDrainRequestType:         "batch_node_drain_update",
	nomad.SchedulerConfigRequestType:              "apply_scheduler_config",
	nomad.NodeBatchDeregisterRequestType:          "batch_deregister_node",
	nomad.ClusterMetadataRequestType:              "cluster_meta",
	nomad.OneTimeTokenUpsertRequestType:           "apply_one_time_token_upsert",
	nomad.OneTimeTokenDeleteRequestType:           "apply_one_time_token_delete",
	nomad.OneTimeTokenExpireRequestType:           "apply_one_time_token_expire",
	nomad.RootKeyMetaUpsertRequestType:            "apply_root_key_meta_upsert",
	nomad.WrappedRootKeysDeleteRequestType:        "apply_wrapped_root_key_delete",
	nomad.WrappedRootKeysUpsertRequestType:        "apply_wrapped_root_key_upsert",
	nomad.ACLRolesUpsertRequestType:               "apply_acl_role_upsert",
	nomad.ACLRolesDeleteByIDRequestType:           "apply_acl_role_delete_by_id",
	nomad.ACLAuthMethodsUpsertRequestType:         "apply_acl_auth_method_upsert",
	nomad.ACLAuthMethodsDeleteRequestType:         "apply_acl_auth_method_delete",
	nomad.ACLBindingRulesUpsertRequestType:        "apply_acl_binding_rule_upsert",
	nomad.ACLBindingRulesDeleteRequestType:        "apply_acl_binding_rule_delete",
	nomad.NodePoolUpsertRequestType:               "apply_node_pool_upsert",
	nomad.NodePoolDeleteRequestType:               "apply_node_pool_delete",
	nomad.JobVersionTagRequestType:                "apply_job_version_tag",
	nomad.NamespaceUpsertRequestType:              "apply_namespace_upsert",
	nomad.NamespaceDeleteRequestType:              "apply_namespace_delete",
	nomad.QuotaUpsertRequestType:                  "apply_quota_upsert",
	nomad.QuotaDeleteRequestType:                  "apply_quota_delete",
	nomad.DriverSchemaUpsertRequestType:           "apply_driver_schema_upsert",

	nomad.ServiceRegistrationUpsertRequestType:         "apply_service_registration_upsert",
	nomad.ServiceRegistrationDeleteByIDRequestType:     "apply_service_registration_delete_id",
	nomad.ServiceRegistrationDeleteByNodeIDRequestType: "apply_service_registration_delete_node_id",

	nomad.HostVolumeRegisterRequestType:             "apply_host_volume_register",
	nomad.HostVolumeDeleteRequestType:               "apply_host_volume_delete",
	nomad.TaskGroupHostVolumeClaimDeleteRequestType: "apply_task_group_host_volume_claim_delete",
}

// measure adds a command's duration to its metric. State never depends on it.
func measure(number nomad.MessageType, begun time.Time) {
	if name, ok := measured[number]; ok {
		metrics.MeasureSince([]string{"nomad", "fsm", name}, begun)
	}
}

// measureVariable is measure for an operation on a variable.
func measureVariable(op nomad.VarOp, begun time.Time) {
	metrics.MeasureSinceWithLabels([]string{"nomad", "fsm", "apply_sv_operation"}, begun,
		[]metrics.Label{{Name: "op", Value: string(op)}})
}
