// Package surface tests what holds for every RPC method of a server. It has no code of its own.
//
//	callers_test.go        who may call a method, by token
//	certificates_test.go   who may call it, by certificate; worker_test.go: what a server certificate alone opens
//	join_test.go           which certificates join a cluster; raft_test.go: which reach Raft
//	hidden_test.go         what a caller cannot read looks missing: in lists, pages, counts and waits
//	nodereads_test.go      a node reads only its own allocations
//	secrets_test.go        no answer, error or log line contains a secret
//	hostile_test.go        random values in each field
//	memory_test.go         small requests that decode to large values
//
// Tests of one method lie in the package of its noun.
package surface
