package client

import (
	"context"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/telemetry"
)

// measureEvery is the interval of the metric for the token's expiry.
const measureEvery = 5 * time.Second

// Names of the metrics of the node's identity.
var (
	expiresIn     = []string{"client", "identity", "expires_in"}
	renewed       = []string{"client", "identity", "renewed"}
	renewalFailed = []string{"client", "identity", "renewal_failed"}
)

// lifetime returns when the token was issued and when it expires. ok is false if there is no
// token or it has no expiry.
func (i *identity) lifetime() (from, to time.Time, ok bool) {
	var claims struct {
		IssuedAt int64 `json:"iat"`
		Expiry   int64 `json:"exp"`
	}
	if err := decodePart(i.jwt().Reveal(), 1, &claims); err != nil || claims.Expiry == 0 {
		return from, to, false
	}
	return time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expiry, 0), true
}

// overdue reports whether a new token should have arrived: one was requested, or less than a
// quarter of the token's lifetime remains. Servers renew when a third remains.
func (i *identity) overdue(now time.Time) bool {
	from, to, ok := i.lifetime()
	return i.wantsRenewal() || ok && now.After(to.Add(-to.Sub(from)/4))
}

// measureIdentity publishes, until ctx ends, the seconds until the node's token expires. The
// value is negative after the expiry.
func (c *Client) measureIdentity(ctx context.Context) error {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		if _, ends, ok := c.id.lifetime(); ok {
			metrics.SetGaugeWithLabels(expiresIn, float32(time.Until(ends).Seconds()), telemetry.Labels(c.measuredNode())[:4:4])
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
