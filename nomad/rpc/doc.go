// Package rpc carries calls between agents: the framing and codec of
// compat/wire.md, multiplexed sessions, connection pools, streams, and the
// table of methods that one agent answers.
//
// A connection says what it is by its first byte:
//
//	0x01 one stream of calls        0x02 raft (handed over)
//	0x03 yamux, calls only          0x04 TLS
//	0x05 one streaming call         0x06 yamux, each stream begins with 0x01 or 0x05
//
// A call is two msgpack values each way: a header and a body. There is no
// length prefix, so every value is first collected whole, bounded, and only then
// decoded: a length field allocates nothing before its bytes arrive.
//
// A method is a row: a name, a Rule (who may call), a Where (who answers) and a
// handler. A call moves through it the same way whether it came over TCP or from
// the same process, where nothing is encoded:
//
//	look up → authenticate → route (here, leader, region) → refuse or run → reply
//
// Only the options of a request are decoded before the caller is authenticated and asked
// for rights. The rest is charged to a memory budget by the sizes of the Go types that it
// decodes into; callers without the right for their call share a small budget. A request
// must arrive within a time, and its bytes are charged while it is read. A connection over
// which nobody has authenticated has smaller bounds.
//
// Servers never dial clients: they open streams back over the session that the
// client opened, found by node ID (Server.NodeCall, Server.NodeStream).
//
// A Pool keeps one session per server for calls and for streaming ones. A call that is
// not answered in time has the other side asked whether it is there (a yamux ping): a
// process that is stopped or cut off ends its calls within seconds, not when TCP notices.
//
// Serve owns one goroutine per connection, one per stream and one per running
// call; it returns when all of them ended. A Pool owns one goroutine per session.
package rpc
