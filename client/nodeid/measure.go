package nodeid

import (
	"context"
	"time"

	"github.com/hashicorp/go-metrics"
)

// measureEvery is the interval of the metric for the token's expiry.
const measureEvery = 5 * time.Second

// Names of the metrics of the node's identity.
var (
	expiresIn     = []string{"client", "identity", "expires_in"}
	renewed       = []string{"client", "identity", "renewed"}
	renewalFailed = []string{"client", "identity", "renewal_failed"}
)

// Measure publishes, until ctx ends, the seconds until the node's token expires. The value is
// negative after the expiry. labels returns those of the node.
func (i *Identity) Measure(ctx context.Context, labels func() []metrics.Label) error {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		if _, ends, ok := i.lifetime(); ok {
			metrics.SetGaugeWithLabels(expiresIn, float32(time.Until(ends).Seconds()), labels())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
