// Package connect is the part of a client in the service mesh of Consul (Connect).
//
// Add computes the part of a service's registration that makes it a member of the mesh: its sidecar (registration.go,
// proxy.go), or its kind of gateway (gateway.go).
//
// The package registers nothing and starts no goroutine.
package connect
