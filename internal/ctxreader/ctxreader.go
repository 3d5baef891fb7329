// Package ctxreader ends the reading of a long stream with its context. It is for readers that never wait, such as files
// that are copied or hashed. It keeps no state and starts no goroutine.
package ctxreader

import (
	"context"
	"io"
)

// New returns a reader that reads from another one until ctx ends, and then returns the error of ctx. It does not interrupt
// a read that waits.
func New(ctx context.Context, from io.Reader) io.Reader { return &reader{ctx, from} }

type reader struct {
	ctx  context.Context
	from io.Reader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}
