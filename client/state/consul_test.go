package state_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
)

func TestConsulTokens(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	end := time.Unix(1e9, 0).UTC()
	tokens := []*state.ConsulToken{
		{Identity: "consul_default", Workload: "web", Accessor: "c1", Secret: "s1", Expires: end, Ready: true},
		{Identity: "consul-service_api", Service: "api", Accessor: "c2", Secret: "s2", Replaced: true, Ended: end},
	}
	for _, token := range tokens {
		if err := db.PutConsulToken("a1", token); err != nil {
			t.Fatal(err)
		}
	}
	db.PutConsulTokenLater("a12", &state.ConsulToken{Accessor: "c3"})
	if err := db.DeleteAlloc("a1"); err != nil { // the tokens stay until they are logged out
		t.Fatal(err)
	}
	db = reopen(t, db, dir)
	got, err := db.ConsulTokens("a1")
	if err != nil || len(got) != 1 || len(got["a1"]) != 2 || *got["a1"][0] != *tokens[0] || *got["a1"][1] != *tokens[1] {
		t.Errorf("ConsulTokens(a1) = %v, %v", got, err)
	}
	db.DeleteConsulToken("a1", "c1")
	db = reopen(t, db, dir)
	if got, err = db.ConsulTokens(""); err != nil || len(got["a1"]) != 1 || len(got["a12"]) != 1 {
		t.Errorf("ConsulTokens() = %v, %v", got, err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", got, *tokens[0], tokens[0], tokens[0]); strings.Contains(text, "s1") || strings.Contains(text, "s2") {
		t.Errorf("a secret is printed: %s", text)
	}
}
