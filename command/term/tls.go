package term

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
)

// tlsHint returns how to fix a TLS error, "" for other errors.
func tlsHint(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		record  tls.RecordHeaderError
		remote  *net.OpError
	)
	switch {
	case errors.As(err, &unknown):
		return "The agent's certificate is signed by an unknown CA: set -ca-cert or NOMAD_CACERT to the file of the CA."
	case errors.As(err, &name):
		return "The agent's certificate is for another name: use one of its names in -address or NOMAD_ADDR, or set\n" +
			"-tls-server-name or NOMAD_TLS_SERVER_NAME to one, such as server.global.nomad."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The agent's certificate is expired or not yet valid. Check the clock of this machine."
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "The agent does not use TLS: use an http:// address in -address or NOMAD_ADDR."
	case errors.As(err, &remote) && remote.Op == "remote error": // a TLS alert of the agent
		return "The agent rejected the client certificate, or requires one: set -client-cert and -client-key, or NOMAD_CLIENT_CERT\n" +
			"and NOMAD_CLIENT_KEY, to a certificate of the agent's CA."
	}
	return ""
}
