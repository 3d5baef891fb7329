package state

import (
	"slices"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/state/table"
)

// Names of the tables, as in Nomad 2.0.
const (
	TableNamespaces     = "namespaces"
	TableNodes          = "nodes"
	TableNodePools      = "node_pools"
	TableJobs           = "jobs"
	TableJobSummary     = "job_summary"
	TableJobVersion     = "job_version"
	TableJobSubmission  = "job_submission"
	TableDeployment     = "deployment"
	TablePeriodicLaunch = "periodic_launch"
	TableScalingPolicy  = "scaling_policy"
	TableScalingEvent   = "scaling_event"
	TableEvals          = "evals"
	TableAllocs         = "allocs"
	TableSchedulerConf  = "scheduler_config"
	TableAutopilotConf  = "autopilot_config"
	TableClusterMeta    = "cluster_meta"
	TableRootKeys       = "root_keys"
	TableRegistrations  = "service_registrations"
	TableVariables      = "variables"
	TableVariablesQuota = "variables_quota"
	TableHostVolumes    = "host_volumes"
	TableVolumeClaims   = "task_volume"
	TableCSIVolumes     = "csi_volumes"
	TableCSIPlugins     = "csi_plugins"
	TableQuotas         = "quotas"         // not in Nomad 2.0
	TableQuotaUsage     = "quota_usage"    // not in Nomad 2.0
	TableDriverSchemas  = "driver_schemas" // not in Nomad 2.0

	TableACLPolicy       = "acl_policy"
	TableACLToken        = "acl_token"
	TableACLRoles        = "acl_roles"
	TableACLAuthMethods  = "acl_auth_methods"
	TableACLBindingRules = "acl_binding_rules"
	TableOneTimeToken    = "one_time_token"
)

// IndexRestore is the key of a row in the index table. The row is not the index of a table: its
// value is the index at which an operator last restored a snapshot. All servers store it.
const IndexRestore = "operator_restore"

// schema returns the schema of all tables.
func schema() *memdb.DBSchema {
	all := []*memdb.TableSchema{
		table.Indexes.Schema(), namespaces.Schema(), nodes.Schema(), nodePools.Schema(), jobs.Schema(),
		jobSummaries.Schema(), jobVersions.Schema(), jobSubmissions.Schema(), deployments.Schema(),
		periodicLaunches.Schema(), scalingPolicies.Schema(), scalingEvents.Schema(),
		evals.Schema(), allocs.Schema(), schedulerConfigs.Schema(), autopilotConfigs.Schema(), clusterMetas.Schema(), rootKeys.Schema(),
		variables.Schema(), variableQuotas.Schema(), aclPolicies.Schema(), aclTokens.Schema(), aclRoles.Schema(), aclAuthMethods.Schema(),
		aclBindingRules.Schema(), oneTimeTokens.Schema(), quotas.Schema(), quotaUsages.Schema(), driverSchemas.Schema(),
		registrations.Schema(), hostVolumes.Schema(), volumeClaims.Schema(),
		csiVolumes.Schema(), csiPlugins.Schema(),
	}
	s := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, t := range all {
		s.Tables[t.Name] = t
	}
	return s
}

// TableNames returns the names of the tables that blocking queries can watch.
func TableNames() []string {
	var out []string
	for name := range schema().Tables {
		if name != table.Indexes.Name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
