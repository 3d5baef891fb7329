// Package acl turns the text of ACL policies into a set of rights and answers what
// that set allows. It is pure: it reads no state, starts no goroutine, keeps nothing
// between calls, and knows neither tokens nor roles. Who calls is the business of
// nomad/authz.
//
//	text ──Parse──▶ *Policy ─┐
//	text ──Parse──▶ *Policy ─┼─New──▶ *ACL ──Ask──────▶ yes or no
//	text ──Parse──▶ *Policy ─┘         └────Explain──▶ yes or no, and the lines why
//
// A policy is blocks, and a block is a kind, for most kinds a name with globs, and
// words. Blocks of one kind and the same name are one rule, whichever policy they come
// from: the union of what their words grant, or nothing when one of them denies.
//
// Who asks about a name gets the answer of one rule:
//
//	management? ─yes─▶ allowed
//	    │no
//	a rule for exactly this name? ─yes─▶ it alone decides
//	    │no
//	globs that match: those that leave the fewest characters to "*"
//	    ├─ none ─▶ refused
//	    ├─ one ──▶ it alone decides
//	    └─ as close as each other ─▶ allowed only when every one of them allows it
//
// A variable has a namespace and a path, and both are looked at as one name; the
// characters that are left to "*" are counted over both:
//
//	a rule for exactly this namespace and path? ─yes─▶ it alone decides
//	    │no
//	read or list of a workload's own path? ─yes─▶ allowed, unless a rule for this
//	    │no                                       path in a glob of namespaces denies
//	globs, as above
//
// and whatever these allow is refused when the namespace is denied, by a block at least
// as close as the one that the rule of the path stands in. A block that holds variables
// and nothing else grants nothing in its namespace, and denies nothing.
//
// A workload's own paths are nomad/jobs, and below it those of its job, group and
// task, in its own namespace: these four and nothing under them.
//
// Two rules hold throughout, and the tests hold the package to them: another deny
// never allows more, and the order of policies and blocks does not matter. A nil *ACL,
// a right that does not exist and a name that is none are refused.
package acl
