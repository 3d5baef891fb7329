package idtoken_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rootkey"
)

var registered = idtoken.RegisteredClaims{Issuer: "https://nomad.example", Subject: "s", Audience: idtoken.Audience{"a"},
	Expiry: 30, NotBefore: 20, IssuedAt: 10, ID: "j"}

// kinds holds one claim set of each kind and its expected payload.
var kinds = map[string]struct {
	claims idtoken.Claims
	json   string
}{
	"workload": {
		idtoken.Claims{WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{Namespace: "default", JobID: "web",
			AllocationID: "a1", TaskName: "t", ExtraClaims: map[string]string{"k": "v"}}, RegisteredClaims: registered},
		`{"nomad_namespace":"default","nomad_job_id":"web","nomad_allocation_id":"a1","nomad_task":"t","extra_claims":{"k":"v"},` +
			`"iss":"https://nomad.example","sub":"s","aud":"a","exp":30,"nbf":20,"iat":10,"jti":"j"}`,
	},
	"node": {
		idtoken.Claims{NodeIdentityClaims: &idtoken.NodeIdentityClaims{NodeID: "n1", NodePool: "gpu"},
			RegisteredClaims: idtoken.RegisteredClaims{Audience: idtoken.Audience{"a", "b"}}},
		`{"nomad_node_id":"n1","nomad_node_pool":"gpu","aud":["a","b"]}`,
	},
	"introduction without a name": {
		idtoken.Claims{NodeIntroductionIdentityClaims: &idtoken.NodeIntroductionIdentityClaims{NodePool: "gpu"}},
		`{"nomad_node_pool":"gpu","nomad_node_name":""}`,
	},
}

func TestClaimsPayload(t *testing.T) {
	for name, c := range kinds {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(&c.claims)
			if err != nil || string(text) != c.json {
				t.Fatalf("Marshal() = %s, %v\nwant %s", text, err, c.json)
			}
			var back idtoken.Claims
			if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, c.claims) {
				t.Errorf("Unmarshal() = %+v, %v", back, err)
			}
		})
	}
}

func TestClaimsOnTheWire(t *testing.T) {
	for name, c := range kinds {
		t.Run(name, func(t *testing.T) {
			reply := message.ACLWhoAmIResponse{Identity: &rbac.AuthenticatedIdentity{Claims: &c.claims}}
			raw, err := codec.Encode(&reply)
			if err != nil {
				t.Fatal(err)
			}
			var back message.ACLWhoAmIResponse
			if err := codec.Decode(raw, &back); err != nil || !reflect.DeepEqual(*back.Identity.Claims, c.claims) {
				t.Errorf("Decode() = %+v, %v", back.Identity.Claims, err)
			}
			var plain struct {
				Identity struct{ Claims map[string]any }
			}
			if err := codec.Decode(raw, &plain); err != nil {
				t.Fatal(err)
			}
			_, workload := plain.Identity.Claims["AllocationID"]
			_, node := plain.Identity.Claims["NodeID"]
			_, intro := plain.Identity.Claims["NodeName"]
			if got, want := fmt.Sprint(workload, node, intro), fmt.Sprint(c.claims.WorkloadIdentityClaims != nil,
				c.claims.NodeIdentityClaims != nil, c.claims.NodeIntroductionIdentityClaims != nil); got != want {
				t.Errorf("names on the wire are of the kinds %s, want %s", got, want)
			}
		})
	}
}

func TestClaimsRefused(t *testing.T) {
	for _, payload := range []string{
		`[]`, `{}`, `null`, `{"sub":"x"}`, `{"nomad_node_pool":"p"}`,
		`{"nomad_node_id":"n","nomad_namespace":"default"}`,
		`{"nomad_node_id":"n","nomad_node_name":""}`,
		`{"nomad_node_name":"","extra_claims":{}}`,
		`{"nomad_node_id":"n","NOMAD_NODE_POOL":"p"}`,
		`{"nomad_node_id":5}`, `{"nomad_node_id":"n","exp":"5"}`, `{"nomad_node_id":"n","aud":5}`,
		`{"nomad_node_id":"n","exp":1.5}`,
	} {
		var c idtoken.Claims
		if err := json.Unmarshal([]byte(payload), &c); err == nil {
			t.Errorf("Unmarshal(%s) succeeds: %+v", payload, c)
		}
	}
	two := idtoken.Claims{NodeIdentityClaims: &idtoken.NodeIdentityClaims{}, WorkloadIdentityClaims: &idtoken.WorkloadIdentityClaims{}}
	for _, c := range []idtoken.Claims{{}, two} {
		if text, err := json.Marshal(c); err == nil {
			t.Errorf("Marshal() of claims of no one kind = %s", text)
		}
	}
}

// Tokens and keys are never printed, with any verb, logger or encoding, directly or as part of
// another value.
func TestSecretsDoNotPrint(t *testing.T) {
	const secret = "eyJsecretsecretsecret"
	blob := &rootkey.BlobInfo{Ciphertext: []byte(secret), Iv: []byte(secret), Plaintext: []byte(secret),
		KeyInfo: &rootkey.KeyInfo{WrappedKey: []byte(secret), Key: []byte(secret)}}
	wrapped := &rootkey.Wrapped{Provider: "aead", WrappedDataEncryptionKey: blob, WrappedRSAKey: blob, KeyEncryptionKey: []byte(secret)}
	root := &rootkey.Key{KeyID: "key1", WrappedKeys: []*rootkey.Wrapped{wrapped}}
	token := idtoken.New(secret, "key1")
	type holder struct { // unexported fields: fmt finds no methods there
		token  idtoken.Token
		tokens map[string]idtoken.Token
		list   []idtoken.Token
		any    any
	}
	held := holder{token, map[string]idtoken.Token{"a": token}, []idtoken.Token{token}, token}
	var shown []string
	wrap := strings.Replace("%v", "v", "w", 1)
	for _, v := range []any{token, &token, held, &held, []idtoken.Token{token}, map[string]any{"a": token}, struct{ T idtoken.Token }{token},
		blob, wrapped, root, []*rootkey.Key{root}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%T", "%p", "%o", "%U", "%e", "%z"} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
		if strings.Contains(fmt.Sprintf("%T", v), "Token") { // vet refuses it for what is no error
			shown = append(shown, fmt.Sprintf(wrap, v))
		}
		shown = append(shown, fmt.Sprint(v), fmt.Sprintln(v), fmt.Errorf("x: %v", v).Error())
		var text bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&text, nil)} {
			if _, wire := v.([]*rootkey.Key); !wire { // a list is encoded as JSON, which is no way to log
				slog.New(h).Info("m", "v", v, slog.Group("g", "v", v))
			}
		}
		shown = append(shown, text.String())
		func() {
			defer func() { shown = append(shown, fmt.Sprint(recover())) }()
			panic(v)
		}()
	}
	for _, v := range []any{token, &token, held, []idtoken.Token{token}, map[string]idtoken.Token{"a": token}} {
		for _, encode := range []func(any) ([]byte, error){json.Marshal, codec.Encode} {
			out, err := encode(v)
			if err != nil {
				t.Errorf("encode %T: %v", v, err)
			}
			shown = append(shown, string(out))
		}
	}
	hexed, numbers := fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprint([]byte(secret)), "[]")
	for _, text := range shown {
		for _, form := range []string{secret, hexed, strings.ToUpper(hexed), fmt.Sprintf("% x", secret), numbers,
			base64.StdEncoding.EncodeToString([]byte(secret))} {
			if strings.Contains(text, form) {
				t.Errorf("shown: %.200s", text)
			}
		}
	}
	if token.Reveal() != secret || token.KeyID() != "key1" || token.IsZero() || !(idtoken.Token{}).IsZero() ||
		idtoken.New("", "k").Reveal() != "" || fmt.Sprint(token) != "token(kid=key1)" || fmt.Sprint(root) != "root key(key1)" {
		t.Errorf("token is %v, key is %v", token, root)
	}
}
