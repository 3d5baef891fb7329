// Package search finds jobs, allocations, nodes, variables and more whose name begins with or
// contains a text. It reads one snapshot of state and returns only what the caller may see. It
// keeps no data and starts no goroutine.
//
//	snapshot ─▶ source of a context ─▶ filter by ACL ─▶ match ─▶ truncated list
//
// A search in one context is rejected if the caller has no right in it. A search in all contexts
// skips such contexts, so that they do not affect counts and truncations.
package search

import (
	"iter"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/hostvolume"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/quota"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// thing is an object that a search can find. The scope of an object in a namespace begins with the
// namespace.
type thing struct {
	id, name, namespace string
}

// source describes one context.
type source struct {
	// namespaced is set if the objects are in namespaces. A caller with a right in one namespace
	// may search the context.
	namespaced bool
	// named is set if reading an object requires a right on its name.
	named bool
	// needs returns the right required to read an object.
	needs func(thing) acl.Question
	// things returns the objects whose ID begins with a prefix.
	things func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing]
	table  string
	// byID is set if fuzzy searches match ID prefixes, since the objects have no names.
	byID bool
}

// sources are the contexts of objects. Those of the parts of jobs are in parts.
var sources = map[message.Context]source{
	message.ContextJobs: {namespaced: true, needs: readJob, table: state.TableJobs,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Jobs(ws), func(j *nomad.Job) thing { return thing{j.ID, j.Name, j.Namespace} })
		}},
	message.ContextAllocs: {namespaced: true, needs: readJob, table: state.TableAllocs,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.AllocsByPrefix(ws, prefix), func(a *nomad.Allocation) thing { return thing{a.ID, a.Name, a.Namespace} })
		}},
	message.ContextEvals: {namespaced: true, needs: readJob, table: state.TableEvals, byID: true,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.EvalsByPrefix(ws, prefix), func(e *nomad.Evaluation) thing { return thing{e.ID, e.ID, e.Namespace} })
		}},
	message.ContextDeployments: {namespaced: true, needs: readJob, table: state.TableDeployment, byID: true,
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.DeploymentsByPrefix(ws, prefix), func(d *nomad.Deployment) thing { return thing{d.ID, d.ID, d.Namespace} })
		}},
	message.ContextScalingPolicies: {namespaced: true, table: state.TableScalingPolicy, byID: true,
		needs: func(t thing) acl.Question { return acl.InNamespace(t.namespace, acl.ListScalingPolicies, acl.ReadJob) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.ScalingPoliciesByPrefix(ws, prefix), func(p *nomad.ScalingPolicy) thing {
				return thing{p.ID, p.ID, p.Target[nomad.ScalingTargetNamespace]}
			})
		}},
	message.ContextVariables: {namespaced: true, table: state.TableVariables,
		needs: func(t thing) acl.Question { return acl.OfVariable(t.namespace, t.id, acl.VariableList) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Variables(ws), func(v *variable.Encrypted) thing { return thing{v.Path, v.Path, v.Namespace} })
		}},
	message.ContextNodes: {table: state.TableNodes, needs: func(thing) acl.Question { return acl.ToRead(acl.Nodes) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, prefix string) iter.Seq[thing] {
			return each(snap.NodesByPrefix(ws, prefix), func(n *nomad.Node) thing { return thing{id: n.ID, name: n.Name} })
		}},
	message.ContextNodePools: {named: true, table: state.TableNodePools,
		needs: func(t thing) acl.Question { return acl.InAny(acl.NodePools, t.id) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.NodePools(ws), func(p *nomad.NodePool) thing { return thing{id: p.Name, name: p.Name} })
		}},
	message.ContextQuotas: {table: state.TableQuotas, needs: func(thing) acl.Question { return acl.ToRead(acl.Quotas) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Quotas(ws), func(q *quota.Spec) thing { return thing{id: q.Name, name: q.Name} })
		}},
	message.ContextNamespaces: {named: true, table: state.TableNamespaces,
		needs: func(t thing) acl.Question { return acl.InAny(acl.Namespaces, t.id) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.Namespaces(ws), func(n *nomad.Namespace) thing { return thing{id: n.Name, name: n.Name} })
		}},
	message.ContextPlugins: {table: state.TableCSIPlugins,
		needs: func(thing) acl.Question { return acl.Question{Kind: acl.Plugins, Rights: []string{"list"}} },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.CSIPlugins(ws), func(p *csi.Plugin) thing { return thing{id: p.ID, name: p.ID} })
		}},
	message.ContextVolumes: {namespaced: true, table: state.TableCSIVolumes,
		needs: func(t thing) acl.Question {
			return acl.InNamespace(t.namespace, acl.CSIListVolume, acl.CSIReadVolume, acl.CSIMountVolume, acl.ListJobs)
		},
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.CSIVolumes(ws), func(v *csi.Volume) thing { return thing{v.ID, v.ID, v.Namespace} })
		}},
	message.ContextHostVolumes: {namespaced: true, table: state.TableHostVolumes,
		needs: func(t thing) acl.Question { return acl.InNamespace(t.namespace, acl.HostVolumeRead) },
		things: func(snap *state.Snapshot, ws memdb.WatchSet, _ string) iter.Seq[thing] {
			return each(snap.HostVolumes(ws), func(v *hostvolume.Volume) thing { return thing{v.ID, v.Name, v.Namespace} })
		}},
}

// parts are the contexts of the parts of jobs.
var parts = []message.Context{message.ContextGroups, message.ContextServices, message.ContextTasks, message.ContextImages,
	message.ContextCommands,
	message.ContextClasses}

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
	// Namespace is the namespace to search, "*" for all.
	Namespace string
}

// asked returns the contexts of a request. It rejects a single context in which the caller has no
// right.
func (f *Finder) asked(c message.Context, fuzzy bool) ([]message.Context, error) {
	var all []message.Context
	for name := range sources {
		all = append(all, name)
	}
	if fuzzy {
		all = append(all, parts...)
	}
	switch c {
	case "", message.ContextAll:
		f.Access.MarkChecked() // each object is checked
		return all, nil
	case message.ContextJobs:
		if fuzzy {
			return append([]message.Context{c}, parts...), f.open(c)
		}
	}
	for _, known := range all {
		if known == c {
			return []message.Context{c}, f.open(c)
		}
	}
	return nil, apierror.Errorf(400, "unknown search context %q", c)
}

// open rejects a caller that may not see any object of a context.
func (f *Finder) open(c message.Context) error {
	if slices.Contains(parts, c) {
		c = message.ContextJobs
	}
	s := sources[c]
	everywhere := f.Namespace == nomad.AllNamespacesSentinel
	switch {
	case c == message.ContextVariables:
		return f.openVariables(everywhere)
	case s.named || s.namespaced && everywhere:
		return f.Access.NeedAnywhere(s.needs(thing{}))
	}
	return f.Access.Need(s.needs(thing{namespace: f.Namespace}))
}

// openVariables is open for variables, which a workload may list without a policy.
func (f *Finder) openVariables(everywhere bool) error {
	list := acl.OfVariable("", "", acl.VariableList)
	switch {
	case !everywhere && !f.Access.AllowsSearch(f.Namespace):
		return apierror.Denied("needs list of a variable in namespace %q", f.Namespace)
	case everywhere && f.Access.Workload == nil && f.Access.NeedAnywhere(list) != nil:
		return apierror.Denied("needs list of a variable")
	}
	f.Access.MarkChecked() // each variable is checked
	return nil
}

// seen returns the objects of a context that the caller may see.
func (f *Finder) seen(c message.Context, prefix string) iter.Seq[thing] {
	s := sources[c]
	return func(yield func(thing) bool) {
		if s.things == nil { // a part of jobs
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

// Index returns the index of the last change of the searched tables.
func (f *Finder) Index() uint64 {
	var tables []string
	for _, s := range sources {
		tables = append(tables, s.table)
	}
	return f.Snapshot.TableIndex(tables...)
}

// maxPrefixed is the maximum number of IDs of a context in a prefix search.
const maxPrefixed = 20

// Prefix finds the IDs that begin with a prefix.
func (f *Finder) Prefix(req *message.SearchRequest, out *message.SearchResponse) error {
	contexts, err := f.asked(req.Context, false)
	if err != nil {
		return err
	}
	out.Matches, out.Truncations = map[message.Context][]string{}, map[message.Context]bool{}
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
