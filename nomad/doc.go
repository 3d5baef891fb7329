// Package nomad is the vocabulary of the product: jobs, allocations, nodes,
// evaluations, plans, deployments, keys, their statuses and transitions, their
// validation, the Raft commands and the bodies of every RPC. One noun a file.
//
// Field names are the wire names: a value travels as msgpack (Encode, Decode),
// is stored in state as it is, and is shown as JSON by the same names. What
// state hands out is shared: clone it (Copy) before you change it.
//
// It imports nothing of ours, keeps no state and starts no goroutine.
package nomad
