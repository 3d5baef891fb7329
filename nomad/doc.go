// Package nomad defines the objects of scheduling: jobs, nodes, evaluations, plans, allocations and deployments, with their
// statuses and transitions, and the namespaces and node pools that they belong to. Each file defines one kind of object.
//
// Objects that no job and no node contains have packages of their own:
//
//	catalog     registered services         quota      limits of namespaces
//	hostvolume  dynamic host volumes        rbac       tokens, policies, roles, logins
//	idtoken     identity tokens             rootkey    keys of the region
//	spiffe      SPIFFE identities           variable   variables and their locks
//
// What is computed from the objects is in packages egress, migratetoken and nodeclass, among others.
//
// The requests and replies of RPCs, and what they alone carry, are in package message, errors in package apierror, the rules
// of objects in packages rules and jobrules, and what an ACL policy allows in package acl.
//
// Field names are the wire names. A value is sent as msgpack (package codec), stored in state unchanged, and
// shown as JSON under the same names. Values from state are shared: clone them with codec.Copy before a change.
//
// The package keeps no state and starts no goroutine.
package nomad
