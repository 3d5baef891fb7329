package host_test

import "sync/atomic"

// counter counts writes.
type counter struct{ n atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n.Add(1)
	return len(p), nil
}
