// Package wire is the wire format of RPC: the kinds of connections, msgpack values, their limits,
// and multiplexed sessions. It knows no method and no caller.
//
// The first byte of a connection identifies its protocol:
//
//	0x01 one stream of calls        0x02 raft (handed over)
//	0x03 yamux, calls only          0x04 TLS
//	0x05 one streaming call         0x06 yamux, each stream begins with 0x01 or 0x05
//
// A call is two msgpack values in each direction: a header and a body. A streaming call begins
// with a StreamHeader, which is answered by a StreamAck.
//
//	calls    RequestHeader body ──▶     ◀── ResponseHeader body
//	stream   StreamHeader ──▶           ◀── StreamAck, then what the method defines
//
// There is no length prefix. ReadValue therefore reads a value completely, within the limits of
// an Intake, before it is decoded. A length inside a value allocates no memory before its bytes
// arrive. An Intake charges the bytes to a Budget, and a Footprint bounds the memory of the
// decoded value.
//
// A Session is a yamux session. It owns the goroutines of yamux, which end with Close. An Unread
// limits the data that a session has received and not read yet.
package wire
