// Package token logs the workloads of a node in to Consul with their identities, and keeps the tokens of Consul that they
// get. It has one Manager per allocation, and one Node for all.
//
//	                                    ┌──────────── half of its life, new claims ───────────┐
//	                                    ▼                                                     │
//	Prepare ──no token stored──▶ waiting for the identity ──▶ login ──▶ preflight ──▶ ready ──┤
//	   │                                ▲                       │           │          ▲      │
//	   │                                └──────── back off ◀────┴──error────┘          │      │
//	   └───stored────────────────────────────────────────────────────────────▶ check ──┘ ◀────┘ Invalidate
//	                                                                             └──unknown──▶ login
//
// A login is made for each service of Consul with an identity, and for each identity of a task with the name TaskIdentity.
// A failed one is repeated: after seconds if Consul does not answer, after minutes if it refuses the login. The tasks get one
// event for each cause, in words, and one when the login succeeds. An allocation never fails because of a login: a task that
// needs a token waits for it, and a service is not registered before.
//
// A token is stored before it is used, so that a restarted agent uses it again without a login. It is renewed by a new login
// at half of its life. The replaced token of a service is logged out a minute later, when the service is registered with the
// new one. That of a task, or of a service in the mesh, stays valid until its own end or that of the allocation, because a
// process may have read it when it started.
//
// When an allocation ends, all its tokens are logged out. End waits one second at most. Node.Run repeats logouts that fail,
// for a day, and Node.Leftovers begins those of allocations that ended while no agent ran.
//
// Goroutines: Node.Run, Manager.Run, and one per identity below the latter. At most maxRequests of them make a request at a
// time. No token, JWT or answer of Consul is logged, or part of an event or error.
package token
