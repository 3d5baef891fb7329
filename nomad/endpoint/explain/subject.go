package explain

import (
	"cmp"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/internal/consulkey"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// self returns the caller as a subject.
func self(c *rpc.Call) subject {
	who := subject{ACLSubject: message.ACLSubject{Kind: message.ACLSubjectSelf}, workload: c.Access.Workload}
	switch t, w := c.Identity.ACLToken, c.Access.Workload; {
	case t != nil:
		who.ID, who.Name = t.AccessorID, t.Name
	case w != nil:
		who.Workload = &rbac.JobACL{Namespace: w.Namespace, JobID: w.Job, Group: w.Group, Task: w.Task}
	}
	return who
}

// subjectOf returns the subject that a request names.
func (s *Service) subjectOf(snap *state.Snapshot, req *message.ACLExplainRequest) (subject, error) {
	switch {
	case req.AccessorID == rbac.AnonymousAccessor:
		return anonymousSubject(), nil
	case req.AccessorID != "":
		t := snap.ACLToken(nil, req.AccessorID)
		if t == nil {
			return subject{}, apierror.Errorf(http.StatusNotFound, "ACL token not found")
		}
		return s.tokenSubject(t), nil
	case req.Role != "":
		r := cmp.Or(snap.ACLRoleByName(nil, req.Role), snap.ACLRole(nil, req.Role))
		if r == nil {
			return subject{}, apierror.Errorf(http.StatusNotFound, "ACL role not found")
		}
		return roleSubject(r), nil
	case req.Policy != "":
		if snap.ACLPolicy(nil, req.Policy) == nil {
			return subject{}, apierror.Errorf(http.StatusNotFound, "ACL policy not found")
		}
		return subject{ACLSubject: message.ACLSubject{Kind: message.ACLSubjectPolicy, Name: req.Policy},
			rights: func(r *authz.Rights) (*acl.ACL, error) { return r.OfPolicies(req.Policy) }}, nil
	}
	w := *req.Workload
	w.Namespace = handler.NamespaceOf(w.Namespace)
	if w.JobID == "" && w.Group != "" || w.Group == "" && w.Task != "" {
		return subject{}, apierror.Errorf(http.StatusBadRequest, "invalid workload: a group requires a job, and a task requires a group")
	}
	return s.workloadSubject(snap, w), nil
}

func anonymousSubject() subject {
	return subject{ACLSubject: message.ACLSubject{Kind: message.ACLSubjectToken, ID: rbac.AnonymousAccessor,
		Name: "callers without a token"},
		rights: func(r *authz.Rights) (*acl.ACL, error) { return r.OfPolicies(rbac.PolicyAnonymous) }}
}

func (s *Service) tokenSubject(t *rbac.Token) subject {
	return subject{ACLSubject: message.ACLSubject{Kind: message.ACLSubjectToken, ID: t.AccessorID, Name: t.Name}, over: t.HasExpired(s.Now()),
		rights: func(r *authz.Rights) (*acl.ACL, error) { return r.OfToken(t) }}
}

func roleSubject(role *rbac.Role) subject {
	return subject{ACLSubject: message.ACLSubject{Kind: message.ACLSubjectRole, ID: role.ID, Name: role.Name},
		rights: func(r *authz.Rights) (*acl.ACL, error) { return r.OfRole(role) }}
}

func (s *Service) workloadSubject(snap *state.Snapshot, j rbac.JobACL) subject {
	w := &acl.Workload{Namespace: j.Namespace, Job: j.JobID, Group: j.Group, Task: j.Task, Keys: s.Consul.NativeKeys(snap)}
	return subject{ACLSubject: message.ACLSubject{Kind: message.ACLSubjectWorkload, Workload: &j}, workload: w,
		rights: func(r *authz.Rights) (*acl.ACL, error) { return r.OfWorkload(w) }}
}

// everybody yields all subjects that may have rights, by key: callers without a token, roles,
// tokens, and the workloads of policies and of the question.
func (s *Service) everybody(snap *state.Snapshot, ask *question) iter.Seq2[string, subject] {
	return func(yield func(string, subject) bool) {
		if !yield("anonymous", anonymousSubject()) {
			return
		}
		for r := range snap.ACLRoles(nil) {
			if !yield("role "+r.ID, roleSubject(r)) {
				return
			}
		}
		for t := range snap.ACLTokens(nil) {
			if !yield("token "+t.AccessorID, s.tokenSubject(t)) {
				return
			}
		}
		for _, w := range workloadsOf(snap, ask) {
			if !yield(workloadKey(w), s.workloadSubject(snap, w)) {
				return
			}
		}
	}
}

// workloadKey returns the sort key of a workload. The names in it contain no spaces.
func workloadKey(w rbac.JobACL) string {
	return strings.Join([]string{"workload", w.Namespace, w.JobID, w.Group, w.Task}, " ")
}

// workloadsOf returns the workloads that have policies, own the variable of the question, or
// have an identity with the audience.
func workloadsOf(snap *state.Snapshot, ask *question) []rbac.JobACL {
	found := map[rbac.JobACL]bool{}
	for _, id := range ask.identities {
		found[rbac.JobACL{Namespace: ask.namespace, JobID: id.JobID, Group: id.Group, Task: id.Task}] = true
	}
	for p := range snap.ACLPolicies(nil) {
		if p.JobACL != nil && ask.audience == "" {
			found[*p.JobACL] = true
		}
	}
	for _, q := range ask.questions {
		if q.Kind == acl.Variables {
			owners(snap, q.Namespace, q.Name, func(w rbac.JobACL) { found[w] = true })
		}
	}
	out := make([]rbac.JobACL, 0, len(found))
	for w := range found {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b rbac.JobACL) int { return strings.Compare(workloadKey(a), workloadKey(b)) })
	return out
}

// owners calls tell for each existing workload that owns the variable at path: a namespace,
// or a job, group or task in it.
func owners(snap *state.Snapshot, namespace, path string, tell func(rbac.JobACL)) {
	if path == variable.Jobs || strings.HasPrefix(path, consulkey.Root) { // keys need no policy, if the mode allows it
		tell(rbac.JobACL{Namespace: namespace})
		return
	}
	rest, ok := strings.CutPrefix(path, variable.Jobs+"/")
	if !ok {
		return
	}
	for job := range snap.JobsByNamespace(nil, namespace) {
		if job.IdentityID() != job.ID || rest != job.ID && !strings.HasPrefix(rest, job.ID+"/") {
			continue
		}
		if rest == job.ID {
			tell(rbac.JobACL{Namespace: namespace, JobID: job.ID})
		}
		for _, g := range job.TaskGroups {
			if rest == job.ID+"/"+g.Name {
				tell(rbac.JobACL{Namespace: namespace, JobID: job.ID, Group: g.Name})
			}
			for _, t := range g.Tasks {
				if rest == job.ID+"/"+g.Name+"/"+t.Name {
					tell(rbac.JobACL{Namespace: namespace, JobID: job.ID, Group: g.Name, Task: t.Name})
				}
			}
		}
	}
}
