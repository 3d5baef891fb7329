package nomad

// Context is a kind of things that a search looks through.
type Context string

// The contexts of searches. Those from ContextGroups on are parts of jobs, found by fuzzy
// searches only: they are asked for as part of ContextJobs, too.
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

// SearchRequest is the request of Search.PrefixSearch. No context is all of them.
type SearchRequest struct {
	Prefix  string
	Context Context
	QueryOptions
}

// SearchResponse is its reply: the IDs that begin with the prefix, and whether there are
// more, by context.
type SearchResponse struct {
	Matches     map[Context][]string
	Truncations map[Context]bool
	QueryMeta
}

// FuzzyMatch is a name that holds the text, and where it stands: the namespace, the job
// and so on, down to what has the name.
type FuzzyMatch struct {
	ID    string
	Scope []string `codec:",omitempty" json:",omitempty"`
}

// FuzzySearchRequest is the request of Search.FuzzySearch. No context is all of them.
type FuzzySearchRequest struct {
	Text    string
	Context Context
	QueryOptions
}

// FuzzySearchResponse is its reply.
type FuzzySearchResponse struct {
	Matches     map[Context][]FuzzyMatch
	Truncations map[Context]bool
	QueryMeta
}
