package client

// Ended is closed when the runner of an allocation has returned, which is a moment after
// its status was told, or the node has none of that ID any more.
func (c *Client) Ended(id string) <-chan struct{} {
	h, err := c.allocs.find(id)
	if err != nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	return h.ended
}
