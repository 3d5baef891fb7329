// Package access tests the access matrix. Every kind of caller calls every RPC and every HTTP route
// of the tables in the code, on real agents with TLS and ACLs. The answers are recorded in
// testdata, one line for each method or route, for review.
//
//	server ◀──RPC── a pool with the caller's certificate, and its token
//	  ▲   ◀──HTTP─ a client with the caller's certificate, and its token
//	  └── client agent ◀──HTTP─ the same
//
// All objects are in the namespace "prod". Two callers have rights there: one that may read
// everything, and management. Management comes last, since its calls take effect. "-update"
// rewrites testdata.
package access
