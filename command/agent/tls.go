package agent

import (
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// reloadTLS applies the tls block of new settings. The region and the role do not change. On
// error nothing changes.
func (a *Agent) reloadTLS(set *config.Settings) error {
	cfg := set.CertsConfig()
	cfg.Region, cfg.Server = a.set.Region, a.set.Server.Enabled
	if err := a.certs.Reload(cfg); err != nil {
		return err
	}
	a.tellExpiry(set)
	if a.client != nil {
		a.client.ServeHTTPS(cfg.HTTP)
	}
	return nil
}

// expiresSoon is the remaining lifetime below which the agent warns about its certificate.
const expiresSoon = 14 * 24 * time.Hour

// tellExpiry logs when the certificate of the agent expires.
func (a *Agent) tellExpiry(set *config.Settings) {
	end := a.certs.Expires()
	switch {
	case end.IsZero():
	case time.Until(end) < expiresSoon:
		a.log.Warn("the certificate expires soon: replace it and reload", "cert_file", set.TLS.CertFile, "expires", end)
	default:
		a.log.Info("TLS is enabled", "cert_file", set.TLS.CertFile, "expires", end)
	}
}

// scheme returns the URL scheme of the HTTP API.
func (a *Agent) scheme() string {
	if a.certs.HTTPS() {
		return "https"
	}
	return "http"
}
