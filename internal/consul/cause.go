package consul

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// errTooLarge means that an answer exceeds MaxAnswer.
var errTooLarge = fmt.Errorf("the answer of Consul exceeds %d MiB", MaxAnswer>>20)

// lacks matches the right that a token does not have, in an answer of Consul.
var lacks = pattern.Lazy(`lacks permission '([a-z]{1,32}:[a-z]{1,32})'`)

// answers are the causes of a status by a text in Consul's answer, the first match first. The answer itself is never shown,
// because it could repeat a token or the header of a check.
var answers = []struct {
	status      int
	text, cause string
}{
	{http.StatusForbidden, "ACL not found", "Consul does not have the token, or it has expired"},
	{http.StatusForbidden, "anonymous token", "the request has no token: set token in the consul block"},
	{http.StatusForbidden, "Permission denied", "the token does not have the right"},
	{http.StatusBadRequest, "HTTP request to an HTTPS server", "Consul requires TLS: set ssl in the consul block"},
	{http.StatusBadRequest, "Missing service name", "the name of the service is empty"},
	{http.StatusBadRequest, "Invalid Service Meta", "Consul does not accept the meta of the service"},
	{http.StatusBadRequest, "Invalid Weights", "Consul does not accept the weights of the service"},
	{http.StatusBadRequest, "Invalid service address", "Consul does not accept the address of the service"},
	{http.StatusBadRequest, "Invalid check", "Consul does not accept a check of the service"},
	{http.StatusInternalServerError, "No cluster leader", "the servers of Consul have no leader"},
	{http.StatusTooManyRequests, "", "Consul limits the rate of requests"},
}

// remedies are what the operator can do about errors without an answer of Consul.
var remedies = []struct {
	of     func(error) bool
	remedy string
}{
	{is(syscall.ECONNREFUSED), "check that Consul runs, and the address of the consul block"},
	{is(io.EOF), "the connection was closed before the answer: check Consul, and a proxy before it"},
	{as[x509.HostnameError], "use a name of the certificate as address of the consul block, or set CONSUL_TLS_SERVER_NAME"},
	{as[x509.UnknownAuthorityError], "set ca_file in the consul block"},
	{contains("HTTP response to HTTPS client"), "Consul has no TLS at this address: set ssl = false in the consul block, or another port"},
	{contains("tls: certificate required"), "set cert_file and key_file in the consul block"},
	{contains("tls: bad certificate"), "Consul does not accept the certificate of cert_file in the consul block"},
}

// explained is an error with what to do about it.
type explained struct {
	error
	remedy string
}

func (e *explained) Error() string { return e.error.Error() + ": " + e.remedy }
func (e *explained) Unwrap() error { return e.error }

// cause returns the cause of a status after a colon, "" if it is not known.
func cause(s api.StatusError) string {
	right := lacks().FindStringSubmatch(s.Body)
	if right != nil && s.Code == http.StatusForbidden && !strings.Contains(s.Body, "anonymous token") {
		return ": the token does not have the right " + right[1]
	}
	for _, a := range answers {
		if a.status == s.Code && strings.Contains(s.Body, a.text) {
			return ": " + a.cause
		}
	}
	redirect := s.Code >= http.StatusMultipleChoices && s.Code < http.StatusBadRequest
	if redirect || s.Code == http.StatusNotFound && !strings.HasPrefix(s.Body, "Unknown ") {
		return ": the address may not be that of an agent of Consul"
	}
	return ""
}

// remedy returns what to do about an error of the connection, "" if that is not known.
func remedy(err error) string {
	for _, r := range remedies {
		if r.of(err) {
			return r.remedy
		}
	}
	return ""
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

func contains(text string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), text) }
}

func as[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}
