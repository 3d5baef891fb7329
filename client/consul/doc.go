// Package consul computes the services and checks of workloads as Consul has them, and keeps those of the node's
// allocations in a Reconciler (internal/consul/reconcile), which registers them.
//
// Services is a pure function (registration.go, check.go, id.go). The IDs and fields are those of Nomad 2.0, so that a
// node can be moved without a second registration. Source: compat/consul.md, section 6. Package client/connect adds the
// part of a service in the mesh. After interpolation, only the characters of a name and the amount of text are checked
// (bound.go). Consul decides about the rest. A script check is a TTL check that package client/check updates.
//
// A service with an identity is registered with the token of that identity (Tokens), and waits until there is one. Other
// services are registered with the token of the agent.
//
// The package makes no request and starts no goroutine. A restarted agent sets the services of its running tasks again,
// with the same IDs. Only a stop of the workload removes them.
package consul
