package term

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
)

// tlsHint says how to mend a connection that TLS did not let happen, empty for
// other errors.
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
		return "The agent's certificate is not of a CA that is known here: name the CA's file with -ca-cert or NOMAD_CACERT."
	case errors.As(err, &name):
		return "The agent's certificate is for another name: use such a name in -address or NOMAD_ADDR, or say which to expect with\n" +
			"-tls-server-name or NOMAD_TLS_SERVER_NAME, such as server.global.nomad."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "The agent's certificate is not valid at the time of this machine's clock."
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "The agent does not speak TLS: use an http:// address in -address or NOMAD_ADDR."
	case errors.As(err, &remote) && remote.Op == "remote error": // a TLS alert of the other side
		return "The agent refused this client's certificate, or misses it: name one of the agent's CA with -client-cert and -client-key,\n" +
			"or NOMAD_CLIENT_CERT and NOMAD_CLIENT_KEY."
	}
	return ""
}
