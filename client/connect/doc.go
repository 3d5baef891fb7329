// Package connect is the part of a client in the service mesh of Consul (Connect).
//
// Add computes the part of a service's registration that makes it a member of the mesh: its sidecar (registration.go,
// proxy.go), or its kind of gateway (gateway.go). RoleOf returns what a task is in the mesh (role.go).
//
// A Proxy copies the connections of a socket in an allocation to the local agent of Consul (socket.go, target.go). So
// tasks in a network namespace of their own reach it. The bytes are not changed. In particular, the token of the client
// is never added: requests of a task have the rights of its own token, or those of Consul's anonymous token.
//
// The package registers nothing. Proxy.Serve is the only function that starts goroutines, and it waits for them.
package connect
