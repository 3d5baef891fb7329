package agent

import (
	"time"

	"github.com/hashicorp/go-metrics"
)

// Names of the metrics of the agent.
var (
	httpConns    = []string{"nomad", "agent", "http", "connections"}
	httpExceeded = []string{"nomad", "agent", "http", "exceeded"}
	certExpires  = []string{"agent", "tls", "cert", "expiration_seconds"}
	caExpires    = []string{"agent", "tls", "ca", "expiration_seconds"}
)

// measure sets the gauges of the agent. The TLS gauges are the seconds until a certificate
// expires. They are negative after it has expired.
func (a *Agent) measure(to *metrics.Metrics) {
	to.SetGauge(httpConns, float32(a.httpLimit.Count()))
	for _, of := range []struct {
		key  []string
		ends time.Time
	}{{certExpires, a.certs.Expires()}, {caExpires, a.certs.CAExpires()}} {
		if !of.ends.IsZero() {
			to.SetGauge(of.key, float32(time.Until(of.ends).Seconds()))
		}
	}
}
