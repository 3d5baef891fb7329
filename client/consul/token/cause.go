package token

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/login"
)

// causes are the reasons of a refusal by a text in Consul's answer, the first match first. The answer itself is never shown:
// it could repeat the JWT.
var causes = []struct{ text, cause string }{
	{"acl support disabled", "ACLs are disabled in Consul: enable them, or remove service_identity and task_identity from the servers and " +
		"register the job again"},
	{"auth method", ""}, // see methodCause
	{"acl not found", "Consul does not have the token of the agent: set token in the consul block of the agent"},
	{"jwks", noKeys}, // before "expired": a certificate of the URL can have expired
	{"keys", noKeys},
	{"expired", "the identity has expired"},
	{"not valid yet", "the identity is not valid yet: compare the clocks"},
	{"aud", "auth method %q does not accept the audience of the identity: BoundAudiences must have aud of the identity"},
	{"issuer", "auth method %q does not accept the issuer of the identity"},
	{"signature", "auth method %q has no key for the signature of the identity: JWKSURL must be of this cluster"},
	{"permission denied", "auth method %q does not accept the identity, or " + unbound},
}

const (
	noKeys  = "auth method %q cannot get the keys of this cluster: each server of Consul must reach its JWKSURL"
	unbound = "no binding rule gives it a right: run nomad setup consul, and create a role nomad-<namespace>-tasks for the tasks of each namespace"
)

// failed returns the failure for an error of a login.
func failed(err error, method string) *login.Failure {
	var status api.StatusError
	if !errors.As(err, &status) {
		return login.Unanswered("Consul", err)
	}
	about := strings.ToLower(status.Body)
	if status.Code < 400 || status.Code == http.StatusTooManyRequests || status.Code >= 500 && !aboutIdentity(about) {
		return &login.Failure{Cause: fmt.Sprintf("Consul answered with status %d", status.Code), Answered: true}
	}
	return &login.Failure{Cause: fmt.Sprintf("%s (status %d)", words(about, method), status.Code), Refused: true, Answered: true}
}

// aboutIdentity reports whether an answer with a status of the server's faults is about the JWT after all.
func aboutIdentity(body string) bool {
	for _, text := range []string{"jwt", "claim", "signature", "auth method"} {
		if strings.Contains(body, text) {
			return true
		}
	}
	return false
}

// words returns the cause that an answer names. body is in lower case.
func words(body, method string) string {
	for _, c := range causes {
		if !strings.Contains(body, c.text) {
			continue
		}
		if c.text == "auth method" {
			return methodCause(body, method)
		}
		if strings.Contains(c.cause, "%q") {
			return fmt.Sprintf(c.cause, method)
		}
		return c.cause
	}
	return "Consul refused the login"
}

// methodCause returns the cause in an answer about an auth method.
func methodCause(body, method string) string {
	switch {
	case strings.Contains(body, "fetch the keys"):
		return fmt.Sprintf(noKeys, method)
	case strings.Contains(body, "not found"):
		return fmt.Sprintf("auth method %q does not exist in Consul: create it with nomad setup consul", method)
	}
	return fmt.Sprintf("with auth method %q, "+unbound, method)
}

// unknown reports whether Consul does not have the token of a request.
func unknown(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized)
}
