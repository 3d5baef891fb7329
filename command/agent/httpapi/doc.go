// Package httpapi is the HTTP API of an agent: URL in, RPC out. One table
// (Server.table) lists every route: methods, path, handler. A handler is mostly
// one RPC: options from the query, fields from path and body, reply as JSON by
// the field names of package nomad (compat/http.tsv, compat/http-conventions.md).
//
//	request ─▶ limits ─▶ match ─▶ token, query ─▶ RPC ─▶ headers, JSON
//	                        └─▶ 404, 405           └─▶ error ─▶ status, text
//
// It keeps no state beside its table, starts no goroutine that outlives a
// request, and decides nothing about access: the RPC behind a route does, with
// the token that the request carries. What has no RPC behind it asks by itself:
// the agent's own routes and those of absent features. On a task's socket a token is demanded
// before anything else is looked at.
package httpapi
