// Package rpc carries calls between agents. It contains the server, connection pools, streams,
// and the table of the methods that an agent answers. Package wire has the format of the
// connections.
//
// A method is a row: a name, a Rule (who may call), a Where (which server answers) and a
// handler. Calls over TCP and calls in the same process take the same steps. In-process calls
// are not encoded.
//
//	admit → route (here, leader, region) → authorize → decode → handle → recheck
//	                     └──▶ decode → forward
//
// Before the caller is authenticated and authorized, only the options of a request are decoded.
// The rest is charged to a memory budget, by the sizes of the Go types into which it decodes.
// Callers without the right for their call share a small budget. A request must arrive within a
// timeout, and its bytes are charged while it is read. A connection without an authenticated
// caller has lower limits.
//
// Servers never dial clients. They open streams over the session that the client opened, which
// they find by node ID (Server.NodeCall, Server.NodeStream).
//
// A Pool keeps one session per server for calls and one for streaming calls. If a call is not
// answered in time, the Pool sends a yamux ping. If the ping is not answered either, the Pool
// ends all calls of the session. A server that is stopped or cut off is thus detected within
// seconds.
//
// Serve owns one goroutine per connection, one per stream and one per running call. It returns
// after all of them have ended. A Pool owns one goroutine per session.
package rpc
