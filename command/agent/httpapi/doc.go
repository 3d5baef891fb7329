// Package httpapi is the HTTP API of an agent. It translates HTTP requests into RPCs. One table
// (Server.table) lists every route: methods, path, handler. Most handlers make one RPC. Options
// come from the query, fields from the path and the body. The reply is JSON with the field names of
// package nomad.
//
//	request ─▶ limits ─▶ match ─▶ token, query ─▶ RPC ─▶ headers, JSON
//	                        └─▶ 404, 405           └─▶ error ─▶ status, text
//
// The RPC behind a route authorizes the request with the token that the request carries. Routes
// without an RPC check the token themselves: those of the agent and those of missing features. The
// socket of a task requires a token on every request.
//
// Apart from the table, a Server keeps only limits, session counts and a cache of callers for the
// audit log. No goroutine outlives its request.
package httpapi
