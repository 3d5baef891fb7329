package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/jwt"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/login"
)

// A client assertion is signed by a root key, but is never accepted as a token, whatever claims it
// has.
func TestAssertionIsNotAToken(t *testing.T) {
	i := newIssuer(t, "https://nomad.example")
	for name, headers := range map[string]map[string]string{"plain": nil, "with a header": {"x-tenant": "t"}} {
		raw, err := i.ClientAssertion(t.Context(), login.Assertion{Client: "https://nomad.example", Audience: []string{nomad.IdentityDefaultAud},
			Alg: jwt.EdDSA, Headers: headers, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		head, err := base64.RawURLEncoding.DecodeString(strings.Split(raw, ".")[0])
		if err != nil {
			t.Fatal(err)
		}
		var header map[string]string
		if err := json.Unmarshal(head, &header); err != nil || header["alg"] != "EdDSA" || header["kid"] == "" ||
			header["x-tenant"] != headers["x-tenant"] {
			t.Errorf("%s: header %s", name, head)
		}
		if c, err := i.Verify(raw, now); !errors.Is(err, jwt.ErrInvalid) {
			t.Errorf("%s: Verify() = %v, %v, want an error", name, c, err)
		}
	}
	if _, err := i.ClientAssertion(t.Context(), login.Assertion{Client: "c", Alg: "HS256", Now: now}); err == nil {
		t.Error("a root key signs HS256")
	}
}
