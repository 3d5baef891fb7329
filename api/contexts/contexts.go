// Package contexts has the kinds of objects that a search can find, for package api. Its names equal
// those of the official SDK.
package contexts

// Context is a kind of objects in a search. "" and All mean all kinds.
type Context string

// Kinds of objects that a search finds by ID or name.
const (
	Allocs          Context = "allocs"
	Deployments     Context = "deployment"
	Evals           Context = "evals"
	Jobs            Context = "jobs"
	Nodes           Context = "nodes"
	NodePools       Context = "node_pools"
	Namespaces      Context = "namespaces"
	Quotas          Context = "quotas"
	Recommendations Context = "recommendations"
	ScalingPolicies Context = "scaling_policy"
	Plugins         Context = "plugins"
	Variables       Context = "vars"
	Volumes         Context = "volumes"
	HostVolumes     Context = "host_volumes"
	All             Context = "all"
)

// Kinds of parts of these objects, in the results of a fuzzy search.
const (
	Groups   Context = "groups"
	Services Context = "services"
	Tasks    Context = "tasks"
	Images   Context = "images"
	Commands Context = "commands"
	Classes  Context = "classes"
)
