package message

// SearchRequest is the request of Search.PrefixSearch. An empty context means all contexts.
type SearchRequest struct {
	Prefix  string
	Context Context
	QueryOptions
}

// SearchResponse is the reply of Search.PrefixSearch. It contains the IDs with the prefix by context, and whether the
// list of each context was truncated.
type SearchResponse struct {
	Matches     map[Context][]string
	Truncations map[Context]bool
	QueryMeta
}

// FuzzySearchRequest is the request of Search.FuzzySearch. An empty context means all contexts.
type FuzzySearchRequest struct {
	Text    string
	Context Context
	QueryOptions
}

// FuzzySearchResponse is the reply of Search.FuzzySearch.
type FuzzySearchResponse struct {
	Matches     map[Context][]FuzzyMatch
	Truncations map[Context]bool
	QueryMeta
}

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
