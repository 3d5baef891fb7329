package state

import (
	"slices"

	"github.com/open-nomad/open-nomad/internal/radix"
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

// allTables are what the table files declare.
var allTables = []interface {
	place(first int) (next int)
	title() string
}{
	indexes, namespaces, nodes, nodePools, jobs,
	jobSummaries, jobVersions, jobSubmissions, deployments,
	evals, allocs, schedulerConfigs, autopilotConfigs, clusterMetas, rootKeys,
	variables, variableQuotas, aclPolicies, aclTokens, aclRoles, aclAuthMethods,
	aclBindingRules, oneTimeTokens, foreign,
}

// trees is how many trees all tables have together, each of them at its place.
var trees = func() int {
	next := 0
	for _, t := range allTables {
		next = t.place(next)
	}
	return next
}()

// emptyView returns a view without a row.
func emptyView() *view {
	v := make(view, trees)
	for i := range v {
		v[i] = radix.New()
	}
	return &v
}

// TableNames returns the names of the tables whose index readers wait for.
func TableNames() []string {
	var out []string
	for _, t := range allTables {
		if name := t.title(); name != indexes.name && name != foreign.name {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
