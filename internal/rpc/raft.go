package rpc

import (
	"context"
	"net"
)

// DialRaft opens a connection to the server at addr that its RaftConns will take.
func (p *Pool) DialRaft(ctx context.Context, addr string) (net.Conn, error) {
	return p.dial(ctx, addr, byteRaft)
}
