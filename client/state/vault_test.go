package state_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
)

func TestVaultTokens(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	end := time.Unix(1e9, 0).UTC()
	tokens := []*state.VaultToken{
		{ID: "c1", Task: "web", Accessor: "c1", Secret: "s1", Role: "r", Created: end, Lease: time.Hour, Renewable: true},
		{ID: "c2", Task: "db", Secret: "s2", Namespace: "n", Batch: true, Ended: end},
	}
	for _, token := range tokens {
		if err := db.PutVaultToken("a1", token); err != nil {
			t.Fatal(err)
		}
	}
	db.PutVaultTokenLater("a12", &state.VaultToken{ID: "c3"})
	if err := db.DeleteAlloc("a1"); err != nil { // the tokens stay until they are revoked
		t.Fatal(err)
	}
	db = reopen(t, db, dir)
	got, err := db.VaultTokens("a1")
	if err != nil || len(got) != 1 || len(got["a1"]) != 2 || *got["a1"][0] != *tokens[0] || *got["a1"][1] != *tokens[1] {
		t.Errorf("VaultTokens(a1) = %v, %v", got, err)
	}
	db.DeleteVaultToken("a1", "c1")
	db = reopen(t, db, dir)
	if got, err = db.VaultTokens(""); err != nil || len(got["a1"]) != 1 || len(got["a12"]) != 1 {
		t.Errorf("VaultTokens() = %v, %v", got, err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", got, *tokens[0], tokens[0], tokens[0]); strings.Contains(text, "s1") || strings.Contains(text, "s2") {
		t.Errorf("a secret is printed: %s", text)
	}
}
