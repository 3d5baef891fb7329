package state

import (
	"slices"

	"github.com/hashicorp/go-memdb"
)

// The names of the tables (compat/raft-fsm.md section 2).
const (
	TableNamespaces     = "namespaces"
	TableNodes          = "nodes"
	TableNodePools      = "node_pools"
	TableJobs           = "jobs"
	TableJobSummary     = "job_summary"
	TableJobVersion     = "job_version"
	TableJobSubmission  = "job_submission"
	TableDeployment     = "deployment"
	TableEvals          = "evals"
	TableAllocs         = "allocs"
	TableSchedulerConf  = "scheduler_config"
	TableAutopilotConf  = "autopilot_config"
	TableClusterMeta    = "cluster_meta"
	TableRootKeys       = "root_keys"
	TableVariables      = "variables"
	TableVariablesQuota = "variables_quota"
	TableQuotas         = "quotas"      // ours
	TableQuotaUsage     = "quota_usage" // ours

	TableACLPolicy       = "acl_policy"
	TableACLToken        = "acl_token"
	TableACLRoles        = "acl_roles"
	TableACLAuthMethods  = "acl_auth_methods"
	TableACLBindingRules = "acl_binding_rules"
	TableOneTimeToken    = "one_time_token"
)

// IndexRestore is a row among the indexes of tables, and none of them: the index at
// which an operator restored a snapshot. It is part of the state, so that every
// server knows it and keeps it.
const IndexRestore = "operator_restore"

// schema gathers what the table files declare.
func schema() *memdb.DBSchema {
	all := []*memdb.TableSchema{
		indexes.schema(), namespaces.schema(), nodes.schema(), nodePools.schema(), jobs.schema(),
		jobSummaries.schema(), jobVersions.schema(), jobSubmissions.schema(), deployments.schema(),
		evals.schema(), allocs.schema(), schedulerConfigs.schema(), autopilotConfigs.schema(), clusterMetas.schema(), rootKeys.schema(),
		variables.schema(), variableQuotas.schema(), aclPolicies.schema(), aclTokens.schema(), aclRoles.schema(), aclAuthMethods.schema(),
		aclBindingRules.schema(), oneTimeTokens.schema(), quotas.schema(), quotaUsages.schema(), foreign.schema(),
	}
	s := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, t := range all {
		s.Tables[t.Name] = t
	}
	return s
}

// TableNames returns the names of the tables whose index readers wait for.
func TableNames() []string {
	var out []string
	for name := range schema().Tables {
		if name != indexes.name && name != foreign.name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
