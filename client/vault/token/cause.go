package token

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/vault"
)

// causes are the reasons of a refused login by a text in Vault's answer, the first match first. The answer itself is never
// shown: it could repeat the JWT. {role}, {method} and {claim} are replaced.
var causes = []struct{ text, cause string }{
	{"missing role", "neither the vault block nor the agent names a role, and {method} has no default_role"},
	{"could not be found", "{role} does not exist in {method}: correct role of the vault block or create_from_role of the agent, or " +
		"create the role in Vault (nomad setup vault creates \"nomad-workloads\" only)"},
	{"role_type", "{role} is not of the type jwt"},
	{"no audiences bound", "{role} has no bound_audiences: they must have aud of the identity"},
	{"(aud)", "{role} does not accept the audience of the identity: bound_audiences must have aud of the identity"},
	{"(iss)", "{method} does not accept the issuer of the identity: bound_issuer must be oidc_issuer of the servers"},
	{"(sub)", "bound_subject of {role} does not match sub of the identity"},
	{"is missing", "the identity has no claim {claim}, which bound_claims of {role} require"},
	{"does not match any associated bound claim", "claim {claim} of the identity does not match bound_claims of {role}"},
	{"not found in token", "the identity has no claim {claim}, which user_claim or claim_mappings of {role} require"},
	{"fetching keys", noKeys},
	{"get keys", noKeys},
	{"jwks", noKeys}, // before those of times: a certificate of the URL can have expired
	{"expired", "the identity has expired"},
	{"(exp)", "the identity has expired"},
	{"not yet valid", wrongClock},
	{"not valid yet", wrongClock},
	{"(nbf)", wrongClock},
	{"(iat)", wrongClock},
	{"algorithm", "{method} does not accept the algorithm of the identity: set jwt_supported_algs to RS256 and EdDSA"},
	{"signature", "{method} has no key for the signature of the identity: jwks_url must be of this cluster"},
	{"could not load configuration", "{method} is not configured: run nomad setup vault"},
	{"namespace", "Vault does not accept the namespace of the login"},
	{"permission denied", "{method} does not exist in Vault: create it with nomad setup vault, or correct jwt_auth_backend_path of " +
		"the agent"},
	{"no handler for route", "{method} does not exist in Vault: create it with nomad setup vault"},
}

const (
	wrongClock = "the identity is not valid yet: compare the clocks"
	noKeys     = "{method} cannot get the keys of this cluster: each server of Vault must reach its jwks_url"
)

// claim is the name of a claim in an answer. Its characters cannot be those of a JWT.
var claim = pattern.Lazy(`claim "(/?[a-z_]{1,64}(?:/[a-z_]{1,64}){0,3})"`)

// target names the parts of a login in its failures.
type target struct {
	role      string
	method    string // the path of the mount
	namespace string
}

// failed returns the failure for an error of a request.
func failed(err error, of target) *login.Failure {
	var status *api.ResponseError
	switch {
	case !vault.Answered(err):
		return login.Unanswered("Vault", err)
	case !errors.As(err, &status):
		return &login.Failure{Cause: vault.Redact(err).Error(), Answered: true}
	}
	code, about := status.StatusCode, strings.Join(status.Errors, "\n")
	switch {
	case code == http.StatusServiceUnavailable && strings.Contains(about, "sealed"):
		return &login.Failure{Cause: "Vault is sealed", Answered: true}
	case status.RawError, code < 400, code >= 500, code == http.StatusTooManyRequests, code == http.StatusPreconditionFailed:
		return &login.Failure{Cause: fmt.Sprintf("Vault answered with status %d", code), Answered: true}
	}
	return &login.Failure{Cause: fmt.Sprintf("%s (status %d)", of.words(about), code), Refused: true, Answered: true}
}

// words returns the cause that an answer names.
func (t target) words(answer string) string {
	role := "the default role of the auth method"
	if t.role != "" {
		role = fmt.Sprintf("role %q", t.role)
	}
	method := fmt.Sprintf("auth method %q", "auth/"+t.method)
	if t.namespace != "" {
		method += fmt.Sprintf(" of namespace %q", t.namespace)
	}
	for _, c := range causes {
		if !strings.Contains(strings.ToLower(answer), c.text) {
			continue
		}
		name := "with an unusual name"
		if found := claim().FindStringSubmatch(answer); found != nil {
			name = fmt.Sprintf("%q", found[1])
		}
		return strings.NewReplacer("{role}", role, "{method}", method, "{claim}", name).Replace(c.cause)
	}
	return "Vault refused the login"
}

// verdict is what an error of a request with a token means for the token.
type verdict int

const (
	unknown verdict = iota // Vault did not answer, or not about the token
	denied                 // the token exists, and the request is not allowed or not possible
	gone                   // the token does not exist
)

// goneTexts are the texts of answers to a token that does not exist.
var goneTexts = []string{"invalid token", "bad token", "token not found", "lease not found", "lease expired", "invalid lease id"}

// judge returns the verdict of an error. Vault has one text for a token that does not exist and for one whose policies deny the
// request. Only in the latter it counts the error.
func judge(err error) verdict {
	var status *api.ResponseError
	if !errors.As(err, &status) || status.RawError || status.StatusCode < 400 || status.StatusCode >= 500 ||
		status.StatusCode == http.StatusTooManyRequests || status.StatusCode == http.StatusPreconditionFailed {
		return unknown
	}
	about := strings.ToLower(strings.Join(status.Errors, "\n"))
	for _, text := range goneTexts {
		if strings.Contains(about, text) {
			return gone
		}
	}
	if status.StatusCode == http.StatusForbidden && strings.Contains(about, "permission denied") && !strings.Contains(about, "1 error occurred") {
		return gone
	}
	return denied
}
