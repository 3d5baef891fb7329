// Package access holds the matrix of who may call what: every RPC and every HTTP route,
// as the tables in the code have them, as every kind of caller, against real agents with
// TLS and access control. What each cell answered is in testdata, one line a method or
// route, to be read by a person.
//
//	server ◀──RPC── a pool with the caller's certificate, and its token
//	  ▲   ◀──HTTP─ a client with the caller's certificate, and its token
//	  └── client agent ◀──HTTP─ the same
//
// What there is to see or to change is in the namespace "prod". No caller but two has
// a right there: the one that may read everything, and management, which comes last,
// since it does what it asks for. "-update" writes testdata again.
package access
