// Package acl parses ACL policies and decides what they allow. It is pure: it reads no
// state, starts no goroutine and keeps nothing between calls. It does not handle tokens
// and roles. Package nomad/authz authenticates callers.
//
//	text ──Parse──▶ *Policy ─┐
//	text ──Parse──▶ *Policy ─┼─New──▶ *ACL ──Ask──────▶ allowed or denied
//	text ──Parse──▶ *Policy ─┘         └────Explain──▶ the same, with the deciding lines
//
// A policy is a list of blocks. A block has a kind, for most kinds a name with globs, and
// grants (the values of the keys policy and capabilities). Blocks of the same kind and
// name in all policies form one rule: the union of their grants, or nothing if one of
// them denies.
//
// One rule decides on a name:
//
//	management? ─yes─▶ allowed
//	    │no
//	a rule for exactly this name? ─yes─▶ it alone decides
//	    │no
//	matching globs: those with the fewest characters matched by "*"
//	    ├─ none ─▶ denied
//	    ├─ one ──▶ it alone decides
//	    └─ several ─▶ allowed only if all of them allow it
//
// A variable has a namespace and a path. Both together are one name: the characters
// matched by "*" are counted in both.
//
//	a rule for exactly this namespace and path? ─yes─▶ it alone decides
//	    │no
//	read or list of a workload's own path? ─yes─▶ allowed, unless a rule for exactly this
//	    │no                                       path in a namespace glob denies
//	globs, as above
//
// A deny of the namespace overrides an allowed path if its block is at least as close as
// the namespace block of the path's rule. A namespace block with only variables neither
// grants nor denies rights in the namespace.
//
// A workload's own paths are nomad/jobs and the paths of its job, group and task below it,
// in its own namespace. Paths below these four are not included.
//
// A workload with Keys also reads and lists the paths below consul/ of its namespace, unless
// the closest rule denies. The servers set Keys if the region uses no Consul.
//
// Two invariants are tested: an additional deny never allows more, and the order of
// policies and blocks does not matter. A nil *ACL, an unknown right and an invalid name
// are denied.
package acl
