package config

import (
	"errors"
	"net"
	"strings"
)

// checkTelemetry checks the addresses of systems that the agent sends its metrics to.
func (s *Settings) checkTelemetry() error {
	t := &s.Telemetry
	var errs []error
	for path, addr := range map[string]string{"telemetry.statsd_address": t.StatsdAddress, "telemetry.statsite_address": t.StatsiteAddress,
		"telemetry.datadog_address": t.DatadogAddress} {
		if addr == "" || path == "telemetry.datadog_address" && strings.HasPrefix(addr, "unix://") {
			continue
		}
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			errs = append(errs, s.Fault(path, "%q is not an address: use host:port", addr))
		}
	}
	return errors.Join(errs...)
}
