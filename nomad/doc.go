// Package nomad defines the data types of the product: jobs, allocations, nodes, evaluations, plans,
// deployments, keys, variables and the objects of access control, with their statuses and transitions. Each file defines
// one kind of object. The requests and replies of RPCs, and what they alone carry, are in package message, the rules of
// objects in packages rules and jobrules, and what an ACL policy allows in package acl. Values with secrets print as their accessor or name, or not at all.
//
// Field names are the wire names. A value is sent as msgpack (package codec), stored in state unchanged, and
// shown as JSON under the same names. Values from state are shared: clone them with codec.Copy before a change.
//
// The package imports no other package of the project, keeps no state and starts no goroutine.
package nomad
