package completion

import (
	"slices"
	"strings"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/api/contexts"
	"github.com/open-nomad/open-nomad/command/term"
)

// Lists that come from the file system.
const (
	filesOf       = "files"
	directoriesOf = "directories"
	contextsOf    = "contexts"
)

// files and directories are the kinds of arguments and flags that are paths.
var (
	files = []string{"file", "path", "path...", "jobspec", "filename", "input", "config.hcl|config.json", "file or -", "path or -",
		"file, name or -"}
	directories = []string{"directory", "data dir"}
)

// kindsOf returns the lists for an argument or a flag of a command.
func kindsOf(command, kind string) []string {
	switch {
	case strings.HasPrefix(command, "var ") && (kind == "prefix" || strings.HasPrefix(kind, "path")):
		return []string{"variable"}
	case kind == contextsOf, strings.HasPrefix(command, "context ") && kind == "name":
		return []string{contextsOf}
	case command == "alloc fs" && kind == "path", command == "acl bootstrap" && kind == "path":
		return nil
	case strings.HasPrefix(command, "acl ") && (kind == "name" || strings.HasSuffix(kind, "name") || strings.HasSuffix(kind, "_id")):
		return []string{strings.Join(strings.Fields(command)[:2], " ")}
	case kind == "role_id or name":
		return []string{"acl role"}
	case slices.Contains(files, kind):
		return []string{filesOf}
	case slices.Contains(directories, kind):
		return []string{directoriesOf}
	case strings.HasPrefix(kind, "job |"):
		return []string{"job", filesOf}
	case kind == "volume" && (strings.HasPrefix(command, "volume snapshot") || command == "volume detach" || command == "volume deregister"):
		return []string{"csi volume"}
	case kind == "volume":
		return []string{"csi volume", "host volume"}
	case command == "plugin status" && kind == "plugin", strings.HasPrefix(command, "volume snapshot") && (kind == "plugin" || kind == "ID"):
		return []string{"csi plugin"}
	case kind == "identifier":
		return []string{"job", "allocation", "node", "evaluation", "deployment", "csi volume", "csi plugin"}
	}
	return []string{kind}
}

// flagKinds are the kinds of flags whose usage has no word for it.
var flagKinds = map[string]string{"context": contextsOf, "node-pool": "node-pool", "quota": "quota", "policy": "policy",
	"role-name": "role", "method": "acl auth-method",
	"auth-method": "acl auth-method", "config": "path", "data-dir": "directory", "alloc-dir": "directory", "state-dir": "directory",
	"plugin-dir": "directory",
	"log-level":  "level", "scheduler-algorithm": "algorithm", "on-error": "reaction"}

// words are the kinds with a fixed set of values.
var words = map[string]complete.Predictor{
	"level":     complete.PredictSet("trace", "debug", "info", "warn", "error"),
	"signal":    complete.PredictSet("SIGHUP", "SIGINT", "SIGKILL", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"),
	"status":    complete.PredictSet("blocked", "cancelled", "complete", "failed", "pending"),
	"algorithm": complete.PredictSet("binpack", "spread"),
	"reaction":  complete.PredictSet("ask", "fail"),
}

// list requests names and IDs.
type list func(c *api.Client, r request, q *api.QueryOptions) ([]string, error)

// lists are the lists of the agent by the kind of the argument or flag.
var lists = map[string]list{
	"job": find("jobs"), "allocation": find("allocs"), "node": find("nodes"), "evaluation": find("evals"), "deployment": find("deployment"),
	"namespace": find("namespaces"), "node-pool": find("node_pools"), "pool": find("node_pools"), "quota": find("quotas"),
	"variable": find("vars"), "policy_id": find("scaling_policy"),
	"region":          regions,
	"task":            tasks,
	"service_name":    services,
	"host volume":     volumes,
	"csi volume":      find(contexts.Volumes),
	"csi plugin":      find(contexts.Plugins),
	"policy":          policies,
	"acl policy":      policies,
	"role":            roles(func(r *api.ACLRoleListStub) string { return r.Name }),
	"acl role":        roles(func(r *api.ACLRoleListStub) string { return r.ID }),
	"acl auth-method": authMethods,
	"acl token":       tokens,
	"acl binding-rule": func(c *api.Client, _ request, q *api.QueryOptions) ([]string, error) {
		found, _, err := c.ACLBindingRules().List(q)
		return names(found, err, func(r *api.ACLBindingRuleListStub) string { return r.ID })
	},
}

// find returns the search in a context. The servers limit its results.
func find(context contexts.Context) list {
	uuids := []contexts.Context{contexts.Allocs, contexts.Nodes, contexts.Evals, contexts.Deployments, contexts.ScalingPolicies}
	return func(c *api.Client, r request, q *api.QueryOptions) ([]string, error) {
		prefix := r.args.Last
		if slices.Contains(uuids, context) {
			prefix = term.UUIDPrefix(prefix)
		}
		found, _, err := c.Search().PrefixSearch(prefix, context, q)
		if err != nil {
			return nil, err
		}
		return found.Matches[context], nil
	}
}

// tasks returns the tasks of the allocation in the first argument.
func tasks(c *api.Client, r request, q *api.QueryOptions) ([]string, error) {
	id := r.env.Arg(0)
	if id == "" {
		return nil, nil
	}
	q.Prefix = term.UUIDPrefix(id)
	found, _, err := c.Allocations().List(q)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range found {
		if !strings.HasPrefix(a.ID, id) {
			continue
		}
		for name := range a.TaskStates {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func regions(c *api.Client, _ request, q *api.QueryOptions) ([]string, error) {
	var out []string
	_, err := c.Raw().Query("/v1/regions", &out, q)
	return out, err
}

func services(c *api.Client, _ request, q *api.QueryOptions) ([]string, error) {
	found, _, err := c.Services().List(q)
	var out []string
	for _, in := range found {
		for _, s := range in.Services {
			out = append(out, s.ServiceName)
		}
	}
	return out, err
}

func volumes(c *api.Client, r request, q *api.QueryOptions) ([]string, error) {
	q.Prefix = r.args.Last
	found, _, err := c.HostVolumes().List(&api.HostVolumeListRequest{}, q)
	return names(found, err, func(v *api.HostVolumeStub) string { return v.ID })
}

func policies(c *api.Client, _ request, q *api.QueryOptions) ([]string, error) {
	found, _, err := c.ACLPolicies().List(q)
	return names(found, err, func(p *api.ACLPolicyListStub) string { return p.Name })
}

func roles(name func(*api.ACLRoleListStub) string) list {
	return func(c *api.Client, _ request, q *api.QueryOptions) ([]string, error) {
		found, _, err := c.ACLRoles().List(q)
		return names(found, err, name)
	}
}

func authMethods(c *api.Client, _ request, q *api.QueryOptions) ([]string, error) {
	found, _, err := c.ACLAuthMethods().List(q)
	return names(found, err, func(m *api.ACLAuthMethodListStub) string { return m.Name })
}

func tokens(c *api.Client, _ request, q *api.QueryOptions) ([]string, error) {
	found, _, err := c.ACLTokens().List(q)
	return names(found, err, func(t *api.ACLTokenListStub) string { return t.AccessorID })
}

func names[T any](found []T, err error, name func(T) string) ([]string, error) {
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range found {
		out = append(out, name(f))
	}
	return out, nil
}
