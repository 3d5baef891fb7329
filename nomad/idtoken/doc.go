// Package idtoken defines identity tokens: signed JWTs of workloads, nodes, node introductions and servers.
//
// Claims are the payload of a token. Exactly one of their parts is set and determines the kind. In JSON they are one flat
// object, and on the wire one flat map (wire.go). A Token is the signed form; it prints as the ID of its key. Package identity
// builds, signs and verifies tokens, package keyring has the keys, and package authz decides what a holder may do.
//
// The package keeps no state and starts no goroutine.
package idtoken
