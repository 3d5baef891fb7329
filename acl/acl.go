package acl

import "strings"

// ACL is the set of rights of a caller. It is immutable and safe for concurrent use. The
// zero value has no policies. A nil *ACL allows nothing.
type ACL struct {
	management bool
	kinds      map[Kind]*rules
}

// Workload identifies the owner of a workload identity.
type Workload struct {
	Namespace string
	Job       string // the parent ID for a periodic or dispatched job
	Group     string
	Task      string // empty for a service
	// Keys means that it may read the variables below consul/ of its namespace, because the region uses no Consul.
	Keys bool
}

// ACLs that do not depend on stored policies: Everything is for management tokens, and
// OfNodes is for nodes. It grants no right: what a node needs is in the checks of its methods. Unlike in
// Nomad, a node cannot read logs and metrics of servers, or other nodes.
var (
	Everything = New(true)
	OfNodes    = New(false)
)

// New returns the ACL of the policies. With management, the ACL allows everything.
func New(management bool, policies ...*Policy) *ACL {
	return &ACL{management: management, kinds: build(policies)}
}

// IsManagement reports whether the ACL allows everything.
func (a *ACL) IsManagement() bool { return a != nil && a.management }

// AllowVariableSearch reports whether the caller can list some variables in the namespace,
// if they exist. Use Ask to check a variable.
func (a *ACL) AllowVariableSearch(namespace string, w *Workload) bool {
	if a == nil || a.management || !isName(namespace) {
		return a.IsManagement()
	}
	var ns match
	a.rules(withRights).find("", namespace, &ns)
	above := -1
	if ns.deny {
		above = ns.rank
	}
	return !ns.deny && w != nil && w.Namespace == namespace || a.rules(Variables).mayList(namespace, above)
}

func (a *ACL) allow(q query) bool {
	var m match
	return a.decide(q, &m).allows()
}

// query is a Question with its rights as bits. One of the rights in want is enough.
type query struct {
	words    *vocabulary
	space    string
	name     string
	want     rights
	workload *Workload
}

// wanted returns the bits of the rights. Unknown rights have no bit.
func wanted(words *vocabulary, ops []string) rights {
	var all rights
	for _, op := range ops {
		all |= words.bit[op]
	}
	return all
}

// Reason is the reason of a decision.
type Reason string

// Reasons of decisions. The first four allow.
const (
	ReasonManagement      Reason = "management token"
	ReasonGranted         Reason = "granted"
	ReasonOwnPath         Reason = "workload's own path"
	ReasonKey             Reason = "Consul key in the workload's namespace"
	ReasonDenied          Reason = "denied"
	ReasonNamespaceDenied Reason = "namespace denied"
	ReasonNotGranted      Reason = "not granted"
	ReasonNoRule          Reason = "no rule"
	ReasonNoRight         Reason = "no such right"
	ReasonNoName          Reason = "no such name"
)

func (r Reason) allows() bool {
	return r == ReasonManagement || r == ReasonGranted || r == ReasonOwnPath || r == ReasonKey
}

// decide implements the drawing in the package doc. It stores the deciding rules in m.
func (a *ACL) decide(q query, m *match) Reason {
	switch {
	case q.want == 0:
		return ReasonNoRight
	case a == nil:
		return ReasonNoRule
	case a.management:
		return ReasonManagement
	case q.words.names != "" && !isName(q.name) || q.words == variableWords && !isName(q.space):
		return ReasonNoName
	}
	if q.words == variableWords {
		return a.variable(q, m)
	}
	a.rules(q.words.kind).find(q.space, q.name, m)
	return m.reason(q.want)
}

// rules returns the rules of a kind.
func (a *ACL) rules(kind Kind) *rules {
	if rs := a.kinds[kind]; rs != nil {
		return rs
	}
	return noRules
}

var noRules = newRules()

// isName reports whether name is valid in a question. Patterns are valid only in policies.
func isName(name string) bool { return name != "" && strings.IndexByte(name, '*') < 0 }

// variable decides on a variable. A deny of the namespace applies, unless the rule of the
// path is in a closer namespace block than the deny.
func (a *ACL) variable(q query, m *match) Reason {
	reason := a.path(q, m)
	ns := match{keep: m.keep}
	a.rules(withRights).find("", q.space, &ns)
	if ns.deny && m.space <= ns.rank {
		*m = ns
		return ReasonNamespaceDenied
	}
	return reason
}

// path decides with the rules of paths only.
func (a *ACL) path(q query, m *match) Reason {
	vars := a.rules(Variables)
	if vars.findExact(q.space, q.name, m) {
		return m.reason(q.want)
	}
	if q.want&ownRights != 0 && q.workload.readsKey(q.space, q.name) {
		return vars.key(q, m)
	}
	if q.want&ownRights == 0 || !q.workload.owns(q.space, q.name) {
		vars.closest(q.space, q.name, m)
		return m.reason(q.want)
	}
	if r := vars.ownDenied(q.space, q.name); r != nil {
		m.take(r)
		return ReasonDenied
	}
	return ReasonOwnPath
}

// ownRights are the rights of a workload on its own paths.
var ownRights = variableWords.granted("read", false)

// keys is the beginning of the paths of Consul keys: consulkey.Root.
const keys = "consul/"

// readsKey reports whether the path is of a Consul key that the workload can read without a policy.
func (w *Workload) readsKey(namespace, path string) bool {
	return w != nil && w.Keys && w.Namespace != "" && w.Namespace == namespace && len(path) > len(keys) && strings.HasPrefix(path, keys)
}

// key decides on a Consul key that the workload reads without a policy. A closest rule that denies applies, also if it has
// a pattern: unlike own paths, keys are a tree of which a policy closes parts.
func (rs *rules) key(q query, m *match) Reason {
	rs.closest(q.space, q.name, m)
	switch reason := m.reason(q.want); reason {
	case ReasonDenied, ReasonGranted:
		return reason
	}
	*m = match{keep: m.keep}
	return ReasonKey
}

// owns reports whether the workload can read the path without a policy.
func (w *Workload) owns(namespace, path string) bool {
	if w == nil || w.Namespace == "" || w.Namespace != namespace {
		return false
	}
	rest, ok := strings.CutPrefix(path, "nomad/jobs")
	for _, part := range [...]string{w.Job, w.Group, w.Task} {
		if !ok || rest == "" {
			return ok
		}
		if part == "" || rest[0] != '/' {
			return false
		}
		rest, ok = strings.CutPrefix(rest[1:], part)
	}
	return ok && rest == ""
}
