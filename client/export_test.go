package client

// Ended is closed when the runner of an allocation has returned, shortly after the final status
// is reported, or when the node no longer has the allocation.
func (c *Client) Ended(id string) <-chan struct{} {
	h, err := c.allocs.find(id)
	if err != nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	return h.ended
}
