package security_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// forge joins the parts of a modified token.
func forge(header, payload map[string]any, sign func(input string) []byte) string {
	part := func(v any) string {
		b, _ := json.Marshal(v) // maps of plain values
		return base64.RawURLEncoding.EncodeToString(b)
	}
	input := part(header) + "." + part(payload)
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

// badTokens derives bad tokens from a valid one and the public keys.
func badTokens(t *testing.T, h harness.Holder, foreign, jwks string) map[string]string {
	t.Helper()
	parts := strings.Split(h.Token, ".")
	var header, claims map[string]any
	for i, to := range []*map[string]any{&header, &claims} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, to); err != nil {
			t.Fatal(err)
		}
	}
	var set struct{ Keys []struct{ X string } }
	if err := json.Unmarshal([]byte(jwks), &set); err != nil || len(set.Keys) == 0 {
		t.Fatalf("JWKS: %v, %s", err, jwks)
	}
	public, err := base64.RawURLEncoding.DecodeString(set.Keys[0].X)
	if err != nil {
		t.Fatal(err)
	}
	_, own, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) []byte { return []byte("x") }
	eddsa := func(in string) []byte { return ed25519.Sign(own, []byte(in)) }
	with := func(m map[string]any, k string, v any) map[string]any {
		out := map[string]any{}
		for k, v := range m {
			out[k] = v
		}
		out[k] = v
		return out
	}
	return map[string]string{
		"another audience": h.AWS, "another cluster": foreign,
		"alg none":               forge(with(header, "alg", "none"), claims, none),
		"alg none, no signature": strings.TrimSuffix(forge(with(header, "alg", "none"), claims, none), "eA"),
		"HS256 with the public key": forge(with(header, "alg", "HS256"), claims, func(in string) []byte {
			mac := hmac.New(sha256.New, public)
			mac.Write([]byte(in))
			return mac.Sum(nil)
		}),
		"own key": forge(header, claims, eddsa),
		"key in the header": forge(with(header, "jwk", map[string]any{"kty": "OKP", "crv": "Ed25519",
			"x": base64.RawURLEncoding.EncodeToString(own.Public().(ed25519.PublicKey))}), claims, eddsa),
		"key elsewhere": forge(with(header, "jku", "http://127.0.0.1:1/jwks.json"), claims, eddsa),
		"path as kid":   forge(with(header, "kid", "../../../../dev/null"), claims, eddsa),
		"no kid":        forge(map[string]any{"alg": "EdDSA"}, claims, eddsa),
		"changed claims": forge(header, with(claims, "nomad_job_id", "other"),
			func(string) []byte { b, _ := base64.RawURLEncoding.DecodeString(parts[2]); return b }),
		"changed signature":   parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{1}, 64)),
		"zero signature":      parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
		"no signature":        parts[0] + "." + parts[1] + ".",
		"two parts":           parts[0] + "." + parts[1],
		"four parts":          h.Token + ".x",
		"five parts":          h.Token + ".x.y",
		"only dots":           "..",
		"many dots":           strings.Repeat(".", 7000),
		"too long":            h.Token + strings.Repeat("A", 9000),
		"padded":              h.Token + "==",
		"a uuid of nobody":    "01234567-89ab-cdef-0123-456789abcdef",
		"a uuid in capitals":  "01234567-89AB-CDEF-0123-456789ABCDEF",
		"deep header":         base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("[", 3000))) + ".e30.AAAA",
		"words":               "let me in",
		"JSON serialization":  `{"payload":"e30","signatures":[]}`,
		"the issuer's secret": "root",
	}
}

// The API socket of a task answers requests without a valid token with 401 or 403 on every route. A
// bad token is rejected on the TCP API as well.
func TestTaskAPIDemandsGoodTokens(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	h := harness.Hold(t, a, data, "holder")
	b, otherData := harness.SandboxAgent(t)
	foreign := harness.Hold(t, b, otherData, "holder")
	c := harness.SocketClient(t, h)
	routes := []string{"/", "/v1/jobs", "/v1/job/holder", "/v1/allocations", "/v1/allocation/" + h.Alloc.ID, "/v1/nodes", "/v1/agent/self",
		"/v1/agent/health", "/v1/status/leader",
		"/v1/metrics", "/.well-known/jwks.json", "/v1/client/fs/ls/" + h.Alloc.ID, "/v1/client/stats", "/v1/nothing", "/v1/../v1/jobs",
		"//v1/jobs", "/v1/system/gc", "/v1/acl/token/self"}
	for _, route := range routes {
		for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
			if code, body, _ := harness.Fetch(t, c, method, "http://task"+route, ""); code != http.StatusUnauthorized {
				t.Errorf("%s %s without a token = %d %.100q, want 401", method, route, code, body)
			}
		}
	}
	_, jwks, _ := harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/.well-known/jwks.json", "")
	for name, token := range badTokens(t, h, foreign.Token, jwks) {
		code, body, _ := harness.Fetch(t, c, "GET", "http://task/v1/jobs", token)
		if code != http.StatusForbidden || strings.Contains(body, "holder") {
			t.Errorf("%s on the socket = %d %.200q, want 403", name, code, body)
		}
		if strings.HasPrefix(name, "a uuid") {
			continue // without ACLs a secret ID is valid for everybody
		}
		if code, body, _ := harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/v1/jobs", token); code != http.StatusForbidden {
			t.Errorf("%s on TCP = %d %.200q, want 403", name, code, body)
		}
	}
	if code, body, _ := harness.Fetch(t, c, "GET", "http://task/v1/jobs", h.Token); code != http.StatusOK ||
		!strings.Contains(body, "holder") {
		t.Errorf("the valid token = %d %.200q, want 200", code, body)
	}
}

// A token is rejected as soon as its allocation has ended.
func TestTokenEndsWithItsAllocation(t *testing.T) {
	a, data := harness.SandboxAgent(t)
	gone, stays := harness.Hold(t, a, data, "gone"), harness.Hold(t, a, data, "stays")
	ask := func() (tcp, socket int) {
		tcp, _, _ = harness.Fetch(t, http.DefaultClient, "GET", a.Address()+"/v1/jobs", gone.Token)
		socket, _, _ = harness.Fetch(t, harness.SocketClient(t, stays), "GET", "http://task/v1/jobs", gone.Token)
		return tcp, socket
	}
	if tcp, socket := ask(); tcp != http.StatusOK || socket != http.StatusOK {
		t.Fatalf("the living token = %d, %d, want 200", tcp, socket)
	}
	stream := readOn(t, a, stays, gone.Token)
	if _, _, err := a.Client.Jobs().Deregister("gone", false, nil); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, 20*time.Second, "the allocation has ended", func() bool {
		allocs, _, err := a.Client.Jobs().Allocations("gone", true, nil)
		return err == nil && len(allocs) == 1 && allocs[0].ClientStatus != api.AllocClientStatusRunning
	})
	if tcp, socket := ask(); tcp != http.StatusForbidden || socket != http.StatusForbidden {
		t.Errorf("the token of a dead allocation = %d, %d, want 403", tcp, socket)
	}
	select {
	case <-stream:
	case <-time.After(harness.Patience):
		t.Error("the stream continues after the token became invalid")
	}
}

// readOn reads the log of a task with a token; the channel is closed when the stream ends.
func readOn(t *testing.T, a *cluster.Agent, h harness.Holder, token string) <-chan struct{} {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET",
		a.Address()+"/v1/client/fs/logs/"+h.Alloc.ID+"?task=t&type=stdout&follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Nomad-Token", token)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body) // any end is the end
	}()
	return ended
}
