package nomad

// Context is a kind of object that a search covers.
type Context string

// The contexts of searches. Those from ContextGroups on are parts of jobs and only found by fuzzy searches. ContextJobs
// includes them.
const (
	ContextAllocs          Context = "allocs"
	ContextDeployments     Context = "deployment"
	ContextEvals           Context = "evals"
	ContextJobs            Context = "jobs"
	ContextNodes           Context = "nodes"
	ContextNodePools       Context = "node_pools"
	ContextQuotas          Context = "quotas"
	ContextNamespaces      Context = "namespaces"
	ContextScalingPolicies Context = "scaling_policy"
	ContextPlugins         Context = "plugins"
	ContextVariables       Context = "vars"
	ContextVolumes         Context = "volumes"
	ContextHostVolumes     Context = "host_volumes"
	ContextGroups          Context = "groups"
	ContextServices        Context = "services"
	ContextTasks           Context = "tasks"
	ContextImages          Context = "images"
	ContextCommands        Context = "commands"
	ContextClasses         Context = "classes"
	ContextAll             Context = "all"
)

// FuzzyMatch is a name that contains the text. Scope is its location: the namespace, the job and so on, down to the
// object with the name.
type FuzzyMatch struct {
	ID    string
	Scope []string `codec:",omitempty" json:",omitempty"`
}
