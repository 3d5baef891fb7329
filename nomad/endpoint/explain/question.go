package explain

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// maxIdentities is the maximum number of identities in a response about an audience.
const maxIdentities = 1000

// jobRights maps the common names of actions on jobs to capabilities. One of the listed
// capabilities is enough. The names of the capabilities are also accepted.
var jobRights = map[string][]acl.NamespaceCapability{
	"dispatch": {acl.DispatchJob},
	"evaluate": {acl.EvaluateJob, acl.SubmitJob},
	"exec":     {acl.AllocExec},
	"force":    {acl.ForcePeriodicJob, acl.DispatchJob, acl.SubmitJob},
	"fs":       {acl.ReadFS},
	"gc":       {acl.GCAllocation, acl.SubmitJob},
	"list":     {acl.ListJobs},
	"logs":     {acl.ReadLogs, acl.ReadFS},
	"plan":     {acl.PlanJob, acl.SubmitJob},
	"purge":    {acl.PurgeJob, acl.SubmitJob},
	"read":     {acl.ReadJob},
	"restart":  {acl.AllocLifecycle},
	"revert":   {acl.RevertJob, acl.SubmitJob},
	"run":      {acl.SubmitJob, acl.RegisterJob},
	"scale":    {acl.ScaleJob, acl.SubmitJob},
	"signal":   {acl.AllocLifecycle},
	"stable":   {acl.SubmitJob, acl.StableJob},
	"stop":     {acl.DeregisterJob, acl.SubmitJob},
}

// question is a parsed request of ACL.Explain. The subject needs all rights in questions, and a
// management token if management is set.
type question struct {
	questions  []acl.Question
	management bool
	depends    string
	// For questions about an audience: the namespace, and the identities in it that have the
	// audience.
	audience, namespace string
	identities          []*message.ACLExplainIdentity
}

// needs describes the required rights.
func (a *question) needs() []string {
	out := make([]string, 0, len(a.questions)+1)
	if a.management {
		out = append(out, "a management token")
	}
	for _, q := range a.questions {
		out = append(out, q.String())
	}
	return out
}

// parse parses a request. It checks the caller's access, since the required rights may
// reveal facts about a job.
func (s *Service) parse(snap *state.Snapshot, c *rpc.Call, req *message.ACLExplainRequest) (*question, error) {
	if req.Method != "" {
		if req.Kind+req.Name+req.Right != "" {
			return nil, apierror.Errorf(http.StatusBadRequest, "specify a method or a right on an object, not both")
		}
		return s.methodQuestion(req)
	}
	if req.Namespace == nomad.AllNamespacesSentinel {
		return nil, apierror.Errorf(http.StatusBadRequest, "specify one namespace, not *")
	}
	switch req.Kind {
	case message.ACLExplainJob:
		ns := handler.NamespaceOf(req.Namespace)
		return s.jobQuestion(snap, c, req, jobOf{ns, snap.Job(nil, ns, req.Name)})
	case message.ACLExplainAllocation:
		alloc := snap.Alloc(nil, req.Name)
		if alloc == nil || !c.Access.Allows(acl.InNamespace(alloc.Namespace, acl.ReadJob)) {
			return nil, apierror.UnknownAlloc(req.Name)
		}
		return s.jobQuestion(snap, c, req, jobOf{alloc.Namespace, alloc.Job})
	case message.ACLExplainAudience:
		return audienceQuestion(snap, c, req)
	}
	return objectQuestion(req)
}

// objectQuestion returns the question about an object of a kind that policies have blocks for.
func objectQuestion(req *message.ACLExplainRequest) (*question, error) {
	q := acl.Question{Kind: acl.Kind(req.Kind), Name: req.Name, Rights: []string{req.Right}}
	if req.Kind == "variable" {
		q.Kind = acl.Variables
	}
	rights := acl.Rights(q.Kind)
	switch named := q.Kind == acl.Variables || q.Kind == acl.NodePools || q.Kind == acl.HostVolumes; {
	case rights == nil:
		return nil, apierror.Errorf(http.StatusBadRequest,
			"unknown kind %q: use variable, job, allocation, audience, namespace, node_pool, host_volume, node, agent, operator, quota or plugin",
			req.Kind)
	case !slices.Contains(rights, req.Right):
		return nil, apierror.Errorf(http.StatusBadRequest, "unknown right %[2]q on %[1]s: use one of %[3]s", req.Kind, req.Right,
			strings.Join(rights, ", "))
	case named && req.Name == "":
		return nil, apierror.Errorf(http.StatusBadRequest, "missing name of the %s", req.Kind)
	case q.Kind == acl.Variables:
		q.Namespace = handler.NamespaceOf(req.Namespace)
	case q.Kind == acl.Namespaces && req.Name == "":
		q.Name = handler.NamespaceOf(req.Namespace)
	case !named && q.Kind != acl.Namespaces && req.Name != "":
		return nil, apierror.Errorf(http.StatusBadRequest, "rights on %s cover all of them: remove the name %q", req.Kind, req.Name)
	}
	return &question{questions: []acl.Question{q}}, nil
}

// jobOf is the job of a question, nil if it does not exist, and its namespace.
type jobOf struct {
	namespace string
	job       *nomad.Job
}

// jobQuestion returns the question about a job or one of its allocations. The rights are those of the namespace. Exec into a task without isolation also
// needs alloc-node-exec. Running a privileged task, or one that needs privilege, also needs privileged-execution.
func (s *Service) jobQuestion(snap *state.Snapshot, c *rpc.Call, req *message.ACLExplainRequest, of jobOf) (*question, error) {
	ns, job := of.namespace, of.job
	ops, known := jobRights[req.Right]
	if !known && slices.Contains(acl.Rights(acl.Namespaces), req.Right) {
		ops, known = []acl.NamespaceCapability{acl.NamespaceCapability(req.Right)}, true
	}
	if !known {
		return nil, apierror.Errorf(http.StatusBadRequest, "unknown right %[2]q on %[1]s: use one of %[3]s, or a namespace capability",
			req.Kind, req.Right, strings.Join(slices.Sorted(maps.Keys(jobRights)), ", "))
	}
	ask := &question{questions: []acl.Question{acl.InNamespace(ns, ops...)}}
	if slices.Contains(ops, acl.AllocExec) && c.Access.Allows(acl.InNamespace(ns, acl.ReadJob)) && job != nil &&
		exposed(job, s.Kinds.Names(snap.Nodes(nil))) {
		ask.questions = append(ask.questions, acl.InNamespace(ns, acl.AllocNodeExec))
	}
	if !putsIntoEffect(req.Right) {
		return ask, nil
	}
	var effective []*nomad.Job
	switch {
	case req.Job != nil:
		given, err := submitted(req)
		if err != nil {
			return nil, err
		}
		effective = []*nomad.Job{given}
	case job != nil && c.Access.Allows(acl.InNamespace(ns, acl.ReadJob)):
		effective = inEffect(snap, job, req.Right)
	}
	names := s.Kinds.Names(snap.Nodes(nil))
	if slices.ContainsFunc(effective, func(j *nomad.Job) bool { return privileged(j, names) }) {
		ask.questions = append(ask.questions, acl.InNamespace(ns, acl.PrivilegedExecution))
	}
	return ask, nil
}

// exposed reports whether a task of the job is privileged, or runs without isolation from the node by
// the kind of its driver.
func exposed(job *nomad.Job, names *kinds.Names) bool {
	return slices.ContainsFunc(job.TaskGroups, func(g *nomad.TaskGroup) bool {
		return slices.ContainsFunc(g.Tasks, func(t *nomad.Task) bool { return t.Privileged || kinds.Exposed(names.Kind(t.Driver)) })
	})
}

// audienceQuestion returns the question about who can get JWTs for an audience. These are the
// workloads that have an identity with the audience, and callers who may run jobs in the namespace.
func audienceQuestion(snap *state.Snapshot, c *rpc.Call, req *message.ACLExplainRequest) (*question, error) {
	ns := handler.NamespaceOf(req.Namespace)
	switch {
	case req.Name == "":
		return nil, apierror.Errorf(http.StatusBadRequest, "missing name of the audience")
	case req.Right != "mint":
		return nil, apierror.Errorf(http.StatusBadRequest, "unknown right %q on audience: use mint", req.Right)
	}
	ask := &question{audience: req.Name, namespace: ns, questions: []acl.Question{acl.InNamespace(ns, jobRights["run"]...)}}
	reads, own := c.Access.Allows(acl.InNamespace(ns, acl.ReadJob)), c.Access.Workload
	for job := range snap.JobsByNamespace(nil, ns) {
		seen := reads || own != nil && own.Namespace == ns && own.Job == job.ID
		if job.IdentityID() != job.ID || job.Stopped() || !seen {
			continue
		}
		if ask.identities = append(ask.identities, identitiesFor(job, req.Name)...); len(ask.identities) > maxIdentities {
			return nil, apierror.Errorf(http.StatusBadRequest, "more than %d identities have the audience %q", maxIdentities, req.Name)
		}
	}
	return ask, nil
}

// identitiesFor returns the identities of a job that have the audience.
func identitiesFor(job *nomad.Job, audience string) (out []*message.ACLExplainIdentity) {
	add := func(group, task, service string, id *nomad.WorkloadIdentity) {
		if id != nil && slices.Contains(id.Audience, audience) {
			out = append(out, &message.ACLExplainIdentity{JobID: job.ID, Group: group, Task: task, Service: service, Identity: id.Name})
		}
	}
	for _, g := range job.TaskGroups {
		for _, sv := range g.Services {
			add(g.Name, "", sv.Name, sv.Identity)
		}
		for _, t := range g.Tasks {
			add(g.Name, t.Name, "", t.Identity)
			for _, id := range t.Identities {
				add(g.Name, t.Name, "", id)
			}
			for _, sv := range t.Services {
				add(g.Name, t.Name, sv.Name, sv.Identity)
			}
		}
	}
	return out
}

// methodQuestion returns the rights that an RPC method requires according to the method table.
func (s *Service) methodQuestion(req *message.ACLExplainRequest) (*question, error) {
	all := s.methods()
	i := slices.IndexFunc(all, func(m rpc.Method) bool { return m.Name == req.Method })
	if i < 0 {
		return nil, apierror.Errorf(http.StatusBadRequest, "unknown method %q", req.Method)
	}
	ask := &question{}
	switch m := all[i]; m.Rule {
	case rpc.Anonymous:
	case rpc.Management:
		ask.management = true
	case rpc.Token:
		if ask.questions = m.Check.Questions(req.Envelope()); len(ask.questions) == 0 && m.Check.String() != rpc.AnyToken.String() {
			ask.depends = m.Check.String()
		}
	default:
		return nil, apierror.Errorf(http.StatusBadRequest, "%s is only for nodes and servers (%s): no policy can allow it", m.Name, m.Rule)
	}
	return ask, nil
}

// mints describes the identity with the audience that a workload has. It returns "" if there
// is none.
func (a *question) mints(w *acl.Workload) (which string) {
	for _, id := range a.identities {
		if w.Namespace == a.namespace && id.JobID == w.Job && (w.Group == "" || id.Group == w.Group) && (w.Task == "" || id.Task == w.Task) {
			return fmt.Sprintf("identity %q of %s", id.Identity,
				strings.Trim(strings.Join([]string{id.JobID, id.Group, id.Task, id.Service}, "/"), "/"))
		}
	}
	return ""
}
