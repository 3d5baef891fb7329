// Package nomad defines the data types of the product: jobs, allocations, nodes, evaluations, plans,
// deployments, keys and variables. It contains their statuses and transitions, the Raft commands and the bodies of every
// RPC. Each file defines one kind of object. The rules of jobs are in package jobrules.
//
// Field names are the wire names. A value is sent as msgpack (package codec), stored in state unchanged, and
// shown as JSON under the same names. Values from state are shared: clone them with codec.Copy before a change.
//
// The package imports no other package of the project, keeps no state and starts no goroutine.
package nomad
