// Package search finds what the name of begins with, or holds, a text: jobs, allocations,
// nodes, variables and more. It looks at one snapshot of state and shows nothing that the
// caller may not see; it keeps nothing and starts no goroutine.
//
//	snapshot ─▶ source of a context ─▶ what the caller may see ─▶ what matches ─▶ a bounded list
//
// A search of one context by who has no right in it is refused. A search of all leaves
// such contexts out, so that what they hold shows in no count and in no truncation.
package search

import (
	"iter"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// thing is what a search may find. The scope of what is in a namespace begins with it.
type thing struct {
	id, name, namespace string
}

// source is one context.
type source struct {
	// namespaced says that its things are in namespaces, and that it is to be seen by
	// who has a right in one.
	namespaced bool
	// named says that seeing one thing takes a right on its name.
	named bool
	// needs is what seeing one thing takes.
	needs func(thing) acl.Question
	// things are those whose ID begins with a prefix, or all.
	things func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing]
	table  string
	// byID says that fuzzy searches look for a prefix here, too: the things have no names.
	byID bool
}

// sources are the contexts that this version has things in. Others are known, and empty.
var sources = map[nomad.Context]source{
	nomad.ContextJobs: {namespaced: true, needs: readJob, table: state.TableJobs,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Jobs(ws), func(j *nomad.Job) thing { return thing{j.ID, j.Name, j.Namespace} })
		}},
	nomad.ContextAllocs: {namespaced: true, needs: readJob, table: state.TableAllocs,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.AllocsByPrefix(ws, prefix), func(a *nomad.Allocation) thing { return thing{a.ID, a.Name, a.Namespace} })
		}},
	nomad.ContextEvals: {namespaced: true, needs: readJob, table: state.TableEvals, byID: true,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.EvalsByPrefix(ws, prefix), func(e *nomad.Evaluation) thing { return thing{e.ID, e.ID, e.Namespace} })
		}},
	nomad.ContextDeployments: {namespaced: true, needs: readJob, table: state.TableDeployment, byID: true,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.DeploymentsByPrefix(ws, prefix), func(d *nomad.Deployment) thing { return thing{d.ID, d.ID, d.Namespace} })
		}},
	nomad.ContextVariables: {namespaced: true, table: state.TableVariables,
		needs: func(t thing) acl.Question { return acl.OfVariable(t.namespace, t.id, acl.VariableList) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Variables(ws), func(v *nomad.VariableEncrypted) thing { return thing{v.Path, v.Path, v.Namespace} })
		}},
	nomad.ContextNodes: {table: state.TableNodes, needs: func(thing) acl.Question { return acl.ToRead(acl.Nodes) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.NodesByPrefix(ws, prefix), func(n *nomad.Node) thing { return thing{id: n.ID, name: n.Name} })
		}},
	nomad.ContextNodePools: {named: true, table: state.TableNodePools, needs: func(t thing) acl.Question { return acl.InAny(acl.NodePools, t.id) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.NodePools(ws), func(p *nomad.NodePool) thing { return thing{id: p.Name, name: p.Name} })
		}},
	nomad.ContextQuotas: {table: state.TableQuotas, needs: func(thing) acl.Question { return acl.ToRead(acl.Quotas) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Quotas(ws), func(q *nomad.QuotaSpec) thing { return thing{id: q.Name, name: q.Name} })
		}},
	nomad.ContextNamespaces: {named: true, table: state.TableNamespaces, needs: func(t thing) acl.Question { return acl.InAny(acl.Namespaces, t.id) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Namespaces(ws), func(n *nomad.Namespace) thing { return thing{id: n.Name, name: n.Name} })
		}},
}

// absent are contexts whose things this version does not have, and what seeing one takes.
var absent = map[nomad.Context]source{
	nomad.ContextPlugins: {needs: func(thing) acl.Question { return acl.Question{Kind: acl.Plugins, Rights: []string{"list"}} }},
	nomad.ContextScalingPolicies: {namespaced: true, needs: func(t thing) acl.Question {
		return acl.InNamespace(t.namespace, acl.ListScalingPolicies, acl.ReadJob)
	}},
	nomad.ContextVolumes: {namespaced: true, needs: func(t thing) acl.Question {
		return acl.InNamespace(t.namespace, acl.CSIListVolume, acl.CSIReadVolume, acl.ListJobs)
	}},
	nomad.ContextHostVolumes: {namespaced: true, needs: func(t thing) acl.Question { return acl.InNamespace(t.namespace, acl.HostVolumeRead) }},
}

// parts are the contexts of what stands in jobs.
var parts = []nomad.Context{nomad.ContextGroups, nomad.ContextServices, nomad.ContextTasks, nomad.ContextImages, nomad.ContextCommands, nomad.ContextClasses}

func readJob(t thing) acl.Question { return acl.InNamespace(t.namespace, acl.ReadJob) }

func each[T any](seq iter.Seq[*T], f func(*T) thing) iter.Seq[thing] {
	return func(yield func(thing) bool) {
		for o := range seq {
			if !yield(f(o)) {
				return
			}
		}
	}
}

// Finder searches one snapshot for one caller.
type Finder struct {
	Snapshot *state.Snapshot
	Watch    memdb.WatchSet
	Access   *rpc.Access
	// Namespace is where to look; all of them with "*".
	Namespace string
}

// asked returns the contexts that a request names, and refuses who may see nothing in the
// only one.
func (f *Finder) asked(c nomad.Context, fuzzy bool) ([]nomad.Context, error) {
	var all []nomad.Context
	for name := range sources {
		all = append(all, name)
	}
	for name := range absent {
		all = append(all, name)
	}
	if fuzzy {
		all = append(all, parts...)
	}
	switch c {
	case "", nomad.ContextAll:
		f.Access.Open() // each thing is asked for
		return all, nil
	case nomad.ContextJobs:
		if fuzzy {
			return append([]nomad.Context{c}, parts...), f.open(c)
		}
	}
	for _, known := range all {
		if known == c {
			return []nomad.Context{c}, f.open(c)
		}
	}
	return nil, nomad.Errorf(400, "there is no context %q to search", c)
}

// open refuses a caller that can see nothing of what a context holds.
func (f *Finder) open(c nomad.Context) error {
	if slices.Contains(parts, c) {
		c = nomad.ContextJobs
	}
	s, ok := sources[c]
	if !ok {
		s = absent[c]
	}
	everywhere := f.Namespace == nomad.AllNamespacesSentinel
	switch {
	case c == nomad.ContextVariables:
		return f.openVariables(everywhere)
	case s.named || s.namespaced && everywhere:
		return f.Access.NeedAnywhere(s.needs(thing{}))
	}
	return f.Access.Need(s.needs(thing{namespace: f.Namespace}))
}

// openVariables is open for variables, which a workload lists without a policy.
func (f *Finder) openVariables(everywhere bool) error {
	list := acl.OfVariable("", "", acl.VariableList)
	switch {
	case !everywhere && !f.Access.AllowsSearch(f.Namespace):
		return nomad.Denied("needs list of a variable in namespace %q", f.Namespace)
	case everywhere && f.Access.Workload == nil && f.Access.NeedAnywhere(list) != nil:
		return nomad.Denied("needs list of a variable")
	}
	f.Access.Open() // each variable is asked for
	return nil
}

// seen are the things of a context that the caller may see.
func (f *Finder) seen(c nomad.Context, prefix string) iter.Seq[thing] {
	s := sources[c]
	return func(yield func(thing) bool) {
		if s.things == nil {
			return
		}
		for t := range s.things(f.Snapshot, f.Watch, prefix) {
			if s.namespaced && f.Namespace != nomad.AllNamespacesSentinel && t.namespace != f.Namespace || !strings.HasPrefix(t.id, prefix) {
				continue
			}
			if f.Access.Allows(s.needs(t)) && !yield(t) {
				return
			}
		}
	}
}

// Index is the index of the last change of what was searched.
func (f *Finder) Index() uint64 {
	var tables []string
	for _, s := range sources {
		tables = append(tables, s.table)
	}
	return f.Snapshot.TableIndex(tables...)
}

// maxPrefixed is how many IDs of a context a search by prefix returns.
const maxPrefixed = 20

// Prefix finds the IDs that begin with a prefix.
func (f *Finder) Prefix(req *nomad.SearchRequest, out *nomad.SearchResponse) error {
	contexts, err := f.asked(req.Context, false)
	if err != nil {
		return err
	}
	out.Matches, out.Truncations = map[nomad.Context][]string{}, map[nomad.Context]bool{}
	for _, c := range contexts {
		found, more := []string{}, false
		for t := range f.seen(c, req.Prefix) {
			if more = len(found) == maxPrefixed; more {
				break
			}
			found = append(found, t.id)
		}
		out.Matches[c], out.Truncations[c] = found, more
	}
	return nil
}
