package api

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// ServerTime returns the time of the agent's clock, in whole seconds, and how long the request took.
// It needs no token.
func (c *Client) ServerTime(ctx context.Context) (at time.Time, took time.Duration, err error) {
	r, err := c.newRequest(http.MethodGet, "/v1/status/leader")
	if err != nil {
		return time.Time{}, 0, err
	}
	r.ctx = ctx
	resp, took, err := c.send(r)
	if err != nil {
		return time.Time{}, took, err
	}
	defer resp.Body.Close()
	if at, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return time.Time{}, took, fmt.Errorf("read the Date header of the agent: %w", err)
	}
	return at, took, nil
}
