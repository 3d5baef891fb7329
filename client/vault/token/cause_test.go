package token

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/vault/api"
)

// answer returns the error for an answer of Vault with a status, whose text also has a secret.
func answer(status int, text string) error {
	return fmt.Errorf("canary: %w", &api.ResponseError{StatusCode: status, URL: "http://canary/v1/x", Errors: []string{text + ` eyJcanary "canary"`}})
}

// TestFailed checks the words for errors of a login. Nothing of the answer but the name of a claim is part of them, since it
// could repeat the JWT.
func TestFailed(t *testing.T) {
	const method = `auth method "auth/jwt-nomad"`
	for _, c := range []struct {
		err     error
		want    string
		refused bool
	}{
		{answer(400, "missing role"), "neither the vault block nor the agent names a role, and " + method + " has no default_role (status 400)", true},
		{answer(400, `role "r" could not be found`),
			`role "r" does not exist in ` + method + `: correct role of the vault block or create_from_role of the agent, or create the role in Vault ` +
				`(nomad setup vault creates "nomad-workloads" only) (status 400)`, true},
		{answer(400, "error validating token: invalid audience (aud) claim: audience claim does not match any bound audience"),
			`role "r" does not accept the audience of the identity: bound_audiences must have aud of the identity (status 400)`, true},
		{answer(400, "error validating token: audience claim found in JWT but no audiences bound to the role"),
			`role "r" has no bound_audiences: they must have aud of the identity (status 400)`, true},
		{answer(400, "error validating token: invalid issuer (iss) claim"),
			method + " does not accept the issuer of the identity: bound_issuer must be oidc_issuer of the servers (status 400)", true},
		{answer(400, "error validating token: invalid subject (sub) claim"), `bound_subject of role "r" does not match sub of the identity (status 400)`, true},
		{answer(400, `error validating claims: claim "nomad_namespace" does not match any associated bound claim values`),
			`claim "nomad_namespace" of the identity does not match bound_claims of role "r" (status 400)`, true},
		{answer(400, `error validating claims: claim "/extra_claims/team" is missing`),
			`the identity has no claim "/extra_claims/team", which bound_claims of role "r" require (status 400)`, true},
		{answer(400, `error validating claims: claim "eyJhbGciOi" is missing`),
			`the identity has no claim with an unusual name, which bound_claims of role "r" require (status 400)`, true},
		{answer(400, `claim "nomad_job_id" not found in token`),
			`the identity has no claim "nomad_job_id", which user_claim or claim_mappings of role "r" require (status 400)`, true},
		{answer(400, "error validating token: invalid expiration time (exp) claim: token is expired"), "the identity has expired (status 400)", true},
		{answer(400, "error validating token: invalid not before (nbf) claim: token not yet valid"), wrongClock + " (status 400)", true},
		{answer(400, "error validating token: error verifying token signature: no known key successfully validated the token signature"),
			method + " has no key for the signature of the identity: jwks_url must be of this cluster (status 400)", true},
		{answer(400, `error verifying token: unexpected signature algorithm "EdDSA"`),
			method + " does not accept the algorithm of the identity: set jwt_supported_algs to RS256 and EdDSA (status 400)", true},
		{answer(400, "error validating token: fetching keys oidc: get keys failed"),
			method + " cannot get the keys of this cluster: each server of Vault must reach its jwks_url (status 400)", true},
		{answer(400, `error validating token: error fetching keys oidc: Get "https://n/jwks.json": tls: certificate has expired or is not yet valid`),
			method + " cannot get the keys of this cluster: each server of Vault must reach its jwks_url (status 400)", true},
		{answer(403, "permission denied"),
			method + " does not exist in Vault: create it with nomad setup vault, or correct jwt_auth_backend_path of the agent (status 403)", true},
		{answer(400, "something new"), "Vault refused the login (status 400)", true},
		{answer(429, "missing role"), "Vault answered with status 429", false},
		{answer(500, "missing role"), "Vault answered with status 500", false},
		{answer(503, "Vault is sealed"), "Vault is sealed", false},
		{&api.ResponseError{StatusCode: 403, RawError: true, Errors: []string{"<html>permission denied"}}, "Vault answered with status 403", false}, // of a proxy
		{answer(473, "standby"), "Vault refused the login (status 473)", true},
		{&url.Error{Op: "Put", URL: "http://canary", Err: context.DeadlineExceeded}, "Vault does not answer", false},
		{context.DeadlineExceeded, "Vault does not answer", false},
		{errors.New("canary"), "the answer is malformed, incomplete or not of Vault: check the address of the vault block", false},
	} {
		got := failed(c.err, target{role: "r", method: "jwt-nomad"})
		if got.Cause != c.want || got.Refused != c.refused {
			t.Errorf("failed(%v) = %q, %t, want %q, %t", c.err, got.Cause, got.Refused, c.want, c.refused)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", got, *got), "canary") {
			t.Errorf("%q has a part of the answer", got.Cause)
		}
	}
	got := failed(answer(403, "permission denied"), target{method: "m", namespace: "n"})
	if want := `auth method "auth/m" of namespace "n" does not exist`; !strings.Contains(got.Cause, want) {
		t.Errorf("failed() = %q, want %q", got.Cause, want)
	}
}

// TestJudge checks what an error of a request with a token means for the token.
func TestJudge(t *testing.T) {
	status := func(code int, text string) error { return &api.ResponseError{StatusCode: code, Errors: []string{text}} }
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{status(403, "permission denied"), gone},
		{status(403, "2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n"), gone},
		{status(403, "bad token"), gone},
		{status(400, "lease not found"), gone},
		{status(403, "1 error occurred:\n\t* permission denied\n\n"), denied},
		{status(400, "lease is not renewable"), denied},
		{status(400, "batch tokens cannot be renewed"), denied},
		{status(404, "unsupported path"), denied},
		{status(503, "Vault is sealed"), unknown},
		{status(500, "permission denied"), unknown},
		{status(429, "bad token"), unknown},
		{&api.ResponseError{StatusCode: 403, RawError: true, Errors: []string{"<html>permission denied"}}, unknown}, // of a proxy
		{context.DeadlineExceeded, unknown},
		{errLookup, unknown},
	} {
		if got := judge(c.err); got != c.want {
			t.Errorf("judge(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

// TestDown checks which errors of a revocation end the revocations for a time.
func TestDown(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{answer(503, "Vault is sealed"), true},
		{context.DeadlineExceeded, true},
		{&url.Error{Op: "Put", URL: "http://x", Err: syscall.ECONNREFUSED}, true},
		{answer(500, "failed to revoke the leases"), false},
		{answer(429, "quota"), false},
		{answer(412, "not here"), false},
		{errRenewal, false},
	} {
		if got := down(c.err); got != c.want {
			t.Errorf("down(%v) = %t, want %t", c.err, got, c.want)
		}
	}
}
