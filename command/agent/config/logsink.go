package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/logsink"
	"github.com/open-nomad/open-nomad/nomad"
)

// LogSink is a client.log_sink block. Its label is journald or otlp.
type LogSink struct {
	Socket   string            `hcl:"socket"`
	Endpoint string            `hcl:"endpoint"`
	Headers  map[string]string `hcl:"headers"`
	CAFile   string            `hcl:"ca_file"`
	CertFile string            `hcl:"cert_file"`
	KeyFile  string            `hcl:"key_file"`
}

// checkLogSinks checks the log sinks of the client.
func (s *Settings) checkLogSinks() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Client.LogSink)) {
		l, path := s.Client.LogSink[name], "client.log_sink."+name
		switch name {
		case nomad.LogSinkJournald:
			if l.Endpoint != "" || len(l.Headers) > 0 || l.CAFile != "" || l.CertFile != "" || l.KeyFile != "" {
				errs = append(errs, s.Fault(path, "the sink journald has the key socket only: remove the others"))
			}
			if l.Socket != "" && !strings.HasPrefix(l.Socket, "/") {
				errs = append(errs, s.Fault(path+".socket", "%q is not an absolute path", l.Socket))
			}
		case nomad.LogSinkOTLP:
			errs = append(errs, s.checkOTLP(l, path))
		default:
			errs = append(errs, s.Fault(path, "%q is not a log sink: use journald or otlp", name))
		}
	}
	return errors.Join(errs...)
}

func (s *Settings) checkOTLP(l *LogSink, path string) error {
	var errs []error
	u, err := url.Parse(l.Endpoint)
	switch {
	case l.Endpoint == "":
		errs = append(errs, s.Fault(path, "set endpoint, such as https://collector:4318/v1/logs"))
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil:
		errs = append(errs, s.Fault(path+".endpoint", "must be an http or https URL without a user, such as https://collector:4318/v1/logs"))
	case u.Scheme == "http" && (l.CAFile != "" || l.CertFile != "" || l.KeyFile != ""):
		errs = append(errs, s.Fault(path+".endpoint",
			"is http, so that ca_file, cert_file and key_file have no effect: use https, or remove them"))
	}
	if l.Socket != "" {
		errs = append(errs, s.Fault(path+".socket", "belongs to the sink journald: remove it"))
	}
	if (l.CertFile == "") != (l.KeyFile == "") {
		errs = append(errs, s.Fault(path, "cert_file and key_file must be set together"))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(l.Headers[name]) {
			errs = append(errs, s.Fault(path+".headers", "%q is not a header with a valid value", name))
		}
	}
	return errors.Join(errs...)
}

// logSinks returns the configuration of the log sinks.
func (s *Settings) logSinks() (client.LogSinks, error) {
	var out client.LogSinks
	if l := s.Client.LogSink[nomad.LogSinkJournald]; l != nil {
		out.Journal = l.Socket
		if out.Journal == "" {
			out.Journal = logsink.JournalSocket
		}
	}
	l := s.Client.LogSink[nomad.LogSinkOTLP]
	if l == nil {
		return out, nil
	}
	security, err := l.tls()
	if err != nil {
		return out, s.Fault("client.log_sink.otlp", "%v", err)
	}
	headers := map[string]string{}
	for name, value := range l.Headers {
		headers[http.CanonicalHeaderKey(name)] = value
	}
	out.OTLP = &logsink.OTLPConfig{Endpoint: l.Endpoint, Headers: headers, TLS: security}
	return out, nil
}

// tls returns the TLS configuration, nil for the defaults of the system.
func (l *LogSink) tls() (*tls.Config, error) {
	if l.CAFile == "" && l.CertFile == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.CAFile != "" {
		pem, err := os.ReadFile(l.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s has no certificate", l.CAFile)
		}
	}
	if l.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(l.CertFile, l.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
