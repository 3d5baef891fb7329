package jobs_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// claimed are the claims of a task's token that prove which artifacts it has.
type claimed struct {
	jwt.Claims
	Extra map[string]string `json:"extra_claims"`
}

// verified returns the claims of a token, whose signature it checks with the published keys.
func verified(t *testing.T, a *cluster.Agent, token string) claimed {
	t.Helper()
	_, text, _ := harness.Fetch(t, http.DefaultClient, http.MethodGet, a.Address()+"/.well-known/jwks.json", "")
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err != nil {
		t.Fatalf("parse the token %q: %v", token, err)
	}
	var c claimed
	if err := parsed.Claims(&keys, &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(jwt.Expected{Time: time.Now(), AnyAudience: jwt.Audience{"registry.example"}}); err != nil {
		t.Error(err)
	}
	return c
}

// The tokens that a task finds when it starts, in a file and in its environment, claim the digests of what was
// downloaded for it. Other tokens of the task have no such claim.
func TestArtifactClaim(t *testing.T) {
	a := harness.DevAgent(t)
	if _, err := a.Client.Namespaces().Register(&api.Namespace{Name: "default",
		OptionalExtraClaims: map[string]string{"proof": "${artifact.digests}"}}, nil); err != nil {
		t.Fatal(err)
	}
	plain, archive := []byte("plain\n"), tarFile(t, "dir/file", "archived\n")
	s := newArtifactServer(t, map[string][]byte{"/plain": plain, "/a.tar": archive})
	identity := func(name, more string) string {
		return fmt.Sprintf("identity {\n name = %q\n aud = [\"registry.example\"]\n file = true\n env = true\n ttl = \"1h\"\n %s\n}\n", name,
			more)
	}
	blocks := identity("proof", `extra_claims = ["proof"]`) + identity("other", "") + artifact(s.URL+"/plain") + artifact(s.URL+"/a.tar",
		`destination = "${NOMAD_ALLOC_DIR}/data/tree"`)
	for _, driver := range []string{"exec2", "raw_exec"} {
		t.Run(driver, func(t *testing.T) {
			script := `cp $NOMAD_SECRETS_DIR/nomad_*.jwt $NOMAD_ALLOC_DIR/data/; printf %s $NOMAD_TOKEN_proof > $NOMAD_ALLOC_DIR/data/env; sha256sum < local/plain > $NOMAD_ALLOC_DIR/data/sum`
			task := strings.Replace(harness.Shell(script, blocks), `"raw_exec"`, fmt.Sprintf("%q", driver), 1)
			id, _ := harness.Run(t, a, harness.Job("claim-"+driver, `type = "batch"`, harness.Once+task))
			al := harness.Await(t, a, id, "complete", 1)[0]
			want := map[string]string{"local/plain": fmt.Sprintf("sha256:%x", sha256.Sum256(plain)),
				"../alloc/data/tree": fmt.Sprintf("sha256:%x", sha256.Sum256(archive))}
			if sum := harness.SharedFile(t, a, al, "sum"); !strings.HasPrefix("sha256:"+sum, want["local/plain"]) {
				t.Fatalf("the task has a file with the digest %s, want %s", sum, want["local/plain"])
			}
			for _, name := range []string{"nomad_proof.jwt", "env"} {
				c := verified(t, a, harness.SharedFile(t, a, al, name))
				got := map[string]string{}
				if err := json.Unmarshal([]byte(c.Extra["proof"]), &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s claims %q, %v, want %v", name, c.Extra["proof"], err, want)
				}
			}
			if c := verified(t, a, harness.SharedFile(t, a, al, "nomad_other.jwt")); len(c.Extra) != 0 {
				t.Errorf("the other token claims %v", c.Extra)
			}
		})
	}
}
