package acl

import "strings"

// ACL is what a caller may do. It never changes, and any number of goroutines may ask
// it at once. The zero value is what New makes of no policies; nil allows nothing.
type ACL struct {
	management bool
	kinds      map[Kind]*rules
}

// Workload is who the identity of a workload belongs to.
type Workload struct {
	Namespace string
	Job       string // of a periodic or dispatched job, its parent
	Group     string
	Task      string // empty for a service
}

// What callers have whose rights are no matter of policies: Everything is that of
// management, OfNodes that of a node.
var (
	Everything = New(true)
	OfNodes    = New(false, mustParse("node { policy = \"read\" }\nagent { policy = \"read\" }"))
)

// mustParse is for the text above.
func mustParse(text string) *Policy {
	p, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return p
}

// New returns what the policies allow together. With management everything is allowed,
// whatever they say.
func New(management bool, policies ...*Policy) *ACL {
	return &ACL{management: management, kinds: build(policies)}
}

// IsManagement says whether everything is allowed.
func (a *ACL) IsManagement() bool { return a != nil && a.management }

// AllowVariableSearch says whether there may be variables in the namespace that the
// caller may list; which ones, Ask tells.
func (a *ACL) AllowVariableSearch(namespace string, w *Workload) bool {
	if a == nil || a.management || !isName(namespace) {
		return a.IsManagement()
	}
	var ns match
	a.rules(spoken).find("", namespace, &ns)
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

// query is a question: one of the rights in want on a thing.
type query struct {
	words    *vocabulary
	space    string
	name     string
	want     rights
	workload *Workload
}

// wanted is the bits of rights of which one is enough; what does not exist has none.
func wanted(words *vocabulary, ops []string) rights {
	var all rights
	for _, op := range ops {
		all |= words.bit[op]
	}
	return all
}

// Reason is why a decision fell as it did.
type Reason string

// The reasons. Those of the first three allow.
const (
	ReasonManagement      Reason = "management token"
	ReasonGranted         Reason = "granted"
	ReasonOwnPath         Reason = "workload's own path"
	ReasonDenied          Reason = "denied"
	ReasonNamespaceDenied Reason = "namespace denied"
	ReasonNotGranted      Reason = "not granted"
	ReasonNoRule          Reason = "no rule"
	ReasonNoRight         Reason = "no such right"
	ReasonNoName          Reason = "no such name"
)

func (r Reason) allows() bool {
	return r == ReasonManagement || r == ReasonGranted || r == ReasonOwnPath
}

// decide is the drawing in the package doc. It leaves the rules that decided in m.
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

// rules returns those of a kind.
func (a *ACL) rules(kind Kind) *rules {
	if rs := a.kinds[kind]; rs != nil {
		return rs
	}
	return noRules
}

var noRules = newRules()

// isName says whether a caller may ask about the name: patterns are for policies.
func isName(name string) bool { return name != "" && strings.IndexByte(name, '*') < 0 }

// variable decides on a variable. The deny of a namespace holds for its variables, but
// for those of rules that stand in a closer block than the deny.
func (a *ACL) variable(q query, m *match) Reason {
	reason := a.path(q, m)
	ns := match{keep: m.keep}
	a.rules(spoken).find("", q.space, &ns)
	if ns.deny && m.space <= ns.rank {
		*m = ns
		return ReasonNamespaceDenied
	}
	return reason
}

// path decides by the rules of paths.
func (a *ACL) path(q query, m *match) Reason {
	vars := a.rules(Variables)
	if vars.findExact(q.space, q.name, m) {
		return m.reason(q.want)
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

// ownRights is what a workload may do with its own paths.
var ownRights = variableWords.granted("read", false)

// owns says whether the path is one that the workload may read without a policy.
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
