package nomad_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

var registered = nomad.RegisteredClaims{Issuer: "https://nomad.example", Subject: "s", Audience: nomad.Audience{"a"},
	Expiry: 30, NotBefore: 20, IssuedAt: 10, ID: "j"}

// kinds holds one claim set of each kind, with what its payload must be.
var kinds = map[string]struct {
	claims nomad.IdentityClaims
	json   string
}{
	"workload": {
		nomad.IdentityClaims{WorkloadIdentityClaims: &nomad.WorkloadIdentityClaims{Namespace: "default", JobID: "web",
			AllocationID: "a1", TaskName: "t", ExtraClaims: map[string]string{"k": "v"}}, RegisteredClaims: registered},
		`{"nomad_namespace":"default","nomad_job_id":"web","nomad_allocation_id":"a1","nomad_task":"t","extra_claims":{"k":"v"},` +
			`"iss":"https://nomad.example","sub":"s","aud":"a","exp":30,"nbf":20,"iat":10,"jti":"j"}`,
	},
	"node": {
		nomad.IdentityClaims{NodeIdentityClaims: &nomad.NodeIdentityClaims{NodeID: "n1", NodePool: "gpu"},
			RegisteredClaims: nomad.RegisteredClaims{Audience: nomad.Audience{"a", "b"}}},
		`{"nomad_node_id":"n1","nomad_node_pool":"gpu","aud":["a","b"]}`,
	},
	"introduction without a name": {
		nomad.IdentityClaims{NodeIntroductionIdentityClaims: &nomad.NodeIntroductionIdentityClaims{NodePool: "gpu"}},
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
			var back nomad.IdentityClaims
			if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, c.claims) {
				t.Errorf("Unmarshal() = %+v, %v", back, err)
			}
		})
	}
}

func TestClaimsOnTheWire(t *testing.T) {
	for name, c := range kinds {
		t.Run(name, func(t *testing.T) {
			reply := nomad.ACLWhoAmIResponse{Identity: &nomad.AuthenticatedIdentity{Claims: &c.claims}}
			raw, err := nomad.Encode(&reply)
			if err != nil {
				t.Fatal(err)
			}
			var back nomad.ACLWhoAmIResponse
			if err := nomad.Decode(raw, &back); err != nil || !reflect.DeepEqual(*back.Identity.Claims, c.claims) {
				t.Errorf("Decode() = %+v, %v", back.Identity.Claims, err)
			}
			var plain struct {
				Identity struct{ Claims map[string]any }
			}
			if err := nomad.Decode(raw, &plain); err != nil {
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
		var c nomad.IdentityClaims
		if err := json.Unmarshal([]byte(payload), &c); err == nil {
			t.Errorf("Unmarshal(%s) succeeds: %+v", payload, c)
		}
	}
	two := nomad.IdentityClaims{NodeIdentityClaims: &nomad.NodeIdentityClaims{}, WorkloadIdentityClaims: &nomad.WorkloadIdentityClaims{}}
	for _, c := range []nomad.IdentityClaims{{}, two} {
		if text, err := json.Marshal(c); err == nil {
			t.Errorf("Marshal() of claims of no one kind = %s", text)
		}
	}
}

func TestTokenDoesNotPrint(t *testing.T) {
	token := nomad.NewToken("eyJ.secret.sig", "key1")
	text, err := json.Marshal(map[string]any{"t": token})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(token), fmt.Sprintf("%+v %#v %q", token, token, token), token.LogValue().String(), string(text)} {
		if strings.Contains(shown, "secret") {
			t.Errorf("token prints as %s", shown)
		}
	}
	if token.Reveal() != "eyJ.secret.sig" {
		t.Error("Reveal() is not the token")
	}
}
