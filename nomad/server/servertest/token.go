package servertest

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// Introduce creates an introduction token.
func Introduce(t *testing.T, s *server.Server, req message.ACLCreateClientIntroductionTokenRequest) string {
	t.Helper()
	return Read[message.ACLCreateClientIntroductionTokenResponse](t, s, "ACL.CreateClientIntroductionToken", &req).JWT
}

// Claims returns the claims of a token.
func Claims(t *testing.T, token string) map[string]any {
	t.Helper()
	var claims map[string]any
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = json.Unmarshal(body, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// KeyOf returns the key ID and the algorithm of a token.
func KeyOf(t *testing.T, token string) (kid, alg string) {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	var head struct{ Kid, Alg string }
	if err == nil {
		err = json.Unmarshal(text, &head)
	}
	if err != nil {
		t.Fatal(err)
	}
	return head.Kid, head.Alg
}
