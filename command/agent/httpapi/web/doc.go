// Package web serves a table of routes over HTTP. It has all that does not depend on the meaning
// of a route: limits, matching, query options, JSON, errors, access checks and the audit log.
//
//	request ─▶ body limits ─▶ audit ─▶ host, origin ─▶ match ─▶ early rights ─▶ handler ─▶ JSON
//	                                                     └─▶ 404, 405               └─▶ error ─▶ status, text
//
// A Route is a row of the table. Its Handler gets a Request and returns the body of the reply.
// Read and Write make handlers that make one RPC. The RPC authorizes the request with the token
// that the request carries. For a Route with a Call, the agent also checks the right of the RPC
// before it reads the body. A handler without an RPC uses ForCallers, ForOperators or Request.Ask.
// The socket of a task (TaskSocket) requires a token on every request.
//
// To explain the rights of a request, Request.QuestionOf runs its handler against RPCs that are
// recorded and refused.
//
// A Server keeps no state but limits, a cache of callers for the audit log, and the JSON of list rows. It has no routes of
// its own and starts no goroutines.
package web
