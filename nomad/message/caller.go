package message

import "context"

// Caller calls RPC methods with the requests and responses of this package.
type Caller interface {
	Call(ctx context.Context, method string, req, resp any) error
}
