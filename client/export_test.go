package client

// Ended is closed when the runner of an allocation has returned, shortly after it reported the
// final status. It is also closed if the node does not have the allocation.
func (c *Client) Ended(id string) <-chan struct{} {
	e, err := c.allocs.Find(id)
	if err != nil {
		over := make(chan struct{})
		close(over)
		return over
	}
	return e.Ended()
}
