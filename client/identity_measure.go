package client

import (
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/telemetry"
)

// measureEvery is how often the end of the node's identity is told.
const measureEvery = 5 * time.Second

// The metrics of the node's identity.
var (
	expiresIn     = []string{"client", "identity", "expires_in"}
	renewed       = []string{"client", "identity", "renewed"}
	renewalFailed = []string{"client", "identity", "renewal_failed"}
)

// life returns when the token was given and when it ends; false when there is none
// that says so.
func (i *identity) life() (from, to time.Time, ok bool) {
	var claims struct {
		IssuedAt int64 `json:"iat"`
		Expiry   int64 `json:"exp"`
	}
	if err := decodePart(i.jwt().Reveal(), 1, &claims); err != nil || claims.Expiry == 0 {
		return from, to, false
	}
	return time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expiry, 0), true
}

// overdue says whether a new token should have come by now: one was asked for, or a
// quarter of its life is left of the one there is. Servers renew at a third.
func (i *identity) overdue(now time.Time) bool {
	from, to, ok := i.life()
	return i.wantsRenewal() || ok && now.After(to.Add(-to.Sub(from)/4))
}

// measureIdentity tells until ctx ends in how many seconds the node's identity does, less
// than zero when that is over.
func (c *Client) measureIdentity(ctx context.Context) error {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		if _, ends, ok := c.id.life(); ok {
			metrics.SetGaugeWithLabels(expiresIn, float32(time.Until(ends).Seconds()), telemetry.Labels(c.measuredNode())[:4:4])
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
